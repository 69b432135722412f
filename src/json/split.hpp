// Cuts what an API server streams into single objects, in bounded memory, before anything is decoded:
//  - ListSplitter: the body of a list, {"kind":"PodList","metadata":{...},"items":[{...},...]}, keys in any order;
//  - LineSplitter: a watch, one JSON event a line.
// Both take pieces as they arrive and hand out views. A view is followed by kPadding readable bytes (what they hold is
// unspecified), so that simdjson may read it in place; it points into the piece itself where the piece is long enough,
// and is copied where an object crosses pieces or touches the end of one.
//
//   splitter.feed(piece);
//   while (const auto item = splitter.next()) decode(*item);
//
// A piece must stay alive until next() gave nullopt; a view until the next call of next() or feed().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "json/error.hpp"

namespace bascule::json {

inline constexpr std::size_t kPadding = 64;

struct ListMeta {
  std::string kind;
  std::string api_version;
  std::string resource_version;
  std::string continue_token;  // empty: this was the last page
  std::optional<std::int64_t> remaining;
};

struct SplitLimits {
  std::size_t item_bytes = std::size_t{8} << 20;
  std::size_t envelope_bytes = std::size_t{64} << 10;  // all that is not items
};

// Items are cut by their brackets and strings; that they are JSON inside is the decoder's to find out. `list` is the
// key they stand under.
class ListSplitter final {
 public:
  explicit ListSplitter(SplitLimits limits = {}, std::string_view list = "items")
      : limits_(limits), list_(list), list_key_('"' + list_ + '"') {}

  // Only after next() gave nullopt.
  void feed(std::string_view piece);
  // The next whole item of the list; nullopt: feed more. Throws ParseError for what is no list, LimitError.
  std::optional<std::string_view> next();
  // After the last piece. Throws ParseError when the list is cut short.
  ListMeta finish() const;

  // Likewise, for lists of other kinds: the object as it came, with no items in the list.
  std::string frame() const;

  std::size_t items() const noexcept { return items_; }
  bool complete() const noexcept { return state_ == State::kEnd; }

 private:
  enum class State : std::uint8_t {
    kStart,       // before {
    kFirstKey,    // after {: a key or }
    kKey,         // after , : a key
    kInKey,       // inside the quotes of a key
    kColon,       // after a key
    kValue,       // after :
    kInValue,     // inside a value that is not items
    kAfterValue,  // , or }
    kFirstItem,   // after [ of items
    kItem,        // after , in items
    kInItem,      // between its brackets
    kAfterItem,   // , or ]
    kEnd          // after the last }; only white space may follow
  };

  void step(char c);
  void enter(State state);
  void begin(State state);
  // Moves at_ over the current key, value or item; true when it ended within the piece.
  bool scan();
  void skip_blocks();
  bool scan_bytes(std::size_t until);
  bool skip_scalar();
  void check_size() const;
  std::nullopt_t keep();
  void end_value();
  void check_whole() const;
  [[noreturn]] void fail(std::string_view what) const;

  SplitLimits limits_;
  std::string list_, list_key_;  // the latter with its quotes
  std::string_view piece_;
  std::size_t at_ = 0;        // in piece_
  std::size_t consumed_ = 0;  // bytes of earlier pieces
  std::size_t start_ = 0;     // where the current key, value or item starts in piece_
  std::string carry_;         // what of it came in earlier pieces
  State state_ = State::kStart;
  std::size_t depth_ = 0;
  bool scalar_ = false;  // it is a number, true, false or null
  bool in_string_ = false;
  bool escaped_ = false;
  bool seen_items_ = false;
  std::size_t items_ = 0;
  std::string key_, kind_, api_version_, metadata_;  // as JSON text
  std::string frame_;                                // fields so far, each with a comma before it
};

// Empty lines are skipped, a \r before the \n is cut off.
class LineSplitter final {
 public:
  explicit LineSplitter(std::size_t line_bytes = std::size_t{8} << 20) : limit_(line_bytes) {}

  void feed(std::string_view piece);
  // Throws LimitError.
  std::optional<std::string_view> next();
  // Bytes of an unfinished line: at the end of a stream, more than 0 means it was cut in the middle of an event.
  std::size_t pending() const noexcept { return (handed_out_ ? 0 : carry_.size()) + (piece_.size() - at_); }

 private:
  std::size_t limit_;
  std::string_view piece_;
  std::size_t at_ = 0;
  std::size_t consumed_ = 0;
  std::string carry_;
  bool handed_out_ = false;  // carry_ is the line last returned
};

}  // namespace bascule::json
