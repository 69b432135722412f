#include "base/quantity.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "base/big_int.hpp"
#include "base/check.hpp"

namespace bascule {

namespace {

using Format = Quantity::Format;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
constexpr int kFinest = -9;
constexpr int kMaxPower = 18;  // the largest power of ten in 64 bits

constexpr auto kPowers = [] {
  std::array<std::int64_t, kMaxPower + 1> powers{1};
  for (std::size_t i = 1; i < powers.size(); ++i) powers[i] = powers[i - 1] * 10;
  return powers;
}();

constexpr std::string_view kDecimalSuffixes[] = {"n", "u", "m", "", "k", "M", "G", "T", "P", "E"};  // from 10^-9
constexpr std::string_view kBinarySuffixes[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};

bool digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

std::string_view take_digits(std::string_view& text) noexcept {
  std::size_t length = 0;
  while (length < text.size() && digit(text[length])) ++length;
  const std::string_view digits = text.substr(0, length);
  text.remove_prefix(length);
  return digits;
}

struct Suffix {
  Format format;
  int exponent;  // of 10, or of 2 for kBinarySi
};

// "e" and "E" with a whole number. Out of an int's range is no suffix.
std::optional<Suffix> parse_exponent(std::string_view text) noexcept {
  text.remove_prefix(1);
  const bool plus = text.starts_with('+');
  if (plus) text.remove_prefix(1);
  if (text.empty() || (plus && text.front() == '-')) return std::nullopt;
  int exponent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), exponent);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return Suffix{Format::kDecimalExponent, exponent};
}

std::optional<Suffix> parse_suffix(std::string_view text) noexcept {
  int exponent = kFinest;
  for (const std::string_view suffix : kDecimalSuffixes) {
    if (text == suffix) return Suffix{Format::kDecimalSi, exponent};
    exponent += 3;
  }
  exponent = 0;
  for (const std::string_view suffix : kBinarySuffixes) {
    if (text == suffix) return Suffix{Format::kBinarySi, exponent};
    exponent += 10;
  }
  if (text.front() == 'e' || text.front() == 'E') return parse_exponent(text);
  return std::nullopt;
}

std::int64_t saturate(Int128 value) noexcept {
  return value > kMax ? kMax : value < kMin ? kMin : static_cast<std::int64_t>(value);
}

bool fits(Int128 value) noexcept {
  return value <= kMax && value >= kMin;
}

}  // namespace

// --- life ------------------------------------------------------------------------------------------------------------

Quantity::Quantity(const Quantity& other)
    : small_(other.small_), scale_(other.scale_), format_(other.format_), big_mantissa_(other.big_mantissa_) {
  if (big_mantissa_) big_ = new BigInt(*other.big_);
}
Quantity::Quantity(Quantity&& other) noexcept : Quantity() {
  *this = std::move(other);
}
Quantity& Quantity::operator=(const Quantity& other) {
  if (this != &other) *this = Quantity(other);
  return *this;
}
Quantity& Quantity::operator=(Quantity&& other) noexcept {
  if (this == &other) return *this;
  set_small(0, 0);
  if (other.big_mantissa_) {
    big_ = std::exchange(other.big_, nullptr);
    other.big_mantissa_ = false;
    other.small_ = 0;
    big_mantissa_ = true;
  } else {
    small_ = other.small_;
  }
  scale_ = other.scale_;
  format_ = other.format_;
  return *this;
}
Quantity::~Quantity() {
  if (big_mantissa_) delete big_;
}

Quantity Quantity::scaled(std::int64_t mantissa, int scale, Format format) noexcept {
  BASCULE_CHECK(scale >= kFinest && scale <= kMaxPower, "a quantity's scale is from nano to exa");
  Quantity out(mantissa, format);
  out.scale_ = static_cast<std::int16_t>(scale);
  return out;
}

void Quantity::set_small(std::int64_t mantissa, int scale) noexcept {
  if (big_mantissa_) delete big_;
  big_mantissa_ = false;
  small_ = mantissa;
  scale_ = static_cast<std::int16_t>(scale);
}

void Quantity::set(BigInt mantissa, int scale) {
  std::optional<std::int64_t> value = mantissa.to_int64();
  while (!value) {
    BigInt shorter = mantissa;
    if (shorter.divide(10) != 0) break;
    mantissa = std::move(shorter);
    ++scale;
    value = mantissa.to_int64();
  }
  set_small(value.value_or(0), scale);
  if (!value) {
    big_ = new BigInt(std::move(mantissa));
    big_mantissa_ = true;
  }
}

BigInt Quantity::mantissa() const {
  return big_mantissa_ ? *big_ : BigInt(small_);
}

