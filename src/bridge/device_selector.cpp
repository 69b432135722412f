#include "bridge/device_selector.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <memory>
#include <vector>

namespace bascule::bridge {

namespace {

constexpr std::size_t kMaxExpression = 10'240;  // the API's own limit
constexpr int kMaxDepth = 64;

struct Unreadable {};

// A value, a list of values, or undecided (nullopt).
struct Operand {
  std::optional<DeviceAttribute> value;
  std::optional<std::vector<std::optional<DeviceAttribute>>> list;
};

class Evaluator final {
 public:
  Evaluator(std::string_view text, std::string_view driver, const Device& device)
      : text_(text), driver_(driver), device_(device) {}

  std::optional<bool> run() {
    const Operand result = either();
    skip();
    if (at_ != text_.size()) throw Unreadable{};
    return truth(result);
  }

 private:
  static std::optional<bool> truth(const Operand& operand) {
    if (!operand.value) return std::nullopt;
    const bool* flag = std::get_if<bool>(&*operand.value);
    return flag == nullptr ? std::nullopt : std::optional(*flag);
  }
  static Operand of(std::optional<bool> flag) {
    Operand out;
    if (flag) out.value = DeviceAttribute(*flag);
    return out;
  }

  void skip() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  bool take(std::string_view token) {
    skip();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) throw Unreadable{};
  }
  static bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
  bool take_word(std::string_view word) {
    skip();
    const std::string_view rest = text_.substr(at_);
    if (!rest.starts_with(word) || (rest.size() > word.size() && is_word(rest[word.size()]))) return false;
    at_ += word.size();
    return true;
  }
  std::string_view word() {
    skip();
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    if (begin == at_) throw Unreadable{};
    return text_.substr(begin, at_ - begin);
  }

  Operand either() {
    if (++depth_ > kMaxDepth) throw Unreadable{};
    Operand left = both();
    while (take("||")) {
      const std::optional<bool> a = truth(left);
      const std::optional<bool> b = truth(both());
      left = of(a == true || b == true     ? std::optional(true)
                : a == false && b == false ? std::optional(false)
                                           : std::nullopt);
    }
    --depth_;
    return left;
  }
  Operand both() {
    Operand left = comparison();
    while (take("&&")) {
      const std::optional<bool> a = truth(left);
      const std::optional<bool> b = truth(comparison());
      left = of(a == false || b == false ? std::optional(false)
                : a == true && b == true ? std::optional(true)
                                         : std::nullopt);
    }
    return left;
  }

  static std::optional<bool> equal(const std::optional<DeviceAttribute>& a, const std::optional<DeviceAttribute>& b) {
    if (!a || !b || a->index() != b->index()) return std::nullopt;
    return *a == *b;
  }
  static std::optional<bool> contains(const Operand& list, const Operand& item) {
    if (!list.list) return std::nullopt;
    bool sure = true;
    for (const auto& one : *list.list) {
      const std::optional<bool> same = equal(one, item.value);
      if (same == true) return true;
      sure = sure && same.has_value();
    }
    return sure && item.value ? std::optional(false) : std::nullopt;
  }
  template <class Compare>
  static Operand ordered(const Operand& a, const Operand& b, Compare compare) {
    if (!a.value || !b.value || a.value->index() != b.value->index() || a.value->index() == 0) return {};
    return of(compare(*a.value, *b.value));
  }

  Operand comparison() {
    Operand left = unary();
    if (take("==")) return of(equal(left.value, unary().value));
    if (take("!=")) {
      const auto same = equal(left.value, unary().value);
      return of(same ? std::optional(!*same) : std::nullopt);
    }
    if (take("<=")) return ordered(left, unary(), [](const auto& a, const auto& b) { return a <= b; });
    if (take(">=")) return ordered(left, unary(), [](const auto& a, const auto& b) { return a >= b; });
    if (take("<")) return ordered(left, unary(), [](const auto& a, const auto& b) { return a < b; });
    if (take(">")) return ordered(left, unary(), [](const auto& a, const auto& b) { return a > b; });
    if (take_word("in")) return of(contains(unary(), left));
    return left;
  }

  Operand unary() {
    skip();
    if (at_ + 1 < text_.size() && text_[at_] == '!' && text_[at_ + 1] != '=') {
      if (++depth_ > kMaxDepth) throw Unreadable{};
      ++at_;
      const std::optional<bool> flag = truth(unary());
      --depth_;
      return of(flag ? std::optional(!*flag) : std::nullopt);
    }
    return primary();
  }

  Operand primary() {
    if (take("(")) {
      Operand inner = either();
      expect(")");
      return inner;
    }
    if (take("[")) return list();
    skip();
    const char c = at_ < text_.size() ? text_[at_] : '\0';
    if (c == '\'' || c == '"') return {.value = DeviceAttribute(literal()), .list = {}};
    if (c == '-' || std::isdigit(static_cast<unsigned char>(c)) != 0) return number();
    if (take_word("true")) return of(true);
    if (take_word("false")) return of(false);
    if (take_word("device")) return field();
    throw Unreadable{};
  }

  Operand list() {
    Operand out;
    out.list.emplace();
    if (take("]")) return out;
    do {
      if (++depth_ > kMaxDepth) throw Unreadable{};
      out.list->push_back(unary().value);
      --depth_;
    } while (take(","));
    expect("]");
    return out;
  }

  std::string literal() {
    const char quote = text_[at_++];
    const std::size_t end = text_.find_first_of(std::string{quote, '\\', '\n'}, at_);
    if (end == std::string_view::npos || text_[end] != quote) throw Unreadable{};
    std::string out(text_.substr(at_, end - at_));
    at_ = end + 1;
    return out;
  }

  Operand number() {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc{}) throw Unreadable{};
    at_ = static_cast<std::size_t>(end - text_.data());
    if (at_ < text_.size() && (is_word(text_[at_]) || text_[at_] == '.')) throw Unreadable{};
    return {.value = DeviceAttribute(value), .list = {}};
  }

  Operand field() {
    expect(".");
    if (take_word("driver")) return {.value = DeviceAttribute(std::string(driver_)), .list = {}};
    if (!take_word("attributes")) throw Unreadable{};
    expect("[");
    skip();
    if (at_ >= text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) throw Unreadable{};
    std::string name = literal();
    expect("]");
    expect(".");
    name += "/";
    name += word();
    skip();
    if (at_ < text_.size() && (text_[at_] == '.' || text_[at_] == '(' || text_[at_] == '[')) throw Unreadable{};
    const auto found = device_.attributes.find(name);
    Operand out;
    if (found != device_.attributes.end()) out.value = found->second;
    return out;
  }

  std::string_view text_;
  std::string_view driver_;
  const Device& device_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

std::optional<bool> selects(std::string_view expression, std::string_view driver, const Device& device) {
  if (expression.size() > kMaxExpression) return std::nullopt;
  try {
    return Evaluator(expression, driver, device).run();
  } catch (const Unreadable&) {
    return std::nullopt;
  }
}

}  // namespace bascule::bridge
