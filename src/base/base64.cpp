#include "base/base64.hpp"

#include <algorithm>
#include <cstdint>

namespace bascule {

namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string base64_encode(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      out += i + j > bytes.size() ? '=' : kAlphabet[group >> (18 - 6 * j) & 63];
    }
  }
  return out;
}

std::string base64url_encode(std::string_view bytes) {
  std::string text = base64_encode(bytes);
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  while (text.ends_with('=')) text.pop_back();
  return text;
}

std::optional<std::string> base64_decode(std::string_view text) {
  std::string out;
  out.reserve(text.size() / 4 * 3);
  std::uint32_t group = 0;
  std::size_t digits = 0;
  std::size_t pads = 0;
  for (const char c : text) {
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t') continue;
    if (c == '=') {
      ++pads;
      continue;
    }
    const std::size_t value = kAlphabet.find(c);
    if (value == std::string_view::npos || pads > 0) return std::nullopt;
    group = group << 6 | static_cast<std::uint32_t>(value);
    if (++digits % 4 != 0) continue;
    out += static_cast<char>(group >> 16 & 0xff);
    out += static_cast<char>(group >> 8 & 0xff);
    out += static_cast<char>(group & 0xff);
    group = 0;
  }
  const std::size_t rest = digits % 4;
  if (rest == 1 || (rest + pads) % 4 != 0 || pads > 2) return std::nullopt;
  if (rest == 2) out += static_cast<char>(group >> 4 & 0xff);
  if (rest == 3) {
    out += static_cast<char>(group >> 10 & 0xff);
    out += static_cast<char>(group >> 2 & 0xff);
  }
  return out;
}

std::optional<std::string> base64url_decode(std::string_view text) {
  std::string plain(text);
  std::ranges::replace(plain, '-', '+');
  std::ranges::replace(plain, '_', '/');
  plain.append((4 - plain.size() % 4) % 4, '=');
  return base64_decode(plain);
}

}  // namespace bascule
