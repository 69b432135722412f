#include "bridge/identity.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "bridge/names.hpp"

namespace bascule::bridge {

namespace {

struct Field {
  std::string_view suffix;
  std::vector<std::string> IdentityRule::* allowed;
  std::optional<std::string> slurm::JobDescription::* value;  // nullptr: nothing is given by default
  bool open;                                                  // free when the rule does not list it
  std::string_view what;                                      // "may not ..."
};
using Rule = IdentityRule;
using Job = slurm::JobDescription;
constexpr Field kFields[] = {
    {"user-id", &Rule::users, &Job::user_id, false, "be"},
    {"group-id", &Rule::groups, &Job::group_id, false, "be"},
    {"account", &Rule::accounts, &Job::account, true, "be"},
    {"qos", &Rule::qos, &Job::qos, true, "be"},
    {"partition", &Rule::partitions, &Job::partition, false, "use"},
    {"wckey", &Rule::wckeys, &Job::wckey, true, "be"},
    {"reservation", &Rule::reservations, nullptr, false, "use"},
    {"licenses", &Rule::licenses, nullptr, true, "use"},
};
constexpr std::string_view kAskForRule = "remove it, or ask the administrator for a rule in identities";

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

// "a,b" of partitions and reservations, "matlab:2,ansys@db:1" of licenses (';' and '|' between them too): the names.
std::vector<std::string_view> names_in(std::string_view value) {
  std::vector<std::string_view> names;
  while (!value.empty()) {
    const std::size_t end = std::min(value.find_first_of(",;|"), value.size());
    std::string_view name = value.substr(0, end);
    value.remove_prefix(std::min(end + 1, value.size()));
    name = name.substr(0, name.find_first_of(":="));
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

// "gpu:2,license/matlab=1": the licenses among generic resources, of which Slurm takes them too. It finds the word
// wherever it stands, in any case.
std::vector<std::string_view> licenses_in(std::string_view gres) {
  static constexpr std::string_view kKind = "license";
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  std::vector<std::string_view> names;
  while (!gres.empty()) {
    const auto found = std::ranges::search(gres, kKind, {}, lower);
    gres.remove_prefix(static_cast<std::size_t>(found.end() - gres.begin()));
    if (found.empty() || gres.empty() || (gres.front() != '/' && gres.front() != ':')) continue;
    const std::string_view name = gres.substr(1, gres.find_first_of(":=,;|", 1) - 1);
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

bool listed(const std::vector<std::string>& allowed, std::string_view name) {
  return std::ranges::any_of(allowed, [name](const std::string& one) { return one == "*" || one == name; });
}

// What of these the list does not allow; empty: nothing.
std::string_view not_listed(const std::vector<std::string>& allowed, const std::vector<std::string_view>& names) {
  const auto other = std::ranges::find_if(names, [&](std::string_view name) { return !listed(allowed, name); });
  return other == names.end() ? std::string_view{} : *other;
}

// The configuration's `own` partitions are everybody's.
std::string_view not_listed(const Field& field, const std::vector<std::string>& allowed, std::string_view asked,
                            const std::vector<std::string_view>& own) {
  const bool partition = field.value == &Job::partition;
  std::vector<std::string_view> names = field.value != nullptr && !partition ? std::vector{asked} : names_in(asked);
  if (partition) {
    std::erase_if(names, [&own](std::string_view name) { return std::ranges::find(own, name) != own.end(); });
  }
  return not_listed(allowed, names);
}

std::string refusal(std::string_view suffix, std::string_view ns, std::string_view doing, std::string_view what,
                    const std::vector<std::string>& allowed) {
  return fmt::format("annotation {}{}: namespace {} may not {} {} in Slurm; {}", names::kJobPrefix, suffix, ns, doing,
                     in_quotes(what),
                     allowed.empty() ? std::string(kAskForRule) : fmt::format("allowed: {}", fmt::join(allowed, ", ")));
}

std::string priority_fault(const IdentityRule& policy, std::string_view ns, std::string_view asked) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(asked.data(), asked.data() + asked.size(), number);
  if (error == std::errc::invalid_argument || end != asked.data() + asked.size()) return {};
  if (policy.max_priority && error == std::errc{} && number <= *policy.max_priority) return {};
  return fmt::format(
      "annotation {}priority: namespace {} may not ask for priority {} in Slurm; {}", names::kJobPrefix, ns, asked,
      policy.max_priority ? fmt::format("allowed: up to {}", *policy.max_priority) : std::string(kAskForRule));
}

}  // namespace

std::vector<std::string> apply_identity(const std::vector<IdentityRule>& rules, std::string_view ns,
                                        const AnnotationViews& annotations, slurm::JobDescription& job,
                                        std::string_view own_partition) {
  std::vector<std::string> faults;
  if (rules.empty()) return faults;
  const auto rule = std::ranges::find_if(rules, [ns](const IdentityRule& one) {
    return std::ranges::any_of(one.namespaces, [ns](const std::string& pattern) { return matches(pattern, ns); });
  });
  const IdentityRule nothing;
  const IdentityRule& policy = rule == rules.end() ? nothing : *rule;
  const std::vector<std::string_view> own = names_in(own_partition);
  for (const Field& field : kFields) {
    const std::vector<std::string>& allowed = policy.*field.allowed;
    const std::string_view asked = value_of(annotations, field.suffix);
    if (asked.empty()) {
      const bool given = field.value != nullptr && !allowed.empty() && allowed.front() != "*";
      if (given) job.*field.value = allowed.front();
      continue;
    }
    if (allowed.empty() && field.open) continue;
    const std::string_view fault = not_listed(field, allowed, asked, own);
    if (!fault.empty()) faults.push_back(refusal(field.suffix, ns, field.what, fault, allowed));
  }
  if (const auto asked = licenses_in(value_of(annotations, "gres")); !policy.licenses.empty()) {
    const std::string_view fault = not_listed(policy.licenses, asked);
    if (!fault.empty()) faults.push_back(refusal("gres", ns, "use license", fault, policy.licenses));
  }
  if (const std::string_view asked = value_of(annotations, "priority"); !asked.empty()) {
    if (std::string fault = priority_fault(policy, ns, asked); !fault.empty()) faults.push_back(std::move(fault));
  }
  return faults;
}

}  // namespace bascule::bridge
