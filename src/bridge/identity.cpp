#include "bridge/identity.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bridge/names.hpp"

namespace bascule::bridge {

namespace {

struct Field {
  std::string_view suffix;
  std::vector<std::string> IdentityRule::* allowed;
  std::optional<std::string> slurm::JobDescription::* value;
  bool open;  // free when the rule does not list it
};
constexpr Field kFields[] = {
    {"user-id", &IdentityRule::users, &slurm::JobDescription::user_id, false},
    {"group-id", &IdentityRule::groups, &slurm::JobDescription::group_id, false},
    {"account", &IdentityRule::accounts, &slurm::JobDescription::account, true},
    {"qos", &IdentityRule::qos, &slurm::JobDescription::qos, true},
    {"partition", &IdentityRule::partitions, &slurm::JobDescription::partition, true},
};

bool matches(const std::string& pattern, std::string_view ns) {
  if (pattern.ends_with('*')) return ns.starts_with(std::string_view(pattern).substr(0, pattern.size() - 1));
  return pattern == ns;
}

std::string_view value_of(const AnnotationViews& annotations, std::string_view suffix) {
  for (const auto& [key, value] : annotations) {
    if (key.starts_with(names::kJobPrefix) && key.substr(names::kJobPrefix.size()) == suffix) return value;
  }
  return {};
}

}  // namespace

std::vector<std::string> apply_identity(const std::vector<IdentityRule>& rules, std::string_view ns,
                                        const AnnotationViews& annotations, slurm::JobDescription& job) {
  std::vector<std::string> faults;
  if (rules.empty()) return faults;
  const auto rule = std::ranges::find_if(rules, [ns](const IdentityRule& one) {
    return std::ranges::any_of(one.namespaces, [ns](const std::string& pattern) { return matches(pattern, ns); });
  });
  const IdentityRule nothing;
  const IdentityRule& policy = rule == rules.end() ? nothing : *rule;
  for (const Field& field : kFields) {
    const std::vector<std::string>& allowed = policy.*field.allowed;
    const std::string_view asked = value_of(annotations, field.suffix);
    if (asked.empty()) {
      if (!allowed.empty() && allowed.front() != "*") job.*field.value = allowed.front();
      continue;
    }
    const bool listed =
        std::ranges::any_of(allowed, [&](const std::string& one) { return one == "*" || one == asked; });
    if (listed || (allowed.empty() && field.open)) continue;
    faults.push_back(fmt::format("annotation {}{}: namespace {} may not be {} in Slurm; {}", names::kJobPrefix,
                                 field.suffix, ns, in_quotes(asked),
                                 allowed.empty() ? "remove it, or ask the administrator for a rule in identities"
                                                 : fmt::format("allowed: {}", fmt::join(allowed, ", "))));
  }
  return faults;
}

}  // namespace bascule::bridge
