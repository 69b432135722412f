// The bookkeeping of list and watch, without doing either: what to ask next, given what came. Pure: values and the time
// in, the next request out. The driver is kube/informer.hpp.
//
// Contract (client-go's reflector; Kubernetes API concepts, "Efficient detection of changes", "Resource versions"):
//  - The first list may be old (resourceVersion=0), unless begin_fresh(); every later one is not older than what was
//  seen; after 410 and
//    after a version that is too new for the server it is the most recent (no resourceVersion).
//  - A list goes page by page; when its continue token expires it starts again, most recent; when that expires too,
//    without pages.
//  - A watch starts at the version of the list, resumes after a cut at the last version seen (event or bookmark), asks
//    for bookmarks, and for its end after a random 5 to 10 minutes, which spreads watches over servers.
//  - A watch from which nothing came for longer than it was asked to last and a grace, or in which bookmarks came and
//    then nothing for longer than they take, is dead.
//  - After watches that told nothing at all for five minutes, not even a bookmark, comes a list, not older than what
//    was seen: a server whose etcd was restored from an old backup takes a watch from the version before, and tells
//    nothing until it has passed it. At rest bookmarks come, where etcd tells its progress often enough.
//  - 410, in an answer or as an ERROR event, lists again. Failures wait from 800 ms up to 30 s, doubled each time, with
//    jitter; a watch that worked resets this and is taken up at once. A watch that fails often lists again. The pause
//    that a server asks for counts up to the same 30 s: it may be a proxy's word, and meanwhile nothing is seen.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>

#include "base/loop.hpp"
#include "json/split.hpp"

namespace bascule::kube {

// Why a request, or a stream in its midst, came to nothing.
enum class ReflectorFailure : std::uint8_t {
  kFailed,           // a cut, a refusal, malformed data
  kUnreachable,      // no server: it took no connection, or ended it without an answer
  kExpired,          // 410
  kVersionTooLarge,  // the server is behind the version asked for
  kBusy,             // 429, with the pause the server asks for
};

struct ReflectorTimes {
  Duration backoff_min = std::chrono::milliseconds(800);
  Duration backoff_max = std::chrono::seconds(30);
  Duration unreachable_max = std::chrono::seconds(5);  // an attempt costs nobody anything, and its return is waited for
  Duration watch_min = std::chrono::minutes(5);        // of the watch's own end; drawn anew each time
  Duration watch_max = std::chrono::minutes(10);
  Duration watch_grace = std::chrono::seconds(30);
  Duration bookmark_silence = std::chrono::minutes(3);  // bookmarks come about every minute
};

// True when both are versions as API servers write them, decimal numbers, and `a` is the smaller one.
// Source: KEP-5504, "Comparable Resource Version".
bool older_version(std::string_view a, std::string_view b) noexcept;

class ReflectorCore final {
 public:
  struct Request {
    enum class Kind : std::uint8_t { kWait, kList, kWatch };
    Kind kind = Kind::kWait;
    TimePoint until{};                  // kWait
    bool first_page = false;            // kList: a list begins; what came of an earlier one is incomplete
    std::size_t limit = 0;              // kList: 0 is no limit
    std::string resource_version = {};  // kList: "", "0", or not older than this; kWatch: start after this
    std::string continue_token = {};    // kList: then without resource_version
    Duration timeout{};                 // kWatch: timeoutSeconds
  };

  ReflectorCore(std::size_t page, std::uint64_t seed, ReflectorTimes times = {});

  // What to do now. After a list or watch, tell how it went, then ask again.
  Request next(TimePoint now);

  // A whole page has been read. True: it was the last one, the list is complete.
  bool page_done(const json::ListMeta& meta, TimePoint now);
  // `items_taken`: some of this page's objects have been used.
  void list_failed(ReflectorFailure failure, bool items_taken, Duration pause, TimePoint now);

  void watch_opened(TimePoint now);
  // An object's event. False: it is not newer than what was seen, a repetition to be ignored.
  bool watch_event(std::string_view resource_version, TimePoint now);
  // False: the server is behind what was seen, as after a restored backup; the watch has failed with kVersionTooLarge.
  bool watch_bookmark(std::string_view resource_version, TimePoint now);
  // When to give a silent watch up.
  TimePoint dead_at() const noexcept { return dead_at_; }
  // The regular end, a cut, an ERROR event or a refusal.
  void watch_ended(TimePoint now);
  void watch_failed(ReflectorFailure failure, Duration pause, TimePoint now);

  // Before the first next().
  void begin_fresh() noexcept { freshness_ = Freshness::kMostRecent; }
  // The last version seen; empty before the first list.
  const std::string& resource_version() const noexcept { return version_; }
  std::uint32_t failures() const noexcept { return failures_ + unreachable_; }
  // A watch has ended, and none has taken its place that said something or has been open long enough to have said what
  // was missed.
  bool cut(TimePoint now) const noexcept;

 private:
  enum class Phase : std::uint8_t { kList, kWatch };
  enum class Freshness : std::uint8_t { kAny, kNotOlder, kMostRecent };

  Duration random(Duration low, Duration high);
  void back_off(ReflectorFailure failure, Duration asked, TimePoint now);
  Duration bounded(Duration asked) const noexcept { return std::min(asked, times_.backoff_max); }
  void restart_list(Freshness freshness);
  bool close_watch(TimePoint now);  // true: it worked
  void heard(std::string_view resource_version, TimePoint now);
  bool silent(TimePoint now) const noexcept { return now - heard_at_ >= times_.watch_min; }

  const std::size_t page_;
  const ReflectorTimes times_;
  std::minstd_rand random_;

  Phase phase_ = Phase::kList;
  Freshness freshness_ = Freshness::kAny;
  bool first_page_ = true;
  bool paged_ = true;
  std::string continue_;
  std::string version_;
  TimePoint not_before_{};
  std::uint32_t failures_ = 0;     // in a row, without progress, of a server that answers
  std::uint32_t unreachable_ = 0;  // in a row
  TimePoint heard_at_{};           // the last list, event or bookmark, of whichever watch

  // Of the current watch.
  bool watching_ = false;
  bool cut_ = false;
  TimePoint opened_{};
  TimePoint ends_{};  // opened_ + its own timeout
  TimePoint dead_at_ = TimePoint::max();
  Duration timeout_{};
  bool bookmarks_ = false;
  bool progress_ = false;
};

}  // namespace bascule::kube
