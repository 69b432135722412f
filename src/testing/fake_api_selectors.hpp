// Label and field selectors as the API server reads them.
// Source: "Labels and Selectors", "Field Selectors" of the Kubernetes documentation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "json/value.hpp"
#include "kube/resource.hpp"

namespace bascule::testing {

// Throw ApiFailure 400 for a text that is no selector, or a field the kind cannot be selected by.
class LabelSelector final {
 public:
  explicit LabelSelector(std::string_view text = {});
  bool empty() const noexcept { return terms_.empty(); }
  bool matches(const json::Value& object) const;

 private:
  enum class Op : std::uint8_t { kIn, kNotIn, kExists, kAbsent, kGreater, kLess };
  struct Term {
    std::string key;
    Op op = Op::kIn;
    std::vector<std::string> values = {};
  };
  static Term parse_term(std::string_view text);
  std::vector<Term> terms_;
};

class FieldSelector final {
 public:
  FieldSelector() = default;
  FieldSelector(std::string_view text, const kube::Resource& resource);
  bool empty() const noexcept { return terms_.empty(); }
  bool matches(const json::Value& object) const;

 private:
  struct Term {
    std::vector<std::string> path;
    bool equal = true;
    std::string value;
  };
  std::vector<Term> terms_;
};

}  // namespace bascule::testing
