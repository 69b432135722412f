// Reads the fields of one object, and says what is wrong with the first that cannot be read.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "operator/api/types.hpp"

namespace bascule::op {

class Fields final {
 public:
  // The whole object; `kind` is for sentences. The value must outlive this.
  Fields(std::string_view kind, const json::Value& object);

  // Absent or null: empty Fields.
  Fields at(std::string_view key) const;
  bool has(std::string_view key) const noexcept { return value(key) != nullptr; }

  std::string text(std::string_view key, std::string_view fallback = {}) const;
  std::int64_t number(std::string_view key, std::int64_t fallback, std::int64_t least = 0,
                      std::int64_t most = std::numeric_limits<std::int32_t>::max()) const;
  // nullopt: absent, or no whole number.
  std::optional<std::int64_t> number_if(std::string_view key) const;
  bool flag(std::string_view key, bool fallback) const;
  StringMap texts(std::string_view key) const;
  std::vector<std::string> list_of_texts(std::string_view key) const;
  // [{name: a}, {name: b}]
  std::vector<std::string> names(std::string_view key) const;
  // {name: a}
  std::string name(std::string_view key) const { return at(key).text("name"); }
  KeyRef key_ref(std::string_view key) const;
  // {} when absent.
  json::Value object(std::string_view key) const;
  json::Array array(std::string_view key) const;
  std::vector<Fields> objects(std::string_view key) const;

  // "spec.replicas is a text; it must be a whole number, as in replicas: 3"
  [[noreturn]] void fault(std::string_view key, std::string_view what) const;

 private:
  Fields(std::string subject, std::string path, const json::Object* object)
      : subject_(std::move(subject)), path_(std::move(path)), object_(object) {}
  // nullptr: absent or null.
  const json::Value* value(std::string_view key) const noexcept;
  [[noreturn]] void wrong(std::string_view key, const json::Value& found, std::string_view remedy) const;
  std::string path_of(std::string_view key) const;

  std::string subject_;
  std::string path_;
  const json::Object* object_;  // nullptr: nothing there
};

}  // namespace bascule::op
