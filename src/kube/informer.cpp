#include "kube/informer.hpp"

#include <fmt/format.h>

#include <random>
#include <utility>

#include "json/error.hpp"
#include "json/split.hpp"

namespace bascule::kube {

namespace {

constexpr Duration kHeadTime = std::chrono::seconds(60);   // until the head of an answer
constexpr Duration kPieceTime = std::chrono::seconds(60);  // between pieces of a list
constexpr Duration kLogEvery = std::chrono::seconds(10);
constexpr Duration kOld = std::chrono::minutes(2);  // what is known is by then no longer to be relied on

struct Failure {
  ReflectorFailure kind = ReflectorFailure::kFailed;
  Duration pause{};
  std::string text;
  bool stopped = false;
};

Failure failure_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Gone& e) {
    return {.kind = ReflectorFailure::kExpired, .text = e.what()};
  } catch (const VersionTooLarge& e) {
    return {.kind = ReflectorFailure::kVersionTooLarge, .text = e.what()};
  } catch (const TooManyRequests& e) {
    return {.kind = ReflectorFailure::kBusy, .pause = e.retry_after, .text = e.what()};
  } catch (const Unreachable& e) {
    return {.kind = ReflectorFailure::kUnreachable, .text = e.what()};
  } catch (const net::Error& e) {
    return {.text = e.what(), .stopped = e.kind() == net::Error::Kind::kStopped};
  } catch (const std::exception& e) {
    return {.text = e.what()};
  }
}

// Which kind, and where, for logs.
std::string what_of(const InformerOptions& options) {
  return options.ns.empty() ? options.resource.resource : options.resource.resource + " in " + options.ns;
}

}  // namespace

Reflector::Reflector(Client& client, InformerOptions options, Decode decode)
    : client_(client),
      loop_(client.loop()),
      options_(std::move(options)),
      decode_(std::move(decode)),
      core_(options_.page, options_.seed != 0 ? options_.seed : std::random_device()(), options_.times),
      bell_(loop_),
      gate_(loop_) {
  if (options_.fresh) core_.begin_fresh();
}

Reflector::~Reflector() = default;

void Reflector::start() {
  fresh_ = loop_.now();
  client_.report_cache({options_.resource.resource, options_.ns, 0, 0});
  spawn(gate_, run());
}

Task<> Reflector::stop() {
  stop_.request_stop();
  co_await gate_.close();
  if (const std::uint32_t before = std::exchange(told_failures_, 0); before != 0) {
    client_.report_cache({options_.resource.resource, options_.ns, 0, before});
  }
}

Task<bool> Reflector::wait_synced(std::stop_token stop, TimePoint deadline) {
  while (!synced_) {
    const bool news = co_await bell_.wait(stop, deadline);
    if (!news) break;
  }
  co_return synced_;
}

std::string Reflector::target(const ReflectorCore::Request& request) const {
  std::string out = resource_path(options_.resource, options_.ns);
  char mark = '?';
  const auto add = [&](std::string_view key, std::string_view value) {
    if (value.empty()) return;
    out += fmt::format("{}{}={}", std::exchange(mark, '&'), key, net::percent_encode(value));
  };
  add("labelSelector", options_.selectors.labels);
  add("fieldSelector", options_.selectors.fields);
  if (request.kind == ReflectorCore::Request::Kind::kWatch) {
    add("watch", "true");
    add("allowWatchBookmarks", "true");
    add("resourceVersion", request.resource_version);
    add("timeoutSeconds", std::to_string(std::chrono::duration_cast<std::chrono::seconds>(request.timeout).count()));
    return out;
  }
  if (request.limit > 0) add("limit", std::to_string(request.limit));
  add("continue", request.continue_token);
  add("resourceVersion", request.resource_version);
  // With a limit and no match the server would take the version as exact.
  if (!request.resource_version.empty() && request.resource_version != "0") add("resourceVersionMatch", "NotOlderThan");
  return out;
}

Task<> Reflector::run() {
  const std::stop_token stop = stop_.get_token();
  while (!stop.stop_requested()) {
    ReflectorCore::Request request = core_.next(loop_.now());
    switch (request.kind) {
      case ReflectorCore::Request::Kind::kWait:
        co_await sleep_until(loop_, request.until, stop);
        break;
      case ReflectorCore::Request::Kind::kList:
        co_await list(std::move(request));
        break;
      case ReflectorCore::Request::Kind::kWatch:
        co_await watch(std::move(request));
        break;
    }
    tell_failures();
  }
}

void Reflector::tell_failures() {
  const std::uint32_t failures = core_.failures();
  const std::uint32_t before = std::exchange(told_failures_, failures);
  if (before != failures) client_.report_cache({options_.resource.resource, options_.ns, failures, before});
}

void Reflector::say_failed(log::Level level, std::string_view message, const std::string& why,
                           std::source_location where) {
  ++stats_.failures;
  const Duration silent = loop_.now() - fresh_;
  if (silent >= kOld) level = log::Level::kError;
  log::limited(
      level, kLogEvery, message,
      {{"kind", what_of(options_)}, {"error", why}, {"failures", core_.failures() + 1}, {"silent_for", silent}}, where);
}

