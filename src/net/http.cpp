#include "net/http.hpp"

#include <algorithm>

namespace bascule::net {

namespace {

char lower(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool same_name(std::string_view a, std::string_view b) noexcept {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

bool unreserved(char c) noexcept {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_' || c == '~';
}

int hex_digit(char c) noexcept {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '+' && plus_is_space) {
      out += ' ';
    } else if (text[i] != '%') {
      out += text[i];
    } else {
      const int high = i + 1 < text.size() ? hex_digit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
      if (high < 0 || low < 0) {
        throw std::invalid_argument("broken percent escape at byte " + std::to_string(i) + " of \"" +
                                    std::string(text.substr(0, 200)) + "\"");
      }
      out += static_cast<char>(high * 16 + low);
      i += 2;
    }
  }
  return out;
}

}  // namespace

std::string_view to_string(Error::Kind kind) noexcept {
  switch (kind) {
    case Error::Kind::kUnreachable:
      return "unreachable";
    case Error::Kind::kBroken:
      return "broken";
    case Error::Kind::kDeadline:
      return "deadline";
    case Error::Kind::kStopped:
      return "stopped";
    case Error::Kind::kTooLarge:
      return "too large";
    case Error::Kind::kMalformed:
      return "malformed";
  }
  return "unknown";
}

void Headers::set(std::string_view name, std::string value) {
  const auto first = std::ranges::find_if(fields_, [&](const auto& field) { return same_name(field.first, name); });
  if (first == fields_.end()) {
    fields_.emplace_back(name, std::move(value));
    return;
  }
  first->second = std::move(value);
  fields_.erase(
      std::remove_if(first + 1, fields_.end(), [&](const auto& field) { return same_name(field.first, name); }),
      fields_.end());
}

std::string_view Headers::get(std::string_view name) const noexcept {
  for (const auto& [key, value] : fields_) {
    if (same_name(key, name)) return value;
  }
  return {};
}

bool Headers::has(std::string_view name) const noexcept {
  return std::ranges::any_of(fields_, [&](const auto& field) { return same_name(field.first, name); });
}

std::string percent_encode(std::string_view text) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (unreserved(c)) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += '%';
      out += kDigits[byte >> 4];
      out += kDigits[byte & 15];
    }
  }
  return out;
}

std::string percent_decode(std::string_view text) {
  return decode(text, false);
}

std::string_view Target::get(std::string_view key) const noexcept {
  for (const auto& [name, value] : query) {
    if (name == key) return value;
  }
  return {};
}

Target parse_target(std::string_view target) {
  // Absolute form, as sent to a proxy.
  for (const std::string_view scheme : {std::string_view("http://"), std::string_view("https://")}) {
    if (!target.starts_with(scheme)) continue;
    const std::size_t slash = target.find_first_of("/?", scheme.size());
    target = slash == std::string_view::npos ? std::string_view() : target.substr(slash);
  }
  Target out;
  const std::size_t question = target.find('?');
  out.path = target.substr(0, question);
  if (out.path.empty()) out.path = "/";
  if (question == std::string_view::npos) return out;
  std::string_view rest = target.substr(question + 1);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('&'), rest.size());
    const std::string_view pair = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (pair.empty()) continue;
    const std::size_t equals = std::min(pair.find('='), pair.size());
    const std::string_view value = pair.substr(std::min(equals + 1, pair.size()));
    out.query.emplace_back(decode(pair.substr(0, equals), true), decode(value, true));
  }
  return out;
}

}  // namespace bascule::net