// --- parsing ---------------------------------------------------------------------------------------------------------

std::optional<Quantity> Quantity::parse(std::string_view text) {
  if (text.empty() || text.size() > kMaxText) return std::nullopt;
  const bool negative = text.front() == '-';
  if (negative || text.front() == '+') text.remove_prefix(1);

  std::array<char, kMaxText> digits{};
  std::size_t count = 0;
  const auto collect = [&](std::string_view part) {
    for (const char c : part) {
      if (count > 0 || c != '0') digits[count++] = c;
    }
  };
  const std::string_view whole = take_digits(text);
  collect(whole);
  int decimals = 0;
  std::size_t read = whole.size();
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    const std::string_view fraction = take_digits(text);
    collect(fraction);
    decimals = static_cast<int>(fraction.size());
    read += fraction.size();
  }
  const auto suffix = parse_suffix(text);
  if (!suffix || read == 0) return std::nullopt;

  Quantity out;
  out.format_ = suffix->format;
  if (count == 0) return out;
  const bool binary = suffix->format == Format::kBinarySi;
  if (!binary && suffix->exponent > kMaxExponent) return std::nullopt;
  int scale = (binary ? 0 : std::max(suffix->exponent, -2 * kMaxExponent)) - decimals;

  if (count <= kMaxPower && scale >= kFinest) {
    std::int64_t value = 0;
    std::from_chars(digits.data(), digits.data() + count, value);
    const Int128 product = binary ? static_cast<Int128>(value) << suffix->exponent : value;
    if (fits(product)) {
      out.set_small(static_cast<std::int64_t>(negative ? -product : product), scale);
      if (binary && scale < 0 && product < kPowers[static_cast<std::size_t>(-scale)]) out.format_ = Format::kDecimalSi;
      return out;
    }
  }

  BigInt value = BigInt::from_digits({digits.data(), count});
  if (binary) {
    for (int i = 0; i < suffix->exponent; i += 10) value *= 1024;
  }
  if (scale < kFinest) {
    value.scale_down(static_cast<unsigned>(kFinest - scale));
    scale = kFinest;
  }
  out.set(std::move(value), scale);
  if (binary && out > Quantity(kMax)) out.set_small(kMax, 0);
  if (binary && out < Quantity(1)) out.format_ = Format::kDecimalSi;
  return negative ? -out : out;
}

// --- arithmetic ------------------------------------------------------------------------------------------------------

int Quantity::sign() const noexcept {
  if (big_mantissa_) return big_->negative() ? -1 : 1;
  return (small_ > 0) - (small_ < 0);
}

void Quantity::add(const Quantity& other, bool negate) {
  if (zero()) format_ = other.format_;
  if (other.zero()) return;
  const bool left_coarser = scale_ > other.scale_;
  const int scale = left_coarser ? other.scale_ : scale_;
  const int gap = left_coarser ? scale_ - other.scale_ : other.scale_ - scale_;
  if (!big_mantissa_ && !other.big_mantissa_ && gap <= kMaxPower) {
    Int128 left = small_;
    Int128 right = negate ? -static_cast<Int128>(other.small_) : other.small_;
    (left_coarser ? left : right) *= kPowers[static_cast<std::size_t>(gap)];
    const Int128 sum = left + right;
    if (fits(sum)) return set_small(static_cast<std::int64_t>(sum), scale);
    return set(BigInt(sum), scale);
  }
  BigInt left = mantissa();
  BigInt right = negate ? -other.mantissa() : other.mantissa();
  (left_coarser ? left : right).scale_up(static_cast<unsigned>(gap));
  left += right;
  set(std::move(left), scale);
}

Quantity& Quantity::operator+=(const Quantity& other) {
  add(other, false);
  return *this;
}

Quantity& Quantity::operator-=(const Quantity& other) {
  add(other, true);
  return *this;
}

Quantity& Quantity::operator*=(std::int64_t factor) {
  if (!big_mantissa_) {
    const Int128 product = static_cast<Int128>(small_) * factor;
    if (fits(product)) {
      set_small(static_cast<std::int64_t>(product), scale_);
    } else {
      set(BigInt(product), scale_);
    }
    return *this;
  }
  // Two steps, because a factor of a BigInt has 32 bits.
  const std::uint64_t magnitude =
      factor < 0 ? ~static_cast<std::uint64_t>(factor) + 1 : static_cast<std::uint64_t>(factor);
  BigInt high = *big_;
  high *= static_cast<std::uint32_t>(magnitude >> 32);
  high *= std::uint32_t{1} << 31;
  high *= 2;
  BigInt low = *big_;
  low *= static_cast<std::uint32_t>(magnitude);
  high += low;
  set(factor < 0 ? -high : std::move(high), scale_);
  return *this;
}

