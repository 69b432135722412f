// What is known of one kind of record, from answers that may overlap, be old, or lack what exists. Pure.
//
// An answer about a record counts only if it was asked for after the newest answer about that record had come in: of
// two answers that overlap in time nobody can tell which is newer, and the next look settles it. So a record never goes
// back in time unless slurmctld's own data does.
// A record that tables lack stays until forget(): `lacking` counts the tables that lacked it in one undisturbed run
// (an epoch).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/loop.hpp"

namespace bascule::slurm {

// Key, Record, a test for records that do not leave a table by themselves, and one whether two of a key are of one
// thing.
template <class Key, class Record, bool (*Stays)(const Record&), bool (*SameOne)(const Record&, const Record&)>
class MirrorTable final {
 public:
  using Ptr = std::shared_ptr<const Record>;
  struct Change {
    Ptr before;
    Ptr after;
  };
  struct Entry {
    Ptr record;                // as in records()
    TimePoint first_at{};      // when the first answer about it came in
    TimePoint known_at{};      // when the newest one did
    TimePoint confirmed_at{};  // when the newest answer that agrees was asked for
    std::uint32_t serial = 0;  // of the last table that had it
    std::uint32_t epoch = 0;   // `lacking` belongs to it
    std::uint32_t look = 0;    // the last cheap look that named it
    std::uint32_t lacking : 31 = 0;
    bool lost : 1 = false;  // the last table lacked it
  };

  const std::unordered_map<Key, Ptr>& records() const noexcept { return records_; }
  Ptr find(const Key& key) const noexcept {
    const auto it = records_.find(key);
    return it == records_.end() ? nullptr : it->second;
  }
  const Entry* entry(const Key& key) const noexcept {
    const auto it = entries_.find(key);
    return it == entries_.end() ? nullptr : &it->second;
  }
  // A cheap look names all records, without their details. Tens of thousands of them come several times a second, so
  // each costs one search.
  void begin_look() noexcept {
    ++look_;
    looked_at_ = 0;
  }
  // nullptr: not known. The pointer holds until the next change.
  const Entry* in_look(const Key& key) noexcept {
    const auto it = entries_.find(key);
    if (it == entries_.end()) return nullptr;
    looked_at_ += std::exchange(it->second.look, look_) != look_;
    return &it->second;
  }
  // Did the look, which was asked for then, lack one that should stay?
  bool look_lacks_any(TimePoint asked) const {
    if (looked_at_ == entries_.size()) return false;
    return std::ranges::any_of(entries_, [&](const auto& one) { return look_lacks(one.second, asked); });
  }
  // ... this one?
  bool look_lacks(const Key& key, TimePoint asked) const {
    const Entry* known = entry(key);
    return known != nullptr && look_lacks(*known, asked);
  }
  // A word on the record without its details: it exists and is as known.
  void confirm(const Key& key, TimePoint asked) {
    const auto it = entries_.find(key);
    if (it != entries_.end()) it->second.confirmed_at = std::max(it->second.confirmed_at, asked);
  }

  // One record in full. False when the answer is not surely newer than what is known.
  bool learn(const Key& key, Record record, TimePoint asked, TimePoint now) {
    const auto [known_entry, fresh] = entries_.try_emplace(key);
    Entry& entry = known_entry->second;
    if (asked < entry.known_at) return false;
    Ptr& known = records_[key];
    if (fresh || (known && !SameOne(*known, record))) entry.first_at = now;
    const bool agrees = known && *known == record;
    agree(entry, asked, now);
    if (agrees) return true;
    entry.confirmed_at = asked;  // what a younger look confirmed was the record of before
    Ptr before = known;
    entry.record = known = std::make_shared<const Record>(std::move(record));
    changes_.push_back({std::move(before), known});
    return true;
  }

