// Kubernetes quantities, exact: "500m", "1.5Gi", "12e6". A value is a decimal number of any size, not finer than a
// billionth, and the family of suffixes it is written with.
// Source of the rules: Kubernetes API reference, Quantity; behaviour of k8s.io/apimachinery/pkg/api/resource, with
// four differences, each where apimachinery yields a wrong number without an error:
// - a text without a digit is refused (there: zero for most suffixes);
// - rounding to whole units is always away from zero (there: of big negative numbers, towards it), and limited to 64
//   bits (there: 0 or the low bits);
// - what exceeds the largest suffix keeps it (there: no suffix at all);
// - str() is always canonical (there: a text that is nearly so stays as it was written).
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace bascule {

class BigInt;

class Quantity final {
 public:
  enum class Format : std::uint8_t { kDecimalSi, kBinarySi, kDecimalExponent };

  Quantity() noexcept : small_(0) {}
  explicit Quantity(std::int64_t whole, Format format = Format::kDecimalSi) noexcept : small_(whole), format_(format) {}
  // mantissa x 10^scale; scale from -9 to 18.
  static Quantity scaled(std::int64_t mantissa, int scale, Format format = Format::kDecimalSi) noexcept;
  // nullopt: not a quantity, longer than kMaxText, or an exponent above kMaxExponent (apimachinery knows no bound and
  // takes memory in proportion). What is finer than a billionth is rounded away from zero; what has a binary suffix is
  // at most 2^63-1.
  static std::optional<Quantity> parse(std::string_view text);
  static constexpr std::size_t kMaxText = 512;
  static constexpr int kMaxExponent = 512;

  Quantity(const Quantity& other);
  Quantity(Quantity&& other) noexcept;
  Quantity& operator=(const Quantity& other);
  Quantity& operator=(Quantity&& other) noexcept;
  ~Quantity();

  bool zero() const noexcept { return !big_mantissa_ && small_ == 0; }
  int sign() const noexcept;
  Format format() const noexcept { return format_; }

  // Whole units, thousandths; away from zero; the nearest 64-bit number when out of range.
  std::int64_t ceil() const { return ceil_to(0); }
  std::int64_t ceil_milli() const { return ceil_to(-3); }
  double approximate() const noexcept;
  // The canonical form: no digit lost, the largest suffix that leaves no fraction.
  std::string str() const;

  // A zero takes over the format of what is added or subtracted.
  Quantity& operator+=(const Quantity& other);
  Quantity& operator-=(const Quantity& other);
  Quantity& operator*=(std::int64_t factor);
  friend Quantity operator+(Quantity a, const Quantity& b) { return a += b; }
  friend Quantity operator-(Quantity a, const Quantity& b) { return a -= b; }
  friend Quantity operator*(Quantity a, std::int64_t factor) { return a *= factor; }
  Quantity operator-() const;
  // By value; the format does not matter.
  friend std::strong_ordering operator<=>(const Quantity& a, const Quantity& b) noexcept;
  friend bool operator==(const Quantity& a, const Quantity& b) noexcept { return (a <=> b) == 0; }

 private:
  std::int64_t ceil_to(int scale) const;
  BigInt mantissa() const;
  // mantissa x 10^scale, as a 64-bit mantissa if it can be.
  void set(BigInt mantissa, int scale);
  void set_small(std::int64_t mantissa, int scale) noexcept;
  void add(const Quantity& other, bool negate);
  std::string print_decimal(Format format) const;
  std::optional<std::string> print_binary() const;

  // NOLINTBEGIN(readability-identifier-naming): as private as what is around them
  union {
    std::int64_t small_;
    BigInt* big_;  // owned
  };
  // NOLINTEND(readability-identifier-naming)
  std::int16_t scale_ = 0;
  Format format_ = Format::kDecimalSi;
  bool big_mantissa_ = false;
};

static_assert(sizeof(Quantity) == 16);

}  // namespace bascule