Quantity Quantity::operator-() const {
  Quantity out;
  out.format_ = format_;
  if (!big_mantissa_ && small_ != kMin) {
    out.set_small(-small_, scale_);
  } else {
    out.set(-mantissa(), scale_);
  }
  return out;
}

std::strong_ordering operator<=>(const Quantity& a, const Quantity& b) noexcept {
  const int left_sign = a.sign();
  const int right_sign = b.sign();
  if (left_sign != right_sign) return left_sign <=> right_sign;
  if (left_sign == 0) return std::strong_ordering::equal;
  const int gap = a.scale_ - b.scale_;
  const auto power = static_cast<std::size_t>(gap < 0 ? -gap : gap);
  if (!a.big_mantissa_ && !b.big_mantissa_) {
    if (power > kMaxPower) {
      const bool left_larger = gap > 0;  // in magnitude
      return left_larger == (left_sign > 0) ? std::strong_ordering::greater : std::strong_ordering::less;
    }
    Int128 left = a.small_;
    Int128 right = b.small_;
    (gap > 0 ? left : right) *= kPowers[power];
    return left < right   ? std::strong_ordering::less
           : left > right ? std::strong_ordering::greater
                          : std::strong_ordering::equal;
  }
  BigInt left = a.mantissa();
  BigInt right = b.mantissa();
  (gap > 0 ? left : right).scale_up(static_cast<unsigned>(power));
  return left <=> right;
}

std::int64_t Quantity::ceil_to(int scale) const {
  const int gap = scale_ - scale;
  if (!big_mantissa_ && gap >= 0 && gap <= kMaxPower) {
    return saturate(static_cast<Int128>(small_) * kPowers[static_cast<std::size_t>(gap)]);
  }
  if (!big_mantissa_ && gap < 0) {
    const std::int64_t power = kPowers[static_cast<std::size_t>(-gap)];
    const std::int64_t rest = small_ % power;
    return small_ / power + (rest > 0) - (rest < 0);
  }
  BigInt value = mantissa();
  if (gap >= 0) {
    value.scale_up(static_cast<unsigned>(gap));
  } else {
    value.scale_down(static_cast<unsigned>(-gap));
  }
  return value.to_int64().value_or(value.negative() ? kMin : kMax);
}

double Quantity::approximate() const noexcept {
  const double mantissa = big_mantissa_ ? big_->to_double() : static_cast<double>(small_);
  // Divided, not multiplied by a negative power, which is not exact.
  return scale_ < 0 ? mantissa / std::pow(10.0, -scale_) : mantissa * std::pow(10.0, scale_);
}

// --- printing --------------------------------------------------------------------------------------------------------

std::string Quantity::print_decimal(Format format) const {
  std::string digits = mantissa().digits();
  int exponent = scale_;
  while (digits.size() > 1 && digits.back() == '0') {
    digits.pop_back();
    ++exponent;
  }
  // Only what has a suffix: a multiple of 3, and not above exa.
  const auto lower = [&] {
    digits += '0';
    --exponent;
  };
  while (exponent % 3 != 0) lower();
  while (format == Format::kDecimalSi && exponent > kMaxPower) lower();
  if (format == Format::kDecimalSi) {
    digits += kDecimalSuffixes[static_cast<std::size_t>((exponent - kFinest) / 3)];
  } else if (exponent != 0) {
    digits += 'e';
    digits += std::to_string(exponent);
  }
  return digits;
}

// nullopt: the value is not whole.
std::optional<std::string> Quantity::print_binary() const {
  BigInt value = mantissa();
  if (scale_ >= 0) {
    value.scale_up(static_cast<unsigned>(scale_));
  } else if (!value.scale_down(static_cast<unsigned>(-scale_))) {
    return std::nullopt;
  }
  std::size_t suffix = 0;
  while (suffix + 1 < std::size(kBinarySuffixes)) {
    BigInt shorter = value;
    if (shorter.divide(1024) != 0) break;
    value = std::move(shorter);
    ++suffix;
  }
  return value.digits() + std::string(kBinarySuffixes[suffix]);
}

std::string Quantity::str() const {
  if (zero()) return "0";
  const std::string sign_text = sign() < 0 ? "-" : "";
  if (format_ == Format::kBinarySi) {
    const bool small = *this > Quantity(-1024) && *this < Quantity(1024);
    const auto binary = small ? std::nullopt : print_binary();
    return sign_text + (binary ? *binary : print_decimal(Format::kDecimalSi));
  }
  return sign_text + print_decimal(format_);
}

}  // namespace bascule
