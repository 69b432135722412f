#include "json/patch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

namespace bascule::json {
namespace {

// A patch that copies a document into itself again and again grows without end.
constexpr std::size_t kMaxDepth = 256;
constexpr std::size_t kMaxCopied = 1'000'000;  // values

using Pointer = std::vector<std::string>;

[[noreturn]] void refuse(const std::string& sentence) {
  throw PatchError("JSON patch: " + sentence);
}

Pointer parse_pointer(std::string_view text) {
  if (!text.empty() && text.front() != '/') refuse(fmt::format("\"{}\" is no path: it must begin with /", text));
  Pointer tokens;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '/') {
      tokens.emplace_back();
    } else if (c != '~') {
      tokens.back().push_back(c);
    } else {
      const char next = ++i < text.size() ? text[i] : '\0';
      if (next != '0' && next != '1') refuse(fmt::format("\"{}\" is no path: ~ must be ~0 or ~1", text));
      tokens.back().push_back(next == '0' ? '~' : '/');
    }
  }
  if (tokens.size() > kMaxDepth) refuse("a path is too deep");
  return tokens;
}

// The place in a list; the list's size for "-".
std::size_t parse_index(const std::string& token, std::size_t size) {
  if (token == "-") return size;
  std::size_t index = 0;
  const char* const end = token.data() + token.size();
  const auto [stop, error] = std::from_chars(token.data(), end, index);
  const bool canonical = token.size() == 1 || !token.starts_with('0');
  if (error != std::errc{} || stop != end || !canonical) refuse(fmt::format("\"{}\" is no place in a list", token));
  return index;
}

Value* child(Value& parent, const std::string& token) {
  if (Object* object = parent.if_object()) return object->if_contains(token);
  if (Array* array = parent.if_array()) {
    const std::size_t index = parse_index(token, array->size());
    return index < array->size() ? &(*array)[index] : nullptr;
  }
  return nullptr;
}

std::string text_of(const Pointer& pointer, std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += "/" + pointer_token(pointer[i]);
  return text;
}

// The value that the first `count` tokens lead to.
Value& resolve(Value& root, const Pointer& pointer, std::size_t count) {
  Value* at = &root;
  for (std::size_t i = 0; i < count; ++i) {
    at = child(*at, pointer[i]);
    if (!at) refuse(fmt::format("\"{}\" is not there", text_of(pointer, i + 1)));
  }
  return *at;
}

Value& resolve(Value& root, const Pointer& pointer) {
  return resolve(root, pointer, pointer.size());
}
Value& parent_of(Value& root, const Pointer& pointer) {
  return resolve(root, pointer, pointer.size() - 1);
}

struct Size {
  std::size_t depth = 0;
  std::size_t values = 1;
};

Size measure(const Value& value) {
  Size size;
  const auto add = [&](const Value& item) {
    const Size inner = measure(item);
    size.depth = std::max(size.depth, inner.depth + 1);
    size.values += inner.values;
  };
  if (const Object* object = value.if_object()) {
    for (const auto& [key, item] : *object) add(item);
  } else if (const Array* array = value.if_array()) {
    for (const Value& item : *array) add(item);
  }
  return size;
}

class Patcher {
 public:
  explicit Patcher(Value& root) : root_(root) {}

  void run(const Object& operation) {
    const std::string_view op = text(operation, "op");
    const Pointer path = parse_pointer(text(operation, "path"));
    if (op == "add") {
      add(path, value(operation));
    } else if (op == "remove") {
      remove(path);
    } else if (op == "replace") {
      Value& old = resolve(root_, path);
      check(path, value(operation));
      old = value(operation);
    } else if (op == "move") {
      move(parse_pointer(text(operation, "from")), path);
    } else if (op == "copy") {
      add(path, Value(resolve(root_, parse_pointer(text(operation, "from")))));
    } else if (op == "test") {
      const Value& found = resolve(root_, path);
      if (!equal(found, value(operation))) refuse(fmt::format("the value is {}", dump(found).substr(0, 200)));
    } else {
      refuse("op is not add, remove, replace, move, copy or test");
    }
  }

 private:
  static std::string_view text(const Object& operation, std::string_view key) {
    const Value* found = operation.if_contains(key);
    if (!found || !found->is_string()) refuse(fmt::format("\"{}\" must be a string", key));
    return view(found->get_string());
  }

  static const Value& value(const Object& operation) {
    const Value* found = operation.if_contains("value");
    if (!found) refuse("\"value\" is missing");
    return *found;
  }

  void check(const Pointer& path, const Value& value) {
    const Size size = measure(value);
    copied_ += size.values;
    if (copied_ > kMaxCopied || path.size() + size.depth > kMaxDepth) refuse("the document grows beyond all bounds");
  }

  void add(const Pointer& path, Value value) {
    check(path, value);
    if (path.empty()) {
      root_ = std::move(value);
      return;
    }
    Value& parent = parent_of(root_, path);
    if (Object* object = parent.if_object()) {
      object->insert_or_assign(path.back(), std::move(value));
    } else if (Array* array = parent.if_array()) {
      const std::size_t index = parse_index(path.back(), array->size());
      if (index > array->size()) refuse(fmt::format("\"{}\" is behind the end of the list", path.back()));
      array->insert(array->begin() + index, std::move(value));
    } else {
      refuse("only objects and lists have members");
    }
  }

