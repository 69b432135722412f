#include "kube/reflector.hpp"

#include <algorithm>

namespace bascule::kube {

namespace {

constexpr std::uint32_t kWatchFailures = 5;                   // in a row, before a list is tried instead
constexpr Duration kHealthyWatch = std::chrono::seconds(10);  // a watch that lived so long worked, even in silence
constexpr Duration kCaughtUp = std::chrono::seconds(2);       // since a watch was opened
constexpr Duration kQuickRetry = std::chrono::milliseconds(200);

bool decimal(std::string_view text) noexcept {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos && text.front() != '0';
}

}  // namespace

bool older_version(std::string_view a, std::string_view b) noexcept {
  if (!decimal(a) || !decimal(b)) return false;
  return a.size() != b.size() ? a.size() < b.size() : a < b;
}

ReflectorCore::ReflectorCore(std::size_t page, std::uint64_t seed, ReflectorTimes times)
    : page_(page), times_(times), random_(static_cast<std::minstd_rand::result_type>(seed ^ (seed >> 32))) {}

Duration ReflectorCore::random(Duration low, Duration high) {
  const double share = std::uniform_real_distribution<double>(0, 1)(random_);
  return low + std::chrono::duration_cast<Duration>((high - low) * share);
}

ReflectorCore::Request ReflectorCore::next(TimePoint now) {
  Request request;
  if (now < not_before_) {
    request.until = not_before_;
    return request;
  }
  if (phase_ == Phase::kWatch) {
    timeout_ = std::chrono::floor<std::chrono::seconds>(random(times_.watch_min, times_.watch_max));
    request.kind = Request::Kind::kWatch;
    request.resource_version = version_;
    request.timeout = timeout_;
    return request;
  }
  request.kind = Request::Kind::kList;
  request.limit = paged_ ? page_ : 0;
  request.first_page = first_page_;
  if (!continue_.empty()) {
    request.continue_token = continue_;
  } else if (freshness_ == Freshness::kAny) {
    request.resource_version = "0";
  } else if (freshness_ == Freshness::kNotOlder) {
    request.resource_version = version_;
  }
  first_page_ = false;
  return request;
}

void ReflectorCore::restart_list(Freshness freshness) {
  phase_ = Phase::kList;
  freshness_ = freshness;
  first_page_ = true;
  continue_.clear();
}

// A server that is back begins anew: it has often forgotten where a watch was, and says so at once.
void ReflectorCore::back_off(ReflectorFailure failure, Duration asked, TimePoint now) {
  const bool away = failure == ReflectorFailure::kUnreachable;
  const Duration longest = away ? times_.unreachable_max : times_.backoff_max;
  if (!away) unreachable_ = 0;
  std::uint32_t& times = away ? unreachable_ : failures_;
  Duration low = times_.backoff_min;
  for (std::uint32_t i = 0; i < times && low < longest; ++i) low *= 2;
  low = std::min(low, longest * 2 / 3);
  ++times;
  not_before_ = now + std::max(bounded(asked), random(low, low * 3 / 2));
}

bool ReflectorCore::page_done(const json::ListMeta& meta, TimePoint now) {
  // Failures are forgotten by a watch that works: a server whose lists are good and whose watches are not is not asked
  // for one list after the other.
  not_before_ = now;
  version_ = meta.resource_version;
  continue_ = meta.continue_token;
  if (!continue_.empty()) return false;
  phase_ = Phase::kWatch;
  paged_ = true;
  cut_ = false;
  heard_at_ = now;
  return true;
}

void ReflectorCore::list_failed(ReflectorFailure failure, bool items_taken, Duration pause, TimePoint now) {
  const bool paging = !continue_.empty();
  if (failure == ReflectorFailure::kExpired && paging && freshness_ == Freshness::kMostRecent) {
    paged_ = false;  // no snapshot lives long enough for all pages: take all at once
  }
  if (failure == ReflectorFailure::kExpired || failure == ReflectorFailure::kVersionTooLarge) {
    restart_list(Freshness::kMostRecent);
  } else if (!paging) {
    // What was taken of this list must not be followed by something older from another server.
    restart_list(items_taken ? Freshness::kMostRecent : freshness_);
  }
  // Else the same page again: its token still stands for the same snapshot.
  back_off(failure, pause, now);
}

void ReflectorCore::watch_opened(TimePoint now) {
  watching_ = true;
  opened_ = now;
  ends_ = now + timeout_;
  dead_at_ = ends_ + times_.watch_grace;
  bookmarks_ = false;
  progress_ = false;
}

void ReflectorCore::heard(std::string_view resource_version, TimePoint now) {
  if (!resource_version.empty()) version_ = resource_version;
  failures_ = unreachable_ = 0;
  cut_ = false;
  progress_ = true;
  heard_at_ = now;
  if (bookmarks_) dead_at_ = std::min(ends_ + times_.watch_grace, now + times_.bookmark_silence);
}

bool ReflectorCore::watch_event(std::string_view resource_version, TimePoint now) {
  const bool news = resource_version != version_ && !older_version(resource_version, version_);
  // A repetition shows that the line is alive, but is no progress: a server that tells the past again and again and
  // ends is not asked in a tight circle.
  if (news) {
    heard(resource_version, now);
  } else if (bookmarks_) {
    dead_at_ = std::min(ends_ + times_.watch_grace, now + times_.bookmark_silence);
  }
  return news;
}

bool ReflectorCore::watch_bookmark(std::string_view resource_version, TimePoint now) {
  if (older_version(resource_version, version_)) return false;
  bookmarks_ = true;
  heard(resource_version, now);
  return true;
}

bool ReflectorCore::cut(TimePoint now) const noexcept {
  return cut_ && !(watching_ && now - opened_ >= kCaughtUp);
}

bool ReflectorCore::close_watch(TimePoint now) {
  const bool healthy = watching_ && (progress_ || now - opened_ >= kHealthyWatch);
  if (healthy) failures_ = unreachable_ = 0;
  watching_ = false;
  dead_at_ = TimePoint::max();
  return healthy;
}

void ReflectorCore::watch_ended(TimePoint now) {
  const bool healthy = close_watch(now);
  cut_ = true;
  if (silent(now)) restart_list(Freshness::kNotOlder);
  if (healthy) {
    not_before_ = now;
  } else {
    back_off(ReflectorFailure::kFailed, {}, now);
  }
}

void ReflectorCore::watch_failed(ReflectorFailure failure, Duration pause, TimePoint now) {
  const bool healthy = close_watch(now);
  cut_ = true;
  // Of a server that is away nothing says that it will not go on where it was.
  const bool failed = failures_ >= kWatchFailures && failure != ReflectorFailure::kUnreachable;
  const bool in_vain = (failed || silent(now)) && failure != ReflectorFailure::kBusy;
  if (failure == ReflectorFailure::kExpired || failure == ReflectorFailure::kVersionTooLarge) {
    restart_list(Freshness::kMostRecent);
  } else if (in_vain) {
    restart_list(Freshness::kNotOlder);
  }
  // A watch that worked is taken up at once, but not by everybody in the same instant.
  if (healthy) {
    not_before_ = now + std::max(bounded(pause), random({}, kQuickRetry));
  } else {
    back_off(failure, pause, now);
  }
}

}  // namespace bascule::kube
