// Two lines are quantities or refused; the bytes behind them are a factor. What is a quantity prints canonically and
// reads back as the same value; sums, differences, products and order hold to the laws of numbers.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "base/quantity.hpp"

namespace {

using bascule::Quantity;

void require(bool promise) {
  if (!promise) std::abort();
}

void check_one(const Quantity& a) {
  // What was computed may print longer, or be more, than what is read.
  const std::string text = a.str();
  const bool exponent = a.format() == Quantity::Format::kDecimalExponent;
  const bool readable = a.format() != Quantity::Format::kBinarySi || (a.ceil() != INT64_MAX && a.ceil() != INT64_MIN);
  const auto again = Quantity::parse(text);
  if (!exponent && text.size() <= Quantity::kMaxText) require(again.has_value());
  if (again && readable) {
    require(*again == a);
    // 2000 bytes have no binary suffix; read back they are decimal, 2k.
    require(again->format() != a.format() || again->str() == text);
  }
  const Quantity zero;
  require((a <=> zero) == (a.sign() <=> 0));
  require(a.zero() == (a.sign() == 0));
  require((a - a).zero());
  require(a + zero == a && zero + a == a && a * 1 == a && (a * 0).zero());
  require(-(-a) == a && a * -1 == -a);
  // Away from zero, never towards it.
  if (a.ceil() != INT64_MAX && a.ceil() != INT64_MIN) {
    require((-a).ceil() == -a.ceil());
    const Quantity whole(a.ceil());
    require(a.sign() >= 0 ? whole >= a : whole <= a);
  }
  Quantity copy = a;
  Quantity moved = std::move(copy);
  require(moved == a && moved.format() == a.format());
}

void check_two(const Quantity& a, const Quantity& b, std::int64_t factor) {
  require(a + b == b + a);
  require(a + b - b == a);
  require(a - b == -(b - a));
  require((a + b) * factor == a * factor + b * factor);
  require(a * factor * 2 == a * 2 * factor);
  require((a <=> b) == ((a - b).sign() <=> 0));
  require((a < b) == (b > a));
  check_one(a + b);
  check_one(a * factor);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string_view first = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(first.size() + 1, text.size()));
  const std::string_view second = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(second.size() + 1, text.size()));

  const auto a = Quantity::parse(first);
  if (!a) return 0;
  check_one(*a);
  const auto b = Quantity::parse(second);
  if (!b) return 0;
  std::int64_t factor = 0;
  for (const char c : text.substr(0, 7)) factor = factor * 256 + static_cast<unsigned char>(c);
  check_two(*a, *b, text.size() % 2 == 0 ? factor : -factor);
  return 0;
}
