// Which key is worked on next. The contract of client-go's work queue, with the earliest visit kept as
// controller-runtime's priority queue does:
// - a key waits at most once: adding it again changes nothing, or moves it up when the new priority is higher;
// - a key is given to one worker at a time: added while it is worked on, it waits for done() and is then given again;
// - a visit later and a visit now are one visit, now; of two delays the earlier counts;
// - a key that failed comes back after a pause that doubles until forget() is called for it;
// - in each priority, first come first served, by when a key became ready; a higher priority goes first.
// Pure: no clock, no coroutine, no lock; `now` never goes back. Memory is bounded by the number of distinct keys that
// wait, are delayed, worked on or have failed.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/loop.hpp"

namespace bascule::runtime {

enum class Priority : std::uint8_t { kNormal, kUrgent };
inline constexpr std::size_t kPriorities = 2;

class WorkQueue final {
 public:
  struct Pauses {
    Duration first = std::chrono::milliseconds(5);
    Duration longest = std::chrono::seconds(1000);
  };
  struct Work {
    std::string_view key;  // valid until its done() has returned
    Duration waited;       // since it became ready
  };
  // Of what is worked on: how long all together, and the one that takes longest.
  struct Unfinished {
    Duration total{};
    Duration longest{};
  };

  WorkQueue() : WorkQueue(Pauses{}) {}
  explicit WorkQueue(Pauses pauses) : pauses_(pauses) {}
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void add(std::string_view key, TimePoint now, Priority priority = Priority::kNormal);
  // Not before `delay` has passed; a delay of zero or less is add().
  void add_after(std::string_view key, Duration delay, TimePoint now);
  // After the pause of one more failure, which it returns.
  Duration add_failed(std::string_view key, TimePoint now);
  // The next failure of the key is its first.
  void forget(std::string_view key);
  std::uint32_t failures(std::string_view key) const;

  // Delayed keys whose time has come are ready. add() and get() do that too.
  void advance(TimePoint now);
  // The next key, now worked on; nullopt when none is ready.
  std::optional<Work> get(TimePoint now);
  // For every get(), once. Returns how long the key was worked on.
  Duration done(std::string_view key, TimePoint now);

  // From now on nothing is added, and nothing delayed comes back. What is ready may still be got.
  void shut_down();
  bool shutting_down() const noexcept { return shut_down_; }

  std::size_t ready() const noexcept;  // that get() would give
  std::size_t running() const noexcept { return running_.size; }
  std::size_t delayed() const noexcept { return delayed_.size(); }
  std::size_t keys() const noexcept { return items_.size(); }  // of which anything is remembered
  std::optional<TimePoint> next_due() const noexcept;          // when the first delayed key is ready

  // For metrics, counted as client-go does: depth has what is ready or added while worked on, adds what got there,
  // retries what was delayed.
  std::size_t depth(Priority priority) const noexcept { return depth_[static_cast<std::size_t>(priority)]; }
  std::uint64_t adds() const noexcept { return adds_; }
  std::uint64_t retries() const noexcept { return retries_; }
  Unfinished unfinished(TimePoint now) const noexcept;

 private:
  struct Item;
  using Delayed = std::multimap<TimePoint, Item*>;  // of one instant: in the order they were added

  struct Item {
    enum class Place : std::uint8_t { kNowhere, kReady, kRunning };
    const std::string* key = nullptr;
    Item* before = nullptr;  // neighbours in the line it stands in
    Item* after = nullptr;
    TimePoint since{};  // ready since; while running: added again then
    TimePoint started{};
    std::optional<Delayed::iterator> due;
    std::uint32_t failures = 0;
    Place place = Place::kNowhere;
    Priority priority = Priority::kNormal;
    bool again = false;  // added while running
  };
  struct Line {
    Item* first = nullptr;
    Item* last = nullptr;
    std::size_t size = 0;
    void push_back(Item& item) noexcept;
    void remove(Item& item) noexcept;
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view key) const noexcept { return std::hash<std::string_view>{}(key); }
  };
  using Items = std::unordered_map<std::string, Item, Hash, std::equal_to<>>;

  Line& line(Priority priority) noexcept { return ready_[static_cast<std::size_t>(priority)]; }
  std::size_t& depth_of(Priority priority) noexcept { return depth_[static_cast<std::size_t>(priority)]; }
  Item& item_of(std::string_view key);
  void make_ready(Item& item, TimePoint now, Priority priority);
  void stand_in(Item& item) noexcept;
  void undelay(Item& item) noexcept;
  void drop_if_idle(Items::iterator at);

  Pauses pauses_;
  Items items_;
  std::array<Line, kPriorities> ready_;
  Line running_;  // in the order they were begun
  Delayed delayed_;
  std::array<std::size_t, kPriorities> depth_{};
  std::uint64_t adds_ = 0;
  std::uint64_t retries_ = 0;
  bool shut_down_ = false;
};

}  // namespace bascule::runtime
