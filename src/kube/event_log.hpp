// Which events are written, and when: repeated ones are folded into a series, an object that talks too much is cut off,
// the queue is bounded. Pure: the time is a parameter, writes are handed out as values. The writer is kube/events.hpp.
//
// A record like one of the last six minutes (same objects, type, reason, action, note) makes that event a series: its
// count and last time are patched, the first repetition at once, later ones together at most every `patch_every`.
// New events of one object: 25 at once, then one in five minutes, as client-go does. A full queue takes no more of the
// namespace that has the most in it: one whose events are not taken pushes out no other's.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/loop.hpp"
#include "base/strong.hpp"
#include "json/value.hpp"
#include "kube/rate.hpp"

namespace bascule::kube {

struct ObjectReference {
  std::string api_version;
  std::string kind;
  NamespacedName key;
  Uid uid;
};

enum class EventType : std::uint8_t { kNormal, kWarning };

struct EventMore {
  ObjectReference related = {};  // what else it is about, as a child; without a kind: nothing
  std::string controller = {};   // reportingController; empty: the recorder's own
};

struct EventLimits {
  std::size_t queue = 1000;    // writes waiting
  std::size_t series = 4096;   // events remembered
  std::size_t objects = 4096;  // objects whose talk is counted
  double burst = 25;           // new events of one object
  double per_second = 1.0 / 300;
  Duration window = std::chrono::minutes(6);
  Duration patch_every = std::chrono::seconds(30);
};

class EventLog final {
 public:
  struct Write {
    std::uint64_t id = 0;  // for done()
    NamespacedName key;    // of the Event
    bool create = true;    // else a merge patch
    json::Value body;
  };

  // `controller` is reportingController; reportingInstance is that and `instance`, as client-go has it. `unique` makes
  // names differ between processes.
  EventLog(std::string controller, std::string instance, std::uint64_t unique, EventLimits limits = {});

  void record(const ObjectReference& about, EventType type, std::string_view reason, std::string_view action,
              std::string note, TimePoint now, WallTime wall, const EventMore& more = {});
  using Namespaces = std::set<std::string>;
  // The next write that is due, of none of the namespaces that are `busy`: one at a time of each, then done().
  std::optional<Write> next(TimePoint now, const Namespaces& busy = {}) const;
  // When next() may have something; nullopt: not before another record() or done().
  std::optional<TimePoint> due(const Namespaces& busy = {}) const;
  // As it is to be written now; nullopt: it was dropped meanwhile.
  std::optional<Write> again(std::uint64_t id) const;
  enum class Outcome : std::uint8_t {
    kDone,
    kDrop,   // refused for good
    kGone,   // a patch found no event: it is created anew by the next repetition
    kAgain,  // stays first in the queue
    kLater,  // not before `later`, so that it holds up no others; dropped after twelve of these
  };
  void done(std::uint64_t id, Outcome outcome, TimePoint later = {});
  // Makes all that waits due now: before the end.
  void flush() noexcept { flushing_ = true; }

  bool empty() const noexcept { return queued_ == 0 && patches_.empty(); }
  std::uint64_t dropped() const noexcept { return dropped_; }
  std::uint64_t folded() const noexcept { return folded_; }

 private:
  using Patches = std::multimap<TimePoint, std::uint64_t>;
  struct Series {
    std::uint64_t id = 0;
    std::string text;    // what makes it itself
    NamespacedName key;  // of the Event
    json::Value body;    // until created
    std::int64_t count = 1;
    WallTime last_wall{};
    TimePoint last{};
    bool created = false;
    std::optional<Patches::iterator> patch = {};
    bool delayed = false;  // in patches_ although it is to be created
    int delays = 0;        // in a row
  };
  using SeriesList = std::list<Series>;  // the most recent first
  using Queues = std::map<std::string, std::set<std::uint64_t>>;
  struct Object {
    std::string name;
    TokenBucket bucket;
  };
  using Objects = std::list<Object>;  // the most recent first

  bool allowed(const ObjectReference& about, TimePoint now);
  void repeat(SeriesList::iterator series, TimePoint now, WallTime wall);
  void forget(SeriesList::iterator series);
  bool unqueue(const Series& series);
  void unpatch(Series& series);
  Queues::iterator longest_queue();
  Patches::const_iterator next_patch(const Namespaces& busy) const;
  static Write write_of(const Series& series);
  json::Value body_of(const ObjectReference& about, EventType type, std::string_view reason, std::string_view action,
                      std::string_view note, const NamespacedName& key, WallTime wall, const EventMore& more) const;

  const std::string controller_;
  const std::string instance_;
  const EventLimits limits_;
  std::uint64_t next_id_;
  bool flushing_ = false;
  SeriesList series_;
  std::unordered_map<std::string_view, SeriesList::iterator> by_text_;
  std::map<std::uint64_t, SeriesList::iterator> by_id_;
  Objects objects_;
  std::unordered_map<std::string_view, Objects::iterator> by_object_;
  Queues queues_;           // ids of events to create, which grow, by namespace; none is empty
  std::size_t queued_ = 0;  // in all of them
  Patches patches_;         // ids of series to patch, or to create later than others
  std::uint64_t dropped_ = 0;
  std::uint64_t folded_ = 0;
};

}  // namespace bascule::kube
