// Input: a kind, a document, a patch, one a line.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.hpp"
#include "json/strategic.hpp"

namespace {

using namespace bascule::json;

bool has_null_or_directive(const Value& value) {
  if (value.is_null()) return true;
  if (const Object* object = value.if_object()) {
    for (const auto& [key, item] : *object) {
      if (std::string_view(key).starts_with('$') || has_null_or_directive(item)) return true;
    }
  } else if (const Array* array = value.if_array()) {
    for (const Value& item : *array) {
      if (has_null_or_directive(item)) return true;
    }
  }
  return false;
}

std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const StrategicSchema schema = StrategicSchema::of(take_line(text));
    const Value from = parse(take_line(text));
    const Value patch = parse(text);
    if (!has_null_or_directive(from) && !has_null_or_directive(patch)) {
      const Value diff = diff_strategic(from, patch, schema);
      BASCULE_CHECK(equal(strategic_merged(from, diff, schema), patch), "a strategic diff round-trips");
    }
    dump(strategic_merged(from, patch, schema));
  } catch (const ParseError&) {
  } catch (const PatchError&) {
  }
  return 0;
}
