#include "json/yaml.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <spanstream>
#include <unordered_map>
#include <utility>

namespace bascule::json {
namespace {

// Bytes of text that count as one value: an alias of a long text is as dear as one of many values.
constexpr std::size_t kTextWeight = 64;
constexpr std::string_view kCore = "tag:yaml.org,2002:";

[[noreturn]] void fail(const YAML::Mark& mark, std::string_view what) {
  throw ParseError(fmt::format("YAML line {}, column {}: {}", mark.line + 1, mark.column + 1, what),
                   static_cast<std::size_t>(std::max(mark.pos, 0)));
}

[[noreturn]] void too_big(const YAML::Mark& mark, const std::string& what) {
  throw LimitError(fmt::format("YAML line {}, column {}: {}", mark.line + 1, mark.column + 1, what),
                   static_cast<std::size_t>(std::max(mark.pos, 0)));
}

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, text) != words.end();
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// All of `digits` as a number with sign; nullopt when it is none or does not fit 64 bits.
std::optional<Value> integer(std::string_view digits, int base, bool negative) {
  std::uint64_t number = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
  if (digits.empty() || error != std::errc{} || stop != digits.data() + digits.size()) return std::nullopt;
  constexpr std::uint64_t kLowest = std::uint64_t{1} << 63;
  if (negative) {
    if (number > kLowest) return std::nullopt;
    return static_cast<std::int64_t>(0 - number);
  }
  if (number < kLowest) return static_cast<std::int64_t>(number);
  return number;
}

std::optional<Value> integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  if (text.size() > 1 && text[0] == '0') {
    switch (text[1]) {
      case 'x':
      case 'X':
        return integer(text.substr(2), 16, negative);
      case 'o':
      case 'O':
        return integer(text.substr(2), 8, negative);
      case 'b':
      case 'B':
        return integer(text.substr(2), 2, negative);
      default:
        return integer(text.substr(1), 8, negative);
    }
  }
  return integer(text, 10, negative);
}

// [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?
std::optional<double> real(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const std::size_t sign = text.starts_with('-') ? 1 : 0;
  std::size_t at = sign;
  const auto digits = [&] {
    const std::size_t start = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    return at - start;
  };
  const std::size_t whole = digits();
  std::size_t fraction = 0;
  if (at < text.size() && text[at] == '.') {
    ++at;
    fraction = digits();
  }
  if (whole + fraction == 0) return std::nullopt;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (digits() == 0) return std::nullopt;
  }
  double number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (at != text.size() || stop != text.data() + text.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    // Too small is zero, too big is no number, as for Go.
    const std::size_t exponent = text.find_first_of("eE");
    if (exponent == std::string_view::npos || text[exponent + 1] != '-') return std::nullopt;
    return sign ? -0.0 : 0.0;
  }
  return number;
}

// A plain scalar by its looks; nullopt: a string.
std::optional<Value> resolve(const YAML::Mark& mark, const std::string& text) {
  if (is_one_of(text, {"", "~", "null", "Null", "NULL"})) return Value(nullptr);
  if (is_one_of(text, {"true", "True", "TRUE", "y", "Y", "yes", "Yes", "YES", "on", "On", "ON"})) return Value(true);
  if (is_one_of(text, {"false", "False", "FALSE", "n", "N", "no", "No", "NO", "off", "Off", "OFF"})) {
    return Value(false);
  }
  if (is_one_of(text, {".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf",
                       "-.INF"})) {
    fail(mark, fmt::format("{} is not a number JSON can say; quote it to have the text", text));
  }
  const char first = text.front();
  if (!is_digit(first) && first != '-' && first != '+' && first != '.') return std::nullopt;
  std::string plain = text;
  if (first != '.') std::erase(plain, '_');
  if (first != '.') {
    if (auto number = integer(plain)) return number;
  }
  if (const auto number = real(plain)) return Value(*number);
  return std::nullopt;
}

Value scalar(const YAML::Mark& mark, const std::string& tag, const std::string& text) {
  if (tag == "?" || tag.empty()) {
    if (auto value = resolve(mark, text)) return std::move(*value);
    return boost::json::string(text);
  }
  if (!tag.starts_with(kCore)) return boost::json::string(text);  // "!", quoted; tags of one's own say nothing here
  const std::string_view type = std::string_view(tag).substr(kCore.size());
  if (type == "str" || type == "timestamp") return boost::json::string(text);
  if (!is_one_of(type, {"null", "bool", "int", "float"})) fail(mark, fmt::format("!!{} is not supported", type));
  std::optional<Value> value = resolve(mark, text);
  if (value && type == "float" && value->is_number()) return value->to_number<double>();
  const bool fits = value && ((type == "null" && value->is_null()) || (type == "bool" && value->is_bool()) ||
                              (type == "int" && (value->is_int64() || value->is_uint64())));
  if (!fits) fail(mark, fmt::format("\"{}\" is no !!{}", text, type));
  return std::move(*value);
}

