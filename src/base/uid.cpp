#include "base/uid.hpp"

namespace bascule {

namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

constexpr bool has_dash(std::size_t at) noexcept {
  return at == 8 || at == 13 || at == 18 || at == 23;
}

}  // namespace

Uid::Uid(std::string_view text) : value_(parse(text)) {
  if (!text.empty() && empty()) value_ = std::make_shared<const std::string>(text);
}

Uid::Bits Uid::parse(std::string_view text) noexcept {
  if (text.size() != sizeof(Buffer)) return {};
  Bits bits{};
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (has_dash(at)) {
      if (text[at] != '-') return {};
      continue;
    }
    const std::size_t digit = kDigits.find(text[at]);
    if (digit == std::string_view::npos) return {};
    bits.high = bits.high << 4 | bits.low >> 60;
    bits.low = bits.low << 4 | digit;
  }
  return bits;
}

// One that was moved from is as good as empty.
const std::string& Uid::text() const noexcept {
  static const std::string kNone;
  const Text& known = *std::get_if<Text>(&value_);
  return known ? *known : kNone;
}

std::string_view Uid::view(Buffer& buffer) const noexcept {
  const Bits* known = bits();
  if (known == nullptr) return text();
  if (*known == Bits{}) return {};
  Bits rest = *known;
  for (std::size_t at = sizeof(Buffer); at-- > 0;) {
    if (has_dash(at)) {
      buffer[at] = '-';
      continue;
    }
    buffer[at] = kDigits[rest.low & 15];
    rest.low = rest.low >> 4 | rest.high << 60;
    rest.high >>= 4;
  }
  return {buffer, sizeof(Buffer)};
}

std::string Uid::str() const {
  Buffer buffer;
  return std::string(view(buffer));
}

std::strong_ordering Uid::compare_texts(const Uid& a, const Uid& b) noexcept {
  Buffer one;
  Buffer other;
  return a.view(one) <=> b.view(other);
}

// UUIDs made by counting differ in a few bits anywhere: each bit goes into the whole of it.
std::size_t Uid::hash() const noexcept {
  const Bits* known = bits();
  if (known == nullptr) return std::hash<std::string>{}(text());
  std::uint64_t mix = known->high * 0x9e3779b97f4a7c15 ^ known->low;
  mix = (mix ^ mix >> 32) * 0xd6e8feb86659fd93;
  mix = (mix ^ mix >> 32) * 0xd6e8feb86659fd93;
  return mix ^ mix >> 32;
}

}  // namespace bascule
