// The decisions of leader election; kube/lease.hpp has the rules and the driver. Pure: values and the time in, the next
// request out.
#pragma once

#include <optional>
#include <random>
#include <string>

#include "base/loop.hpp"
#include "base/strong.hpp"

namespace bascule::kube {

struct LeaseOptions {
  NamespacedName key;
  std::string identity;  // unique a process: host name and a random part
  Duration lease = std::chrono::seconds(15);
  Duration renew_deadline = std::chrono::seconds(10);
  Duration retry = std::chrono::seconds(2);
  bool release_on_stop = true;
  std::uint64_t seed = 0;  // of jitter; 0: the system's randomness
};

// spec of a Lease.
struct LeaseRecord {
  std::string holder;  // empty: nobody
  std::int64_t seconds = 0;
  std::int64_t transitions = 0;
  WallTime acquired{};
  WallTime renewed{};
  std::string version;  // metadata.resourceVersion
};

// Decides; knows neither clock nor network.
class LeaseCore final {
 public:
  struct Action {
    enum class Kind : std::uint8_t { kWait, kRead, kCreate, kWrite };
    Kind kind = Kind::kWait;
    TimePoint until{};        // kWait
    LeaseRecord record = {};  // kCreate, kWrite; `version` is the precondition of kWrite
  };

  LeaseCore(LeaseOptions options, std::uint64_t seed);

  Action next(TimePoint now, WallTime wall);
  // Answers. `sent` is when the request left, read before it was sent.
  void read(std::optional<LeaseRecord> record, TimePoint now);  // nullopt: there is no such Lease
  void written(LeaseRecord record, TimePoint sent, TimePoint now);
  void refused(TimePoint now);  // the precondition failed, or it exists already: somebody was faster
  void failed(TimePoint now);   // no answer, or an error: what was written is not known

  // Leads now; false at leads_until() at the latest, whatever is in flight.
  bool leading(TimePoint now) const noexcept { return leads_ && now < leads_until_; }
  TimePoint leads_until() const noexcept { return leads_ ? leads_until_ : TimePoint::min(); }
  void step_down() noexcept { leads_ = false; }
  bool known() const noexcept { return known_; }  // what holder() and release() go by is the server's last word
  // The record that gives the lease back; nullopt when it is not ours.
  std::optional<LeaseRecord> release(WallTime wall) const;
  const std::string& holder() const noexcept { return seen_.holder; }

 private:
  void observe(LeaseRecord record, TimePoint now);
  Duration jittered(Duration duration);
  WallTime renewal(WallTime wall) const;

  LeaseOptions options_;
  std::minstd_rand random_;
  LeaseRecord seen_;
  bool known_ = false;   // seen_ is what the server said last
  bool absent_ = false;  // there is no Lease
  TimePoint changed_{};  // when seen_ was first seen as it is
  TimePoint not_before_{};
  bool leads_ = false;
  TimePoint leads_until_{};
};

}  // namespace bascule::kube
