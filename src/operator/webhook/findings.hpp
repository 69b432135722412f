// What the rules say of an object: faults, for which it is refused, and warnings, which its user sees and may ignore.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace bascule::op {

struct Finding {
  std::string field;     // spec.updateStrategy.rollingUpdate.maxUnavailable
  std::string sentence;  // what is wrong and what helps, without the field

  std::string text() const { return field + ": " + sentence; }
  friend bool operator==(const Finding&, const Finding&) = default;
};

struct Findings {
  std::vector<Finding> faults;
  std::vector<Finding> warnings;

  template <class... A>
  void fault(std::string field, fmt::format_string<A...> format, A&&... arguments) {
    faults.push_back({std::move(field), fmt::format(format, std::forward<A>(arguments)...)});
  }
  template <class... A>
  void warn(std::string field, fmt::format_string<A...> format, A&&... arguments) {
    warnings.push_back({std::move(field), fmt::format(format, std::forward<A>(arguments)...)});
  }
};

}  // namespace bascule::op
