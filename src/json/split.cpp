#include "json/split.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "json/value.hpp"

namespace bascule::json {
namespace {

constexpr bool is_space(char c) noexcept {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Bytes that mean something outside of strings.
constexpr auto kStructure = [] {
  std::array<bool, 256> table{};
  for (const char c : {'"', '{', '}', '[', ']'}) table[static_cast<unsigned char>(c)] = true;
  return table;
}();

constexpr std::uint64_t kOnes = 0x0101010101010101;

constexpr std::uint64_t any_equal(std::uint64_t word, char c) noexcept {
  const std::uint64_t x = word ^ (kOnes * static_cast<unsigned char>(c));
  return (x - kOnes) & ~x & (kOnes << 7);
}

// 64 bytes at a time, as one bit each.
constexpr std::size_t kBlock = 64;
using Block = unsigned char __attribute__((vector_size(kBlock)));
using BlockBits = bool __attribute__((ext_vector_type(kBlock)));

std::uint64_t bits_equal(const Block& block, char c) noexcept {
  return __builtin_bit_cast(std::uint64_t, __builtin_convertvector(block == static_cast<unsigned char>(c), BlockBits));
}

// The bits behind a \ that is not behind one itself. `first`: the first is behind one; told of the next block.
std::uint64_t escaped_bits(std::uint64_t backslashes, bool& first) noexcept {
  std::uint64_t escaped = first ? 1 : 0;
  backslashes &= ~escaped;
  first = false;
  while (backslashes != 0) {
    const int at = std::countr_zero(backslashes);
    if (at == kBlock - 1) {
      first = true;
      break;
    }
    escaped |= std::uint64_t{2} << at;
    backslashes &= ~(std::uint64_t{3} << at);
  }
  return escaped;
}

// Each bit is the parity of all up to it: from one quote to the next.
std::uint64_t between(std::uint64_t quotes) noexcept {
  for (int by = 1; by < 64; by *= 2) quotes ^= quotes << by;
  return quotes;
}

// First " or \ at or after `at`, else the size: most bytes of a list lie in strings.
std::size_t find_quote(std::string_view text, std::size_t at) noexcept {
  for (; at + 8 <= text.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, 8);
    if (any_equal(word, '"') | any_equal(word, '\\')) break;
  }
  while (at < text.size() && text[at] != '"' && text[at] != '\\') ++at;
  return at;
}

}  // namespace

void ListSplitter::fail(std::string_view what) const {
  const std::size_t offset = consumed_ + at_;
  throw ParseError(fmt::format("not a list: {} at byte {}", what, offset), offset);
}

void ListSplitter::feed(std::string_view piece) {
  BASCULE_CHECK(at_ == piece_.size(), "the piece before must have been read to its end");
  consumed_ += piece_.size();
  piece_ = piece;
  at_ = start_ = 0;
}

std::optional<std::string_view> ListSplitter::next() {
  while (at_ < piece_.size()) {
    switch (state_) {
      case State::kInItem:
        if (!scan()) return keep();
        check_size();
        state_ = State::kAfterItem;
        ++items_;
        if (carry_.empty() && piece_.size() - at_ >= kPadding) return piece_.substr(start_, at_ - start_);
        carry_.reserve(carry_.size() + (at_ - start_) + kPadding);
        return carry_.append(piece_, start_, at_ - start_);
      case State::kInKey:
        if (!scan()) return keep();
        check_size();
        key_ = carry_.append(piece_, start_, at_ - start_);
        state_ = State::kColon;
        break;
      case State::kInValue:
        if (!scan()) return keep();
        check_size();
        end_value();
        state_ = State::kAfterValue;
        break;
      default:
        if (is_space(piece_[at_])) {
          ++at_;
        } else {
          step(piece_[at_]);
        }
    }
  }
  return std::nullopt;
}

// Between values: `c` is no white space.
void ListSplitter::step(char c) {
  switch (state_) {
    case State::kStart:
      if (c != '{') fail("expected an object");
      return enter(State::kFirstKey);
    case State::kFirstKey:
      if (c == '}') return enter(State::kEnd);
      [[fallthrough]];
    case State::kKey:
      if (c != '"') fail("expected a key");
      return begin(State::kInKey);
    case State::kColon:
      if (c != ':') fail("expected a colon");
      return enter(State::kValue);
    case State::kValue:
      if (key_ == list_key_) {
        if (std::exchange(seen_items_, true)) fail(list_ + " for the second time");
        if (c == '[') {
          frame_ += ',' + key_ + ":[]";
          return enter(State::kFirstItem);
        }
        if (c != 'n') fail(list_ + " is not an array");
      }
      if (!std::string_view("\"{[-0123456789tfn").contains(c)) fail("expected a value");
      return begin(State::kInValue);
    case State::kAfterValue:
      if (c == ',') return enter(State::kKey);
      if (c == '}') return enter(State::kEnd);
      fail("expected a comma or the end of the object");
    case State::kFirstItem:
      if (c == ']') return enter(State::kAfterValue);
      [[fallthrough]];
    case State::kItem:
      if (c != '{') fail(fmt::format("{}[{}] is not an object", list_, items_));
      return begin(State::kInItem);
    case State::kAfterItem:
      if (c == ',') return enter(State::kItem);
      if (c == ']') return enter(State::kAfterValue);
      fail("expected a comma or the end of " + list_);
    default:
      fail("text after the list");
  }
}

void ListSplitter::enter(State state) {
  ++at_;
  state_ = state;
}

void ListSplitter::begin(State state) {
  state_ = state;
  start_ = at_;
  carry_.clear();
  depth_ = 0;
  in_string_ = escaped_ = false;
  scalar_ = !kStructure[static_cast<unsigned char>(piece_[at_])];
}

// Brackets are counted a block at a time, up to the block in which the value ends, or which is no JSON.
void ListSplitter::skip_blocks() {
  while (depth_ > 0 && piece_.size() - at_ >= kBlock) {
    Block block;
    std::memcpy(&block, piece_.data() + at_, kBlock);
    const Block lower = block | 0x20;  // [ and { are one then, ] and } too
    bool escaped = escaped_;
    const std::uint64_t backslashes = bits_equal(block, '\\');
    const std::uint64_t quotes = bits_equal(block, '"') & ~escaped_bits(backslashes, escaped);
    const std::uint64_t strings = between(quotes) ^ (in_string_ ? ~std::uint64_t{0} : 0);
    if ((backslashes & ~strings) != 0) return;
    const std::uint64_t opens = bits_equal(lower, '{') & ~strings;
    const std::uint64_t closes = bits_equal(lower, '}') & ~strings;
    std::size_t depth = depth_;
    if (std::popcount(closes) < static_cast<int>(depth)) {
      depth += static_cast<std::size_t>(std::popcount(opens)) - static_cast<std::size_t>(std::popcount(closes));
    } else {
      for (std::uint64_t left = opens | closes; left != 0; left &= left - 1) {
        (opens & left & -left) != 0 ? ++depth : --depth;
        if (depth == 0) return;
      }
    }
    depth_ = depth;
    in_string_ = (strings >> (kBlock - 1)) != 0;
    escaped_ = escaped;
    at_ += kBlock;
  }
}

bool ListSplitter::scan() {
  if (scalar_) return skip_scalar();
  while (at_ < piece_.size()) {
    skip_blocks();
    if (scan_bytes(std::min(piece_.size(), at_ + kBlock))) return true;
  }
  return false;
}

// ... up to `until`, or to the end of a string that goes beyond.
bool ListSplitter::scan_bytes(std::size_t until) {
  while (at_ < until) {
    if (in_string_) {
      if (std::exchange(escaped_, false)) {
        ++at_;
        continue;
      }
      at_ = find_quote(piece_, at_);
      if (at_ == piece_.size()) return false;
      if (piece_[at_++] == '\\') {
        escaped_ = true;
        continue;
      }
      in_string_ = false;
      if (depth_ == 0) return true;
      continue;
    }
    while (at_ < until && !kStructure[static_cast<unsigned char>(piece_[at_])]) ++at_;
    if (at_ == until) return false;
    switch (piece_[at_]) {
      case '"':
        in_string_ = true;
        break;
      case '{':
      case '[':
        ++depth_;
        break;
      default:
        if (--depth_ == 0) {
          ++at_;
          return true;
        }
    }
    ++at_;
  }
  return false;
}

bool ListSplitter::skip_scalar() {
  const auto part = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == 'E' || c == '-' || c == '+' || c == '.';
  };
  while (at_ < piece_.size() && part(piece_[at_])) ++at_;
  return at_ < piece_.size();
}