  // What a table says. `keyed` holds each record once, `same` those that are as they were known when the answer came
  // in, after it was asked for: what has come since is younger. Returns false when the table suddenly lacks more than
  // half of the records that should stay: what it lacks then is marked lost and not counted. Otherwise what it lacks is
  // counted if `counts`.
  template <class Keyed>
  bool take_table(Keyed keyed, TimePoint asked, TimePoint now, std::uint32_t epoch, bool counts,
                  const std::vector<Key>& same = {}) {
    ++serial_;
    // Looked at before the rows are taken, which makes everything in them known just now.
    std::size_t had = 0;
    std::size_t have = 0;
    const auto weighs = [&](const Entry& entry) {
      return !entry.lost && entry.known_at <= asked && Stays(*entry.record);
    };
    for (const auto& [key, entry] : entries_) had += weighs(entry);
    for (auto& [key, record] : keyed) {
      const auto it = entries_.find(key);
      if (it != entries_.end()) have += weighs(it->second);
      learn(key, std::move(record), asked, now);
      entries_[key].serial = serial_;
    }
    for (const Key& key : same) {
      const auto it = entries_.find(key);
      if (it == entries_.end()) continue;  // forgotten meanwhile: the next table says more
      have += weighs(it->second);
      it->second.serial = serial_;
      if (asked >= it->second.known_at) agree(it->second, asked, now);
    }
    const bool sudden = (had - have) * 2 > had;
    miss(asked, epoch, counts && !sudden);
    return !sudden;
  }

  // A table that says it is the same as the one before.
  void take_same_table(TimePoint asked, std::uint32_t epoch, bool counts) {
    for (auto& [key, entry] : entries_) {
      if (entry.known_at > asked) continue;
      if (!entry.lost) {
        entry.serial = serial_;
        entry.confirmed_at = std::max(entry.confirmed_at, asked);
      }
    }
    miss(asked, epoch, counts);
  }

  // What `tables` tables in a row of this epoch lacked.
  std::vector<Key> lacking(std::uint32_t epoch, std::uint32_t tables) const {
    std::vector<Key> keys;
    for (const auto& [key, entry] : entries_) {
      if (entry.lost && entry.epoch == epoch && entry.lacking >= tables) keys.push_back(key);
    }
    return keys;
  }
  // What the last table lacked; some of it may be forgotten by now.
  const std::vector<Key>& lost() const noexcept { return lost_; }

  void forget(const Key& key) {
    const auto it = records_.find(key);
    if (it == records_.end()) return;
    changes_.push_back({it->second, nullptr});
    records_.erase(it);
    entries_.erase(key);
  }

  std::vector<Change> take_changes() { return std::exchange(changes_, {}); }
  bool has_changes() const noexcept { return !changes_.empty(); }

 private:
  bool look_lacks(const Entry& entry, TimePoint asked) const {
    return entry.look != look_ && !entry.lost && entry.known_at <= asked && Stays(*entry.record);
  }
  static void agree(Entry& entry, TimePoint asked, TimePoint now) noexcept {
    entry.known_at = now;
    entry.lacking = 0;
    entry.lost = false;
    entry.confirmed_at = std::max(entry.confirmed_at, asked);
  }
  void miss(TimePoint asked, std::uint32_t epoch, bool counts) {
    lost_.clear();
    for (auto& [key, entry] : entries_) {
      if (entry.serial == serial_ || entry.known_at > asked) continue;
      entry.lost = true;
      lost_.push_back(key);
      if (!counts) continue;
      if (std::exchange(entry.epoch, epoch) != epoch) entry.lacking = 0;
      ++entry.lacking;
    }
  }

  std::unordered_map<Key, Ptr> records_;
  std::unordered_map<Key, Entry> entries_;
  std::vector<Change> changes_;
  std::uint32_t serial_ = 0;
  std::uint32_t look_ = 0;
  std::size_t looked_at_ = 0;  // entries that it named
  std::vector<Key> lost_;
};

}  // namespace bascule::slurm
