#include "json/intern.hpp"

#include <cstring>
#include <new>
#include <vector>

#include "base/check.hpp"

namespace bascule::json::detail {

// Open addressing with linear probing; the hash lies in the entry, so growing never touches the texts.
class InternTable final {
 public:
  InternEntry* get(std::string_view text) {
    BASCULE_CHECK(text.size() <= UINT32_MAX, "interned strings are short");
    const std::size_t hash = std::hash<std::string_view>{}(text);
    if ((count_ + 1) * 4 > slots_.size() * 3) grow();
    std::size_t at = hash & mask();
    for (; slots_[at]; at = (at + 1) & mask()) {
      InternEntry* entry = slots_[at];
      if (entry->hash == hash && std::string_view(entry->text(), entry->size) == text) {
        ++entry->references;
        return entry;
      }
    }
    void* memory = ::operator new(sizeof(InternEntry) + text.size());
    auto* entry = new (memory) InternEntry{this, 1, static_cast<std::uint32_t>(text.size()), hash};
    std::memcpy(static_cast<char*>(memory) + sizeof(InternEntry), text.data(), text.size());
    slots_[at] = entry;
    ++count_;
    bytes_ += sizeof(InternEntry) + text.size();
    return entry;
  }

  void release(InternEntry* entry) noexcept {
    std::size_t hole = entry->hash & mask();
    while (slots_[hole] != entry) hole = (hole + 1) & mask();
    close(hole);
    --count_;
    bytes_ -= sizeof(InternEntry) + entry->size;
    ::operator delete(entry);
    if (orphan_ && count_ == 0) delete this;
  }

  void abandon() noexcept {
    orphan_ = true;
    if (count_ == 0) delete this;
  }

  std::size_t size() const noexcept { return count_; }
  std::size_t bytes() const noexcept { return bytes_ + slots_.size() * sizeof(InternEntry*); }

 private:
  std::size_t mask() const noexcept { return slots_.size() - 1; }

  // Moves back what probed past the hole, so that no tombstones gather.
  void close(std::size_t hole) noexcept {
    for (std::size_t at = (hole + 1) & mask(); slots_[at]; at = (at + 1) & mask()) {
      const std::size_t home = slots_[at]->hash & mask();
      if (((at - home) & mask()) >= ((at - hole) & mask())) {
        slots_[hole] = slots_[at];
        hole = at;
      }
    }
    slots_[hole] = nullptr;
  }

  void grow() {
    std::vector<InternEntry*> old(slots_.size() * 2);
    old.swap(slots_);
    for (InternEntry* entry : old) {
      if (!entry) continue;
      std::size_t at = entry->hash & mask();
      while (slots_[at]) at = (at + 1) & mask();
      slots_[at] = entry;
    }
  }

  std::vector<InternEntry*> slots_ = std::vector<InternEntry*>(64);
  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
  bool orphan_ = false;
};

void intern_release(InternEntry* entry) noexcept {
  entry->table->release(entry);
}

}  // namespace bascule::json::detail

namespace bascule::json {

Interner::Interner() : table_(new detail::InternTable) {}
Interner::~Interner() {
  table_->abandon();
}

InternedString Interner::intern(std::string_view text) {
  if (text.empty()) return {};
  return InternedString(table_->get(text));
}

std::size_t Interner::size() const noexcept {
  return table_->size();
}
std::size_t Interner::bytes() const noexcept {
  return table_->bytes();
}

}  // namespace bascule::json
