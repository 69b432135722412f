// Whole numbers of any size, just what Quantity needs when 64 bits do not do. Decimal inside, so that powers of ten and
// printing are cheap.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bascule {

// NOLINTBEGIN(modernize-use-using): __extension__ stands before no alias
__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 UInt128;
// NOLINTEND(modernize-use-using)

class BigInt final {
 public:
  BigInt() = default;
  explicit BigInt(Int128 value);
  // Decimal digits only.
  static BigInt from_digits(std::string_view digits);

  bool zero() const noexcept { return limbs_.empty(); }
  bool negative() const noexcept { return negative_; }
  BigInt operator-() const;
  BigInt& operator+=(const BigInt& other);
  BigInt& operator*=(std::uint32_t factor);
  // Divides in place, towards zero; returns the remainder's magnitude. divisor > 0.
  std::uint32_t divide(std::uint32_t divisor);
  // times 10^power
  void scale_up(unsigned power);
  // Divides by 10^power, away from zero when it does not come out even; returns whether it did.
  bool scale_down(unsigned power);

  std::optional<std::int64_t> to_int64() const noexcept;
  double to_double() const noexcept;
  // Digits of the magnitude, no sign; "0" for zero.
  std::string digits() const;
  friend std::strong_ordering operator<=>(const BigInt& a, const BigInt& b) noexcept;
  friend bool operator==(const BigInt&, const BigInt&) = default;

 private:
  static std::strong_ordering compare_magnitude(const BigInt& a, const BigInt& b) noexcept;
  void add_magnitude(const BigInt& other);
  void subtract_magnitude(const BigInt& smaller);
  void trim() noexcept;

  std::vector<std::uint32_t> limbs_;  // base 10^9, lowest first, the highest is not 0
  bool negative_ = false;             // never for 0
};

}  // namespace bascule
