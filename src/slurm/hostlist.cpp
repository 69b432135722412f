#include "slurm/hostlist.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <charconv>
#include <optional>

namespace bascule::slurm {

namespace {

constexpr std::size_t kMaxName = 255;     // a DNS name
constexpr std::size_t kMaxDigits = 18;    // fits 64 bits
constexpr std::size_t kMaxBrackets = 16;  // of one item

bool is_digit(char c) noexcept {
  return c >= '0' && c <= '9';
}

bool is_name_char(char c) noexcept {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.';
}

// A piece of hostile text that may stand in a message.
std::string excerpt(std::string_view text, std::size_t at) {
  std::string shown;
  for (const char c : text.substr(at, 24)) shown += c >= ' ' && c < 127 ? c : '?';
  return shown;
}

void append_number(std::string& to, std::uint64_t number, std::uint32_t width) {
  char digits[20];
  const char* end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  const auto length = static_cast<std::size_t>(end - digits);
  if (length < width) to.append(width - length, '0');
  to.append(digits, length);
}

std::size_t digits_of(std::uint64_t number) noexcept {
  std::size_t digits = 1;
  for (; number >= 10; number /= 10) ++digits;
  return digits;
}

}  // namespace

class Hostlist::Parser final {
 public:
  Parser(std::string_view text, HostlistLimits limits) : text_(text), limits_(limits) {}

  Hostlist run() {
    if (text_.empty()) throw HostlistError("a hostlist is empty");
    if (text_.size() > limits_.bytes) {
      throw HostlistError(fmt::format("a hostlist has {} bytes, more than {}", text_.size(), limits_.bytes));
    }
    Hostlist list;
    while (true) {
      std::size_t names = 1;
      list.items_.push_back(item(names));
      list.count_ += names;
      if (list.count_ > limits_.names) too_many();
      if (at_ == text_.size()) return list;
      ++at_;  // the comma
    }
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw HostlistError(fmt::format("hostlist: {} at byte {}{}{}{}", what, at_, at_ < text_.size() ? ": \"" : "",
                                    at_ < text_.size() ? excerpt(text_, at_) : std::string(),
                                    at_ < text_.size() ? "\"" : ""));
  }
  [[noreturn]] void too_many() const {
    throw HostlistError(fmt::format("a hostlist stands for more than {} names", limits_.names));
  }
  bool more() const noexcept { return at_ < text_.size(); }

  // Ends at a comma or at the end of the text. Multiplies `names`.
  Item item(std::size_t& names) {
    Item parts;
    std::size_t length = 0;
    std::size_t brackets = 0;
    while (true) {
      Part part;
      const std::size_t begin = at_;
      while (more() && is_name_char(text_[at_])) ++at_;
      part.text = std::string(text_.substr(begin, at_ - begin));
      length += part.text.size();
      const bool bracket = more() && text_[at_] == '[';
      if (bracket) {
        if (++brackets > kMaxBrackets) fail("too many brackets in one name");
        names = multiply(names, ranges(part.ranges, length));
      }
      if (length > kMaxName) fail("a name is longer than 255 characters");
      const bool useful = bracket || !part.text.empty();
      if (useful) parts.push_back(std::move(part));
      if (bracket) continue;
      if (parts.empty()) fail(more() ? "a name was expected" : "a name is missing");
      if (more() && text_[at_] != ',') fail("this cannot be in a name");
      return parts;
    }
  }

  // From '[' to behind ']'. Returns how many numbers; adds the longest one's length.
  std::size_t ranges(std::vector<Range>& out, std::size_t& length) {
    ++at_;
    std::size_t numbers = 0;
    std::size_t longest = 0;
    while (true) {
      const Range range = one_range();
      numbers += range.high - range.low + 1;
      if (numbers > limits_.names) too_many();
      longest = std::max({longest, std::size_t{range.width}, digits_of(range.high)});
      out.push_back(range);
      if (!more()) fail("a bracket is not closed");
      if (text_[at_] == ']') break;
      if (text_[at_] != ',') fail("a number, comma or closing bracket was expected");
      ++at_;
    }
    ++at_;
    length += longest;
    return numbers;
  }

  Range one_range() {
    Range range;
    std::size_t width = 0;
    range.low = range.high = number(width);
    range.width = static_cast<std::uint32_t>(width);
    if (more() && text_[at_] == '-') {
      ++at_;
      std::size_t high_width = 0;
      range.high = number(high_width);
      if (range.high < range.low) fail("a range goes down");
    }
    return range;
  }

  std::uint64_t number(std::size_t& width) {
    const std::size_t begin = at_;
    while (more() && is_digit(text_[at_])) ++at_;
    width = at_ - begin;
    if (width == 0) fail(more() ? "a number was expected" : "a bracket is not closed");
    if (width > kMaxDigits) fail("a number has more than 18 digits");
    std::uint64_t value = 0;
    std::from_chars(text_.data() + begin, text_.data() + at_, value);
    return value;
  }

  std::size_t multiply(std::size_t a, std::size_t b) const {
    if (a > limits_.names / b) too_many();
    return a * b;
  }

