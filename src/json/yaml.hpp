// YAML to JSON value, as kubectl and the API machinery (sigs.k8s.io/yaml on go-yaml v2) read it:
//  - quoted and block scalars and !!str are strings. Plain scalars: empty, ~, null, Null, NULL are null;
//    true/false, yes/no, on/off and y/n in their spellings (yes, Yes, YES; y, Y) are booleans, as in YAML 1.1;
//    integers are decimal, 0x, 0o, 0b, octal by a leading 0, with _ between digits; decimal floats; else strings.
//    Timestamps stay strings.
//  - keys become strings by the same rules (yes: is "true":, 1: is "1":); null and composite keys are refused.
//  - merge keys (<<) are applied; aliases are copied, within a bound.
// Unlike kubectl on purpose: a repeated key is an error, an explicit key wins over << wherever it stands, !!binary is
// refused. JSON is YAML, so JSON files are read too.
#pragma once

#include <string_view>
#include <vector>

#include "json/value.hpp"

namespace bascule::json {

struct YamlLimits {
  std::size_t bytes = std::size_t{16} << 20;
  std::size_t depth = 64;
  std::size_t nodes = 1'000'000;  // of all documents, aliases counted as what they stand for
};

// Every document of the text that is not empty. Throws ParseError, or LimitError, with line and column in the sentence.
std::vector<Value> parse_yaml_all(std::string_view text, YamlLimits limits = {});
// At most one document; an empty text is null.
Value parse_yaml(std::string_view text, YamlLimits limits = {});

}  // namespace bascule::json
