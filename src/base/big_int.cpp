#include "base/big_int.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

namespace bascule {

namespace {
constexpr std::uint32_t kBase = 1'000'000'000;
constexpr unsigned kBaseDigits = 9;
constexpr std::uint32_t kPowers[] = {1, 10, 100, 1'000, 10'000, 100'000, 1'000'000, 10'000'000, 100'000'000};
}  // namespace

BigInt::BigInt(Int128 value) : negative_(value < 0) {
  auto left = static_cast<UInt128>(value);
  if (negative_) left = ~left + 1;
  for (; left != 0; left /= kBase) limbs_.push_back(static_cast<std::uint32_t>(left % kBase));
}

BigInt BigInt::from_digits(std::string_view digits) {
  BigInt out;
  out.limbs_.reserve(digits.size() / kBaseDigits + 1);
  while (!digits.empty()) {
    const std::size_t take = std::min<std::size_t>(digits.size(), kBaseDigits);
    const std::string_view part = digits.substr(digits.size() - take);
    std::uint32_t limb = 0;
    std::from_chars(part.data(), part.data() + part.size(), limb);
    out.limbs_.push_back(limb);
    digits.remove_suffix(take);
  }
  out.trim();
  return out;
}

void BigInt::trim() noexcept {
  while (!limbs_.empty() && limbs_.back() == 0) limbs_.pop_back();
  if (limbs_.empty()) negative_ = false;
}

BigInt BigInt::operator-() const {
  BigInt out = *this;
  out.negative_ = !negative_ && !zero();
  return out;
}

void BigInt::add_magnitude(const BigInt& other) {
  limbs_.resize(std::max(limbs_.size(), other.limbs_.size()));
  std::uint32_t carry = 0;
  for (std::size_t i = 0; i < limbs_.size(); ++i) {
    limbs_[i] += carry + (i < other.limbs_.size() ? other.limbs_[i] : 0);
    carry = limbs_[i] >= kBase ? 1 : 0;
    if (carry != 0) limbs_[i] -= kBase;
  }
  if (carry != 0) limbs_.push_back(carry);
}

void BigInt::subtract_magnitude(const BigInt& smaller) {
  std::uint32_t borrow = 0;
  for (std::size_t i = 0; i < limbs_.size(); ++i) {
    const std::uint32_t take = borrow + (i < smaller.limbs_.size() ? smaller.limbs_[i] : 0);
    borrow = limbs_[i] < take ? 1 : 0;
    limbs_[i] += (borrow != 0 ? kBase : 0) - take;
  }
  trim();
}

BigInt& BigInt::operator+=(const BigInt& other) {
  if (negative_ == other.negative_) {
    add_magnitude(other);
  } else if (compare_magnitude(*this, other) >= 0) {
    subtract_magnitude(other);
  } else {
    BigInt larger = other;
    larger.subtract_magnitude(*this);
    *this = std::move(larger);
  }
  return *this;
}

BigInt& BigInt::operator*=(std::uint32_t factor) {
  std::uint64_t carry = 0;
  for (std::uint32_t& limb : limbs_) {
    const std::uint64_t product = std::uint64_t{limb} * factor + carry;
    limb = static_cast<std::uint32_t>(product % kBase);
    carry = product / kBase;
  }
  for (; carry != 0; carry /= kBase) limbs_.push_back(static_cast<std::uint32_t>(carry % kBase));
  trim();
  return *this;
}

std::uint32_t BigInt::divide(std::uint32_t divisor) {
  std::uint64_t rest = 0;
  for (std::size_t i = limbs_.size(); i-- > 0;) {
    const std::uint64_t value = rest * kBase + limbs_[i];
    limbs_[i] = static_cast<std::uint32_t>(value / divisor);
    rest = value % divisor;
  }
  trim();
  return static_cast<std::uint32_t>(rest);
}

void BigInt::scale_up(unsigned power) {
  if (zero()) return;
  limbs_.insert(limbs_.begin(), power / kBaseDigits, 0);
  *this *= kPowers[power % kBaseDigits];
}

bool BigInt::scale_down(unsigned power) {
  const bool was_negative = negative_;
  const std::size_t drop = std::min<std::size_t>(power / kBaseDigits, limbs_.size());
  bool even = std::all_of(limbs_.begin(), limbs_.begin() + static_cast<std::ptrdiff_t>(drop),
                          [](std::uint32_t limb) { return limb == 0; });
  limbs_.erase(limbs_.begin(), limbs_.begin() + static_cast<std::ptrdiff_t>(drop));
  even = divide(kPowers[power % kBaseDigits]) == 0 && even;
  if (!even) *this += BigInt(was_negative ? -1 : 1);
  return even;
}

std::strong_ordering BigInt::compare_magnitude(const BigInt& a, const BigInt& b) noexcept {
  if (a.limbs_.size() != b.limbs_.size()) return a.limbs_.size() <=> b.limbs_.size();
  return std::lexicographical_compare_three_way(a.limbs_.rbegin(), a.limbs_.rend(), b.limbs_.rbegin(), b.limbs_.rend());
}

std::strong_ordering operator<=>(const BigInt& a, const BigInt& b) noexcept {
  if (a.negative_ != b.negative_) return a.negative_ ? std::strong_ordering::less : std::strong_ordering::greater;
  return a.negative_ ? BigInt::compare_magnitude(b, a) : BigInt::compare_magnitude(a, b);
}

std::optional<std::int64_t> BigInt::to_int64() const noexcept {
  if (limbs_.size() > 3) return std::nullopt;
  Int128 value = 0;
  for (std::size_t i = limbs_.size(); i-- > 0;) value = value * kBase + limbs_[i];
  if (negative_) value = -value;
  if (value > std::numeric_limits<std::int64_t>::max() || value < std::numeric_limits<std::int64_t>::min()) {
    return std::nullopt;
  }
  return static_cast<std::int64_t>(value);
}

double BigInt::to_double() const noexcept {
  double value = 0;
  for (std::size_t i = limbs_.size(); i-- > 0;) value = value * kBase + limbs_[i];
  return negative_ ? -value : value;
}

std::string BigInt::digits() const {
  if (zero()) return "0";
  std::string out = std::to_string(limbs_.back());
  for (std::size_t i = limbs_.size() - 1; i-- > 0;) {
    const std::string part = std::to_string(limbs_[i]);
    out.append(kBaseDigits - part.size(), '0').append(part);
  }
  return out;
}

}  // namespace bascule