void ListSplitter::check_size() const {
  const std::size_t size = carry_.size() + (at_ - start_);
  const bool item = state_ == State::kInItem;
  const std::size_t limit = item ? limits_.item_bytes : limits_.envelope_bytes;
  if (size <= limit) return;
  const std::string what = item ? fmt::format("{}[{}]", list_, items_) : std::string("a field of the list itself");
  throw LimitError(fmt::format("{} is over {} bytes, more than is taken", what, limit), consumed_ + at_);
}

std::nullopt_t ListSplitter::keep() {
  check_size();
  carry_.append(piece_, start_);
  start_ = at_;
  return std::nullopt;
}

void ListSplitter::end_value() {
  carry_.append(piece_, start_, at_ - start_);
  frame_ += ',' + key_ + ':' + carry_;
  if (key_ == "\"kind\"") kind_ = carry_;
  if (key_ == "\"apiVersion\"") api_version_ = carry_;
  if (key_ == "\"metadata\"") metadata_ = carry_;
}

void ListSplitter::check_whole() const {
  if (state_ == State::kEnd) return;
  const std::string where = state_ == State::kInItem ? fmt::format(" inside {}[{}]", list_, items_) : std::string();
  throw ParseError(fmt::format("the list was cut off{} after {} bytes and {} items", where, consumed_ + at_, items_),
                   consumed_ + at_);
}

