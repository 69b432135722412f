// YAML to JSON value, as kubectl and the API machinery (sigs.k8s.io/yaml) read it:
//  - quoted scalars and !!str are strings; plain scalars are null (empty, ~, null, Null, NULL), booleans, integers
//    (decimal, 0x, 0o, 0b, leading-0 octal, _ between digits), floats, else strings.
//  - y, n, yes, no, on, off in any usual spelling (Yes, YES) are booleans only where YAML 1.1 and kubectl agree:
//    yes/no/on/off and their spellings are booleans, single y and n are strings.
//  - timestamps stay strings; .inf and .nan are refused, JSON cannot say them.
//  - merge keys (<<) are applied; anchors and aliases are copied, within a bound.
#pragma once

#include <string_view>
#include <vector>

#include "json/value.hpp"

namespace bascule::json {

struct YamlLimits {
  std::size_t bytes = std::size_t{16} << 20;
  std::size_t depth = 64;
  std::size_t nodes = 1'000'000;  // after aliases are copied
};

// Every document of the text that is not empty. Throws ParseError with line and column in the sentence; a repeated key
// is an error.
std::vector<Value> parse_yaml_all(std::string_view text, YamlLimits limits = {});
// Exactly one document; an empty text is null.
Value parse_yaml(std::string_view text, YamlLimits limits = {});

}  // namespace bascule::json
