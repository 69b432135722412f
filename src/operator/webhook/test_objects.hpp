// Objects for the tests of this folder, and findings as text.
#pragma once

#include <gmock/gmock.h>

#include <string>
#include <string_view>
#include <vector>

#include "json/yaml.hpp"
#include "operator/webhook/rules.hpp"

namespace bascule::op::testing {

inline json::Value object(std::string_view spec, std::string_view name = "slurm", std::string_view ns = "hpc") {
  return json::Object{{"metadata", json::Object{{"name", name}, {"namespace", ns}}}, {"spec", json::parse_yaml(spec)}};
}

inline std::vector<std::string> texts(const std::vector<Finding>& findings) {
  std::vector<std::string> out;
  for (const Finding& finding : findings) out.push_back(finding.text());
  return out;
}

inline Findings created(Kind kind, const json::Value& value, const Known& known = {}) {
  return examine(kind, value, nullptr, known);
}
inline Findings changed(Kind kind, const json::Value& before, const json::Value& after, const Known& known = {}) {
  return examine(kind, after, &before, known);
}

// A specification and what its only fault begins with; empty: there is none.
struct Case {
  std::string_view spec;
  std::string_view fault;
};

inline void expect_only(const Findings& findings, std::string_view fault, std::string_view what) {
  if (fault.empty()) {
    EXPECT_THAT(texts(findings.faults), ::testing::IsEmpty()) << what;
  } else {
    EXPECT_THAT(texts(findings.faults), ::testing::ElementsAre(::testing::StartsWith(std::string(fault)))) << what;
  }
}

}  // namespace bascule::op::testing