std::string ListSplitter::frame() const {
  check_whole();
  return "{" + frame_.substr(std::min<std::size_t>(1, frame_.size())) + "}";
}

ListMeta ListSplitter::finish() const {
  check_whole();
  const auto text = [](const std::string& json) { return json.empty() ? Value() : parse(json); };
  const Value metadata = text(metadata_);
  return {.kind = std::string(string_at(text(kind_), {})),
          .api_version = std::string(string_at(text(api_version_), {})),
          .resource_version = std::string(string_at(metadata, {"resourceVersion"})),
          .continue_token = std::string(string_at(metadata, {"continue"})),
          .remaining = int_at(metadata, {"remainingItemCount"})};
}

void LineSplitter::feed(std::string_view piece) {
  BASCULE_CHECK(at_ == piece_.size(), "the piece before must have been read to its end");
  consumed_ += piece_.size();
  piece_ = piece;
  at_ = 0;
}

std::optional<std::string_view> LineSplitter::next() {
  if (std::exchange(handed_out_, false)) carry_.clear();
  while (at_ < piece_.size()) {
    const std::size_t end = std::min(piece_.find('\n', at_), piece_.size());
    const bool whole = end < piece_.size();
    if (carry_.size() + (end - at_) > limit_) {
      throw LimitError(fmt::format("a line is over {} bytes, more than is taken", limit_), consumed_ + at_);
    }
    const std::string_view line = piece_.substr(at_, end - at_);
    at_ = whole ? end + 1 : end;
    if (whole && carry_.empty() && piece_.size() - end >= kPadding + 1) {
      const std::string_view text = line.ends_with('\r') ? line.substr(0, line.size() - 1) : line;
      if (text.empty()) continue;
      return text;
    }
    carry_.reserve(carry_.size() + line.size() + kPadding);
    carry_.append(line);
    if (!whole) return std::nullopt;
    if (carry_.ends_with('\r')) carry_.pop_back();
    if (carry_.empty()) continue;
    handed_out_ = true;
    return carry_;
  }
  return std::nullopt;
}

}  // namespace bascule::json
