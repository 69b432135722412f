#include <cstdint>
#include <string_view>

#include "base/check.hpp"
#include "json/yaml.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bascule::json;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    for (const Value& document : parse_yaml_all(text, {.bytes = 1 << 16, .depth = 32, .nodes = 10'000})) dump(document);
  } catch (const ParseError&) {
  }
  return 0;
}