// Builds values from the parser's events.
class Builder final : public YAML::EventHandler {
 public:
  explicit Builder(const YamlLimits& limits) : limits_(limits) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    // The library passes over nothing where it expects something else: it would find empty documents for ever.
    if (mark.pos == last_start_) fail(mark, "a value is expected here");
    last_start_ = mark.pos;
    anchors_.clear();
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    count(mark, 1);
    put(mark, anchor, nullptr, 1, {});
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    const bool merge = text == "<<" && (tag == "?" || tag == "tag:yaml.org,2002:merge");
    const std::size_t weight = 1 + text.size() / kTextWeight;
    count(mark, weight);
    put(mark, anchor, merge ? Value("<<") : scalar(mark, tag, text), weight, {.merge = merge});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto at = anchors_.find(anchor);
    if (at == anchors_.end()) fail(mark, "an alias inside of what it stands for");
    count(mark, at->second.weight);
    put(mark, 0, at->second.value, at->second.weight, {.depth = at->second.depth});
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, anchor, Array());
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, anchor, Object());
  }
  void OnMapEnd() override { close(); }

  std::optional<Value> take() { return std::exchange(root_, std::nullopt); }

 private:
  struct Extra {
    bool merge = false;     // the scalar is a plain <<
    std::size_t depth = 0;  // of an alias' value
  };
  struct Level {
    Value value;
    YAML::Mark mark;
    YAML::anchor_t anchor = 0;
    std::size_t weight = 1;
    std::size_t depth = 0;           // below it
    std::optional<std::string> key;  // of an object: waits for its value
    bool merge_key = false;
    std::vector<Value> merges;
  };
  struct Anchor {
    Value value;
    std::size_t weight;
    std::size_t depth;
  };

  void open(const YAML::Mark& mark, YAML::anchor_t anchor, Value value) {
    if (levels_.size() >= limits_.depth) too_big(mark, fmt::format("nested deeper than {} levels", limits_.depth));
    count(mark, 1);
    Level level;
    level.value = std::move(value);
    level.mark = mark;
    level.anchor = anchor;
    levels_.push_back(std::move(level));
  }

  void close() {
    Level level = std::move(levels_.back());
    levels_.pop_back();
    for (const Value& merge : level.merges) take_over(level.value.get_object(), merge);
    put(level.mark, level.anchor, std::move(level.value), level.weight, {.depth = level.depth});
  }

  static void take_over(Object& object, const Value& merge) {
    for (const auto& [key, value] : merge.get_object()) object.insert(Object::value_type(key, value));
  }

  // Before anything is copied.
  void count(const YAML::Mark& mark, std::size_t weight) {
    weight_ += weight;
    if (weight_ > limits_.nodes) too_big(mark, fmt::format("more than {} values", limits_.nodes));
  }

  void put(const YAML::Mark& mark, YAML::anchor_t anchor, Value value, std::size_t weight, Extra extra) {
    if (levels_.size() + extra.depth > limits_.depth) {
      too_big(mark, fmt::format("nested deeper than {} levels", limits_.depth));
    }
    if (anchor != 0) {
      count(mark, weight);
      anchors_.insert_or_assign(anchor, Anchor{value, weight, extra.depth});
    }
    if (levels_.empty()) {
      root_ = std::move(value);
      return;
    }
    Level& level = levels_.back();
    level.weight += weight;
    level.depth = std::max(level.depth, extra.depth + 1);
    if (Array* array = level.value.if_array()) {
      array->push_back(std::move(value));
    } else if (!level.key) {
      level.key = key_of(mark, value);
      level.merge_key = extra.merge;
    } else if (level.merge_key) {
      merge(mark, level, std::move(value));
      level.key.reset();
    } else {
      level.value.get_object()[*level.key] = std::move(value);
      level.key.reset();
    }
  }

  std::string key_of(const YAML::Mark& mark, const Value& value) {
    if (value.is_null() || value.is_structured()) fail(mark, "a key must be a string");
    std::string key = value.is_string() ? std::string(view(value.get_string())) : dump(value);
    if (levels_.back().value.get_object().contains(key)) fail(mark, fmt::format("key \"{}\" is there twice", key));
    return key;
  }

  static void merge(const YAML::Mark& mark, Level& level, Value value) {
    if (value.is_object()) {
      level.merges.push_back(std::move(value));
      return;
    }
    if (!value.is_array()) fail(mark, "<< takes a map or a list of maps");
    for (Value& item : value.get_array()) {
      if (!item.is_object()) fail(mark, "<< takes a map or a list of maps");
      level.merges.push_back(std::move(item));
    }
  }

  const YamlLimits& limits_;
  std::vector<Level> levels_;
  std::unordered_map<YAML::anchor_t, Anchor> anchors_;
  std::optional<Value> root_;
  std::size_t weight_ = 0;
  int last_start_ = -1;  // of a document
};

}  // namespace

std::vector<Value> parse_yaml_all(std::string_view text, YamlLimits limits) {
  if (text.size() > limits.bytes) {
    throw LimitError(fmt::format("YAML text of {} bytes; at most {} are taken", text.size(), limits.bytes), 0);
  }
  std::vector<Value> documents;
  std::ispanstream stream{std::span<const char>(text.data(), text.size())};
  try {
    YAML::Parser parser(stream);
    Builder builder(limits);
    while (parser.HandleNextDocument(builder)) {
      std::optional<Value> document = builder.take();
      if (document && !document->is_null()) documents.push_back(std::move(*document));
    }
  } catch (const YAML::Exception& error) {
    fail(error.mark, error.msg);
  }
  return documents;
}

Value parse_yaml(std::string_view text, YamlLimits limits) {
  std::vector<Value> documents = parse_yaml_all(text, limits);
  if (documents.empty()) return nullptr;
  if (documents.size() > 1) throw ParseError("YAML: more than one document", 0);
  return std::move(documents.front());
}

}  // namespace bascule::json
