#include "kube/lease_core.hpp"

#include <algorithm>

#include "base/check.hpp"

namespace bascule::kube {

namespace {

bool same(const LeaseRecord& a, const LeaseRecord& b) noexcept {
  return a.holder == b.holder && a.seconds == b.seconds && a.transitions == b.transitions && a.acquired == b.acquired &&
         a.renewed == b.renewed;
}

}  // namespace

LeaseCore::LeaseCore(LeaseOptions options, std::uint64_t seed)
    : options_(std::move(options)), random_(static_cast<std::minstd_rand::result_type>(seed ^ (seed >> 32))) {
  BASCULE_CHECK(options_.lease > options_.renew_deadline && options_.renew_deadline > options_.retry,
                "lease > renew deadline > retry");
  BASCULE_CHECK(!options_.identity.empty(), "a candidate has a name");
}

Duration LeaseCore::jittered(Duration duration) {
  const double share = std::uniform_real_distribution<double>(1.0, 1.2)(random_);
  return std::chrono::duration_cast<Duration>(duration * share);
}

// Differs from the last one whatever civil time does, so that others see the record change.
WallTime LeaseCore::renewal(WallTime wall) const {
  const WallTime now = std::chrono::floor<std::chrono::microseconds>(wall);
  return now == seen_.renewed ? now + std::chrono::microseconds(1) : now;
}

LeaseCore::Action LeaseCore::next(TimePoint now, WallTime wall) {
  if (leads_ && now >= leads_until_) leads_ = false;
  Action action;
  if (now < not_before_) {
    action.until = not_before_;
    return action;
  }
  if (!known_) {
    action.kind = Action::Kind::kRead;
    return action;
  }
  const bool ours = seen_.holder == options_.identity;
  if (!absent_ && !ours && !seen_.holder.empty()) {
    const Duration theirs = std::max<Duration>(std::chrono::seconds(seen_.seconds), options_.lease);
    if (now < changed_ + theirs) {
      // Looks again in the meantime: a released or renewed lease shows itself only so.
      known_ = false;
      not_before_ = std::min(now + jittered(options_.retry), changed_ + theirs);
      action.until = not_before_;
      return action;
    }
  }
  action.kind = absent_ ? Action::Kind::kCreate : Action::Kind::kWrite;
  action.record.holder = options_.identity;
  action.record.seconds = std::max<std::int64_t>(1, std::chrono::ceil<std::chrono::seconds>(options_.lease).count());
  action.record.renewed = renewal(wall);
  action.record.acquired = ours ? seen_.acquired : action.record.renewed;
  action.record.transitions = absent_ ? 0 : seen_.transitions + (ours ? 0 : 1);
  action.record.version = absent_ ? std::string() : seen_.version;
  return action;
}

void LeaseCore::observe(LeaseRecord record, TimePoint now) {
  if (absent_ || changed_ == TimePoint{} || !same(record, seen_)) changed_ = now;
  seen_ = std::move(record);
  known_ = true;
  absent_ = false;
}

void LeaseCore::read(std::optional<LeaseRecord> record, TimePoint now) {
  if (record) {
    observe(std::move(*record), now);
  } else {
    known_ = absent_ = true;
    seen_ = {};
  }
  // Somebody else has it: whatever we believed is over.
  if (seen_.holder != options_.identity) leads_ = false;
}

void LeaseCore::written(LeaseRecord record, TimePoint sent, TimePoint now) {
  observe(std::move(record), now);
  leads_ = seen_.holder == options_.identity;
  leads_until_ = sent + options_.renew_deadline;
  not_before_ = now + options_.retry;
}

void LeaseCore::refused(TimePoint now) {
  known_ = false;
  not_before_ = now;
}

void LeaseCore::failed(TimePoint now) {
  known_ = false;
  not_before_ = now + jittered(options_.retry) / 2;
}

std::optional<LeaseRecord> LeaseCore::release(WallTime wall) const {
  if (!known_ || absent_ || seen_.holder != options_.identity) return std::nullopt;
  LeaseRecord record = seen_;
  record.holder.clear();
  record.seconds = 1;
  record.renewed = renewal(wall);
  return record;
}

}  // namespace bascule::kube
