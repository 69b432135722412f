// metadata.uid of an object, or the name of what a job stands for where that is no object. Many are held for each pod,
// so the canonical text of a UUID (36 characters, lowercase) is kept as its 128 bits; every other text as it is, once
// for all copies. Equality, order and hash are those of the texts.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

namespace bascule {

class Uid final {
 public:
  Uid() = default;
  explicit Uid(std::string_view text);
  // The text it was made of. A new one each time: keep no view into it.
  std::string str() const;
  bool empty() const noexcept { return *this == Uid(); }
  std::size_t hash() const noexcept;
  friend bool operator==(const Uid& a, const Uid& b) noexcept {
    const Bits* x = a.bits();
    const Bits* y = b.bits();
    if (x != nullptr && y != nullptr) return *x == *y;
    return x == y && a.text() == b.text();
  }
  friend std::strong_ordering operator<=>(const Uid& a, const Uid& b) noexcept {
    const Bits* x = a.bits();
    const Bits* y = b.bits();
    if (x != nullptr && y != nullptr) return *x <=> *y;  // the dashes stand alike, and digits come before letters
    return compare_texts(a, b);
  }

 private:
  // Zero is the empty text; the UUID of zeros is kept as text.
  struct Bits {
    std::uint64_t high;
    std::uint64_t low;
    friend auto operator<=>(const Bits&, const Bits&) = default;
  };
  using Text = std::shared_ptr<const std::string>;
  using Buffer = char[36];

  static Bits parse(std::string_view text) noexcept;  // zero: not canonical
  static std::strong_ordering compare_texts(const Uid& a, const Uid& b) noexcept;
  const Bits* bits() const noexcept { return std::get_if<Bits>(&value_); }
  const std::string& text() const noexcept;
  std::string_view view(Buffer& buffer) const noexcept;

  std::variant<Bits, Text> value_;
};

}  // namespace bascule

template <>
struct std::hash<bascule::Uid> {
  std::size_t operator()(const bascule::Uid& uid) const noexcept { return uid.hash(); }
};