  std::string_view text_;
  HostlistLimits limits_;
  std::size_t at_ = 0;
};

Hostlist Hostlist::parse(std::string_view text, HostlistLimits limits) {
  return Parser(text, limits).run();
}

bool Hostlist::contains(std::string_view name) const noexcept {
  if (name.empty() || name.size() > kMaxName) return false;
  // Which beginnings of the name the parts so far can produce: a number may be followed by literal digits, so there can
  // be several.
  using Ends = std::bitset<kMaxName + 1>;
  const auto after_part = [name](const Part& part, std::size_t from, Ends& ends) {
    if (name.substr(from, part.text.size()) != part.text) return;
    from += part.text.size();
    if (part.ranges.empty()) {
      ends.set(from);
      return;
    }
    std::uint64_t value = 0;
    for (std::size_t length = 1; from + length <= name.size() && length <= kMaxDigits; ++length) {
      const char c = name[from + length - 1];
      if (!is_digit(c)) break;
      value = value * 10 + static_cast<std::uint64_t>(c - '0');
      const std::size_t natural = digits_of(value);
      const bool made = std::ranges::any_of(part.ranges, [&](const Range& r) {
        return r.low <= value && value <= r.high && length == std::max(natural, std::size_t{r.width});
      });
      if (made) ends.set(from + length);
    }
  };
  return std::ranges::any_of(items_, [&](const Item& item) {
    Ends ends;
    ends.set(0);
    for (const Part& part : item) {
      Ends next;
      for (std::size_t from = 0; from <= name.size(); ++from) {
        if (ends.test(from)) after_part(part, from, next);
      }
      if (next.none()) return false;
      ends = next;
    }
    return ends.test(name.size());
  });
}

void Hostlist::for_each(const std::function<void(std::string_view)>& use) const {
  std::string name;
  const auto fill = [&](const auto& self, const Item& item, std::size_t index) -> void {
    if (index == item.size()) return use(name);
    const Part& part = item[index];
    const std::size_t before = name.size();
    name += part.text;
    if (part.ranges.empty()) self(self, item, index + 1);
    const std::size_t head = name.size();
    for (const Range& range : part.ranges) {
      for (std::uint64_t n = range.low; n <= range.high; ++n) {
        append_number(name, n, range.width);
        self(self, item, index + 1);
        name.resize(head);
      }
    }
    name.resize(before);
  };
  for (const Item& item : items_) fill(fill, item, 0);
}

std::vector<std::string> Hostlist::expand() const {
  std::vector<std::string> names;
  names.reserve(count_);
  for_each([&names](std::string_view name) { names.emplace_back(name); });
  return names;
}

std::expected<std::vector<std::string>, std::string> expand_hostlist(std::string_view text, HostlistLimits limits) {
  try {
    return Hostlist::parse(text, limits).expand();
  } catch (const HostlistError& e) {
    return std::unexpected(std::string(e.what()));
  }
}

std::optional<bool> hostlist_contains(std::string_view text, std::string_view name) {
  try {
    return Hostlist::parse(text).contains(name);
  } catch (const HostlistError&) {
    return std::nullopt;
  }
}

namespace {

// A name as prefix and last number; no number when it does not end with a digit, or with too many.
struct Split {
  std::string_view prefix;
  std::string_view digits;
  std::uint64_t number = 0;
};

Split split(std::string_view name) noexcept {
  std::size_t begin = name.size();
  while (begin > 0 && is_digit(name[begin - 1])) --begin;
  Split parts{name.substr(0, begin), name.substr(begin), 0};
  if (parts.digits.empty() || parts.digits.size() > kMaxDigits) return {name, {}, 0};
  std::from_chars(parts.digits.data(), parts.digits.data() + parts.digits.size(), parts.number);
  return parts;
}

// Would a range that begins with `first` write `next` so?
bool same_width(const Split& first, const Split& next) noexcept {
  return next.digits.size() == std::max(first.digits.size(), digits_of(next.number));
}

}  // namespace

std::string format_hostlist(std::span<const std::string> names) {
  std::string out;
  for (std::size_t i = 0; i < names.size();) {
    const Split head = split(names[i]);
    if (!out.empty()) out += ',';
    out += head.prefix;
    if (head.digits.empty()) {
      ++i;
      continue;
    }
    const std::size_t open = out.size();
    std::size_t numbers = 0;
    while (i < names.size()) {
      const Split first = split(names[i]);
      if (first.digits.empty() || first.prefix != head.prefix) break;
      if (numbers > 0) out += ',';
      out += first.digits;
      ++numbers;
      Split last = first;
      for (++i; i < names.size(); ++i) {
        const Split next = split(names[i]);
        if (next.digits.empty() || next.prefix != head.prefix || next.number != last.number + 1) break;
        if (!same_width(first, next)) break;
        last = next;
      }
      if (last.number != first.number) {
        out += '-';
        out += last.digits;
        ++numbers;
      }
    }
    if (numbers > 1) {
      out.insert(open, 1, '[');
      out += ']';
    }
  }
  return out;
}

}  // namespace bascule::slurm