Task<> Reflector::list(ReflectorCore::Request request) {
  std::exception_ptr error;
  bool taken = false;
  try {
    co_await read_page(request, taken);
  } catch (...) {
    error = std::current_exception();
  }
  if (!error) co_return;
  const Failure failure = failure_of(error);
  if (failure.stopped) co_return;
  say_failed(log::Level::kWarning, "list failed", failure.text);
  core_.list_failed(failure.kind, taken, failure.pause, loop_.now());
}

Task<> Reflector::read_page(const ReflectorCore::Request& request, bool& taken) {
  const std::stop_token stop = stop_.get_token();
  const net::StreamResponse response = co_await client_.open(target(request), loop_.now() + kHeadTime, stop);
  if (request.first_page) store_.list_begin();
  json::ListSplitter splitter({.item_bytes = options_.max_object});
  while (true) {
    const std::string_view piece = co_await response.body->read(loop_.now() + kPieceTime, stop);
    if (piece.empty()) break;
    splitter.feed(piece);
    while (const auto item = splitter.next()) {
      take_listed(*item);
      taken = true;
    }
  }
  const json::ListMeta meta = splitter.finish();
  if (meta.resource_version.empty()) throw Malformed(response.status, "", "a list without metadata.resourceVersion");
  fresh_ = loop_.now();
  const bool last = core_.page_done(meta, fresh_);
  if (!last) co_return;
  store_.list_end();
  ++stats_.lists;
  if (!std::exchange(synced_, true)) bell_.notify();
}

Task<> Reflector::watch(ReflectorCore::Request request) {
  std::exception_ptr error;
  try {
    co_await read_watch(request);
  } catch (...) {
    error = std::current_exception();
  }
  if (!error) {
    core_.watch_ended(loop_.now());
    co_return;
  }
  const Failure failure = failure_of(error);
  if (failure.stopped) co_return;
  say_failed(log::Level::kInfo, "watch failed", failure.text);
  core_.watch_failed(failure.kind, failure.pause, loop_.now());
}

Task<> Reflector::read_watch(const ReflectorCore::Request& request) {
  const std::stop_token stop = stop_.get_token();
  const net::StreamResponse response = co_await client_.open(target(request), loop_.now() + kHeadTime, stop);
  core_.watch_opened(loop_.now());
  ++stats_.watches;
  json::LineSplitter lines(options_.max_object);
  while (true) {
    const std::string_view piece = co_await response.body->read(core_.dead_at(), stop);
    if (piece.empty()) break;
    lines.feed(piece);
    while (const auto line = lines.next()) take_line(*line);
    fresh_ = loop_.now();
    tell_failures();
  }
  if (lines.pending() > 0) throw Malformed(response.status, "", "the watch ended in the middle of an event");
}

// nullopt: it makes no sense, or is more than is taken, which has been said. One object must not keep all others from
// being seen.
std::optional<ObjectStore::Item> Reflector::read(std::string_view text) {
  try {
    return decode_(text);
  } catch (const json::ShapeError& error) {
    complain(text, error);
  } catch (const json::LimitError& error) {
    complain(text, error);
  }
  return std::nullopt;
}

void Reflector::complain(std::string_view text, const std::exception& error) {
  const ObjectMeta meta = decode_identity(text);
  ++stats_.undecodable;
  log::limited(log::Level::kError, kLogEvery, "object cannot be decoded",
               {{"kind", what_of(options_)}, {"object", meta.key}, {"error", error}});
}

void Reflector::take_listed(std::string_view text) {
  if (std::optional<ObjectStore::Item> item = read(text)) {
    store_.put(*std::move(item));
  } else {
    store_.keep(decode_identity(text).key);  // it exists, whatever it says
  }
}

void Reflector::take_changed(std::string_view text) {
  std::optional<ObjectStore::Item> item = read(text);
  ++stats_.events;
  if (!core_.watch_event(item ? item->meta->resource_version : decode_identity(text).resource_version, loop_.now())) {
    ++stats_.repetitions;
  } else if (item) {
    store_.put(*std::move(item));
  }
}

void Reflector::take_line(std::string_view line) {
  if (const std::optional<WatchFrame> frame = peek_watch_frame(line)) {
    try {
      take_frame(*frame);
      return;
    } catch (const json::ParseError&) {
      // Nothing was taken. Either there is more after the object, or it is no JSON: the whole line tells.
    }
  }
  take_frame(decode_watch_frame(line));
}

void Reflector::take_frame(const WatchFrame& frame) {
  switch (frame.type) {
    case WatchFrame::Type::kAdded:
    case WatchFrame::Type::kModified:
      take_changed(frame.object);
      return;
    case WatchFrame::Type::kDeleted: {
      ++stats_.events;
      const ObjectMeta meta = decode_identity(frame.object);
      if (core_.watch_event(meta.resource_version, loop_.now())) {
        store_.remove(meta.key);
      } else {
        ++stats_.repetitions;
      }
      return;
    }
    case WatchFrame::Type::kBookmark: {
      const ObjectMeta meta = decode_identity(frame.object);
      if (core_.watch_bookmark(meta.resource_version, loop_.now())) return;
      throw VersionTooLarge(0, "",
                            "the server is behind what it told before: bookmark " + meta.resource_version + " after " +
                                core_.resource_version());
    }
    case WatchFrame::Type::kError:
      throw_status("watching " + what_of(options_), read_status(0, "", frame.object));
  }
}

}  // namespace bascule::kube
