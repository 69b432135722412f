// Strings that repeat (namespaces, label keys, node names) kept once. A handle is 8 bytes; the text goes when its last
// handle goes, so a cache that churns does not grow. One thread only: counts are not atomic.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace bascule::json {

namespace detail {
class InternTable;
struct InternEntry {
  InternTable* table;
  std::uint32_t references;
  std::uint32_t size;
  std::size_t hash;
  const char* text() const noexcept { return reinterpret_cast<const char*>(this + 1); }
};
void intern_release(InternEntry* entry) noexcept;
}  // namespace detail

// Default: the empty string. Handles may outlive their interner.
class InternedString final {
 public:
  InternedString() noexcept = default;
  InternedString(const InternedString& other) noexcept : entry_(other.entry_) {
    if (entry_) ++entry_->references;
  }
  InternedString(InternedString&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)) {}
  InternedString& operator=(InternedString other) noexcept {
    std::swap(entry_, other.entry_);
    return *this;
  }
  ~InternedString() {
    if (entry_ && --entry_->references == 0) detail::intern_release(entry_);
  }

  std::string_view view() const noexcept {
    return entry_ ? std::string_view(entry_->text(), entry_->size) : std::string_view{};
  }
  operator std::string_view() const noexcept { return view(); }
  std::string str() const { return std::string(view()); }
  bool empty() const noexcept { return !entry_; }
  std::size_t size() const noexcept { return entry_ ? entry_->size : 0; }

  // By pointer within one interner, by text across interners.
  friend bool operator==(const InternedString& a, const InternedString& b) noexcept {
    if (a.entry_ == b.entry_) return true;
    if (!a.entry_ || !b.entry_ || a.entry_->table == b.entry_->table) return false;
    return a.view() == b.view();
  }
  friend bool operator==(const InternedString& a, std::string_view b) noexcept { return a.view() == b; }
  friend bool operator==(const InternedString& a, const char* b) noexcept { return a.view() == b; }
  friend bool operator==(const InternedString& a, const std::string& b) noexcept { return a.view() == b; }
  // By text, so that sorted output does not depend on addresses.
  friend std::strong_ordering operator<=>(const InternedString& a, const InternedString& b) noexcept {
    return a.view() <=> b.view();
  }

  std::size_t hash() const noexcept { return entry_ ? entry_->hash : 0; }

 private:
  friend class Interner;
  explicit InternedString(detail::InternEntry* entry) noexcept : entry_(entry) {}
  detail::InternEntry* entry_ = nullptr;
};

inline std::string_view format_as(const InternedString& text) noexcept {
  return text.view();
}

class Interner final {
 public:
  Interner();
  ~Interner();
  Interner(const Interner&) = delete;
  Interner& operator=(const Interner&) = delete;

  // At most 4 GiB of text; typically under 100 bytes.
  InternedString intern(std::string_view text);
  InternedString operator()(std::string_view text) { return intern(text); }
  // Distinct strings held at this moment, and their bytes with all overhead.
  std::size_t size() const noexcept;
  std::size_t bytes() const noexcept;

 private:
  detail::InternTable* table_;
};

}  // namespace bascule::json

template <>
struct std::hash<bascule::json::InternedString> {
  std::size_t operator()(const bascule::json::InternedString& text) const noexcept { return text.hash(); }
};