  void remove(const Pointer& path) {
    if (path.empty()) refuse("the whole document cannot be removed");
    resolve(root_, path);
    Value& parent = parent_of(root_, path);
    if (Object* object = parent.if_object()) {
      object->stable_erase(path.back());
    } else {
      Array& array = parent.get_array();
      array.erase(array.begin() + parse_index(path.back(), array.size()));
    }
  }

  void move(const Pointer& from, const Pointer& to) {
    if (from == to) {
      resolve(root_, from);
      return;
    }
    if (from.size() < to.size() && std::equal(from.begin(), from.end(), to.begin())) {
      refuse("a value cannot be moved into itself");
    }
    Value value = resolve(root_, from);
    remove(from);
    add(to, std::move(value));
  }

  Value& root_;
  std::size_t copied_ = 0;
};

class Differ {
 public:
  void diff(const Value& from, const Value& to, const std::string& path) {
    if (equal(from, to)) return;
    if (from.is_object() && to.is_object()) {
      diff_objects(from.get_object(), to.get_object(), path);
    } else if (from.is_array() && to.is_array()) {
      diff_arrays(from.get_array(), to.get_array(), path);
    } else {
      emit("replace", path, to);
    }
  }

  Array take() { return std::move(operations_); }

 private:
  void diff_objects(const Object& from, const Object& to, const std::string& path) {
    for (const auto& [key, value] : from) {
      if (!to.contains(key)) emit("remove", path + "/" + pointer_token(key));
    }
    for (const auto& [key, value] : to) {
      const std::string at = path + "/" + pointer_token(key);
      if (const Value* old = from.if_contains(key)) {
        diff(*old, value, at);
      } else {
        emit("add", at, value);
      }
    }
  }

  void diff_arrays(const Array& from, const Array& to, const std::string& path) {
    const std::size_t shorter = std::min(from.size(), to.size());
    std::size_t head = 0;
    while (head < shorter && equal(from[head], to[head])) ++head;
    std::size_t tail = 0;
    while (tail < shorter - head && equal(from[from.size() - 1 - tail], to[to.size() - 1 - tail])) ++tail;
    const std::size_t old_end = from.size() - tail;
    const std::size_t new_end = to.size() - tail;
    const std::size_t both_end = std::min(old_end, new_end);
    for (std::size_t i = head; i < both_end; ++i) diff(from[i], to[i], fmt::format("{}/{}", path, i));
    for (std::size_t i = old_end; i > both_end; --i) emit("remove", fmt::format("{}/{}", path, i - 1));
    for (std::size_t i = both_end; i < new_end; ++i) emit("add", fmt::format("{}/{}", path, i), to[i]);
  }

  void emit(std::string_view op, const std::string& path) { operations_.push_back(Object{{"op", op}, {"path", path}}); }
  void emit(std::string_view op, const std::string& path, const Value& value) {
    operations_.push_back(Object{{"op", op}, {"path", path}, {"value", value}});
  }

  Array operations_;
};

Object merge_difference(const Object& from, const Object& to) {
  Object patch;
  for (const auto& [key, value] : from) {
    if (!to.contains(key)) patch[key] = nullptr;
  }
  for (const auto& [key, value] : to) {
    const Value* old = from.if_contains(key);
    if (old && equal(*old, value)) continue;
    if (old && old->is_object() && value.is_object()) {
      if (Object inner = merge_difference(old->get_object(), value.get_object()); !inner.empty()) {
        patch[key] = std::move(inner);
      }
    } else if (old || !value.is_null()) {
      patch[key] = value;
    }
  }
  return patch;
}

}  // namespace

std::string pointer_token(std::string_view key) {
  std::string out;
  out.reserve(key.size());
  for (const char c : key) {
    if (c == '~') {
      out += "~0";
    } else if (c == '/') {
      out += "~1";
    } else {
      out.push_back(c);
    }
  }
  return out;
}

Value patched(const Value& target, const Value& patch) {
  const Array* operations = patch.if_array();
  if (!operations) refuse("a patch is a list of operations");
  Value result = target;
  Patcher patcher(result);
  std::size_t number = 0;
  for (const Value& operation : *operations) {
    const Object* object = operation.if_object();
    if (!object) refuse(fmt::format("operation {} is no object", number));
    try {
      patcher.run(*object);
    } catch (const PatchError& error) {
      throw PatchError(fmt::format("{} (operation {}: {} {})", error.what(), number, string_at(operation, {"op"}),
                                   string_at(operation, {"path"})));
    }
    ++number;
  }
  return result;
}

void apply_patch(Value& target, const Value& patch) {
  target = patched(target, patch);
}

Array diff_patch(const Value& from, const Value& to) {
  Differ differ;
  differ.diff(from, to, {});
  return differ.take();
}

void apply_merge(Value& target, const Value& patch) {
  const Object* changes = patch.if_object();
  if (!changes) {
    target = patch;
    return;
  }
  if (!target.is_object()) target.emplace_object();
  Object& object = target.get_object();
  for (const auto& [key, change] : *changes) {
    if (change.is_null()) {
      object.stable_erase(key);
    } else {
      apply_merge(object[key], change);
    }
  }
}

Value merged(const Value& target, const Value& patch) {
  Value result = target;
  apply_merge(result, patch);
  return result;
}

Value diff_merge(const Value& from, const Value& to) {
  if (!from.is_object() || !to.is_object()) return to;
  return merge_difference(from.get_object(), to.get_object());
}

}  // namespace bascule::json
