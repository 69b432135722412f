#include "operator/nodeset/identity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "operator/api/names.hpp"

namespace bascule::op::nodeset {

namespace {

bool is_digits(std::string_view text) noexcept {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// Text and last dash-separated part; the part is empty when there is no dash.
std::pair<std::string_view, std::string_view> split_last(std::string_view name) noexcept {
  const std::size_t dash = name.rfind('-');
  if (dash == std::string_view::npos) return {name, {}};
  return {name.substr(0, dash), name.substr(dash + 1)};
}

// Ten letters and digits that stay the same for a text. The first is a letter, so that no ordinal looks like it.
std::string short_hash(std::string_view text) {
  constexpr std::string_view kAlphabet = "bcdfghjklmnpqrstvwxz2456789";
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  std::string out = "n";
  for (int i = 0; i < 9; ++i) {
    out += kAlphabet[hash % kAlphabet.size()];
    hash /= kAlphabet.size();
  }
  return out;
}

// A label bears it, so a NodeSet with a long name gives it only the beginning. One that is there keeps its name.
std::string daemon_name(const Spec& spec, const NodeView& node) {
  constexpr std::size_t kMostOfName = 52;
  if (spec.name.size() <= kMostOfName) return fmt::format("{}-{}", spec.name, short_hash(node.name));
  std::string_view name = std::string_view(spec.name).substr(0, kMostOfName);
  name = name.substr(0, name.find_last_not_of("-.") + 1);
  return fmt::format("{}-{}", name, short_hash(fmt::format("{}/{}", spec.name, node.name)));
}

}  // namespace

std::string_view to_string(ScalingMode mode) noexcept {
  return mode == ScalingMode::kStatefulSet ? "StatefulSet" : "DaemonSet";
}

std::int32_t ordinal_of(std::string_view pod_name) noexcept {
  const std::string_view text = split_last(pod_name).second;
  if (!is_digits(text)) return -1;
  std::int32_t ordinal = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ordinal);
  return error == std::errc() ? ordinal : -1;
}

std::string padded(std::int32_t ordinal, std::uint32_t digits) {
  return fmt::format("{:0{}}", ordinal, digits);
}

std::string slurm_name_of(const PodView& pod) {
  if (pod.mode_label != to_string(ScalingMode::kStatefulSet)) return pod.hostname;
  if (pod.host_network) return pod.node;
  return pod.hostname.empty() ? pod.name : pod.hostname;
}

std::string hostname_of(const NodeView& node) {
  const std::string given = node.hostname_override.value_or("");
  return given.empty() ? node.name.substr(0, node.name.find('.')) : given;
}

std::optional<std::string> hostname_fault(std::string_view hostname) {
  constexpr std::size_t kLongest = 63;
  if (hostname.empty()) return "the hostname is empty";
  if (hostname.size() > kLongest) return fmt::format("the hostname \"{}\" is longer than 63 characters", hostname);
  const bool plain = std::ranges::all_of(
      hostname, [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; });
  if (!plain || hostname.front() == '-' || hostname.back() == '-') {
    return fmt::format("\"{}\" is no hostname: lower case letters, digits and inner dashes only", hostname);
  }
  return std::nullopt;
}

bool is_of_mode(const PodView& pod, ScalingMode mode) {
  return !pod.mode_label || *pod.mode_label == to_string(mode);
}

std::string_view suffix_of(const PodView& pod) noexcept {
  return split_last(pod.name).second;
}

std::string slot_of(const PodView& pod) {
  if (pod.mode_label == to_string(ScalingMode::kDaemonSet)) return pod.node.empty() ? pod.target_node : pod.node;
  return std::to_string(ordinal_of(pod.name));
}

Claiming claiming_of(const Spec& spec, const PodView& pod) {
  if (pod.owner == Owner::kOther) return Claiming::kIgnore;
  if (pod.owner == Owner::kUs) {
    if (pod.selected) return Claiming::kKeep;
    return spec.deleted ? Claiming::kIgnore : Claiming::kRelease;
  }
  if (!pod.selected || spec.deleted || pod.terminating) return Claiming::kIgnore;
  // Another cluster's slurmctld has its jobs, and this one's would call it free.
  if (pod.cluster != spec.controller) return Claiming::kIgnore;
  bool named = false;
  if (spec.mode == ScalingMode::kStatefulSet) {
    const auto [parent, number] = split_last(pod.name);
    named = parent == spec.name && is_digits(number) && ordinal_of(pod.name) >= 0;
  } else {
    named = pod.generate_name == spec.name + "-";
  }
  return named ? Claiming::kAdopt : Claiming::kIgnore;
}

std::string claim_for(const Spec& spec, const std::map<std::string, ClaimView>& claims, std::string_view claim_template,
                      std::int32_t ordinal) {
  const std::string stem = fmt::format("{}-{}-", claim_template, spec.name);
  std::string wanted = stem + padded(ordinal, spec.padding);
  if (claims.contains(wanted)) return wanted;
  for (auto it = claims.lower_bound(stem); it != claims.end() && it->first.starts_with(stem); ++it) {
    const std::string_view rest = std::string_view(it->first).substr(stem.size());
    if (is_digits(rest) && ordinal_of(it->first) == ordinal) return it->first;
  }
  return wanted;
}

std::string hostname_of(const Spec& spec, std::int32_t ordinal) {
  const std::string suffix = padded(ordinal, spec.padding);
  return spec.template_hostname.empty() ? fmt::format("{}-{}", spec.name, suffix) : spec.template_hostname + suffix;
}

CreatePod make_stateful(const Spec& spec, const std::map<std::string, ClaimView>& claims, std::int32_t ordinal,
                        const std::string& hash) {
  CreatePod pod;
  const std::string suffix = padded(ordinal, spec.padding);
  pod.name = fmt::format("{}-{}", spec.name, suffix);
  pod.hostname = hostname_of(spec, ordinal);
  pod.hash = hash;
  pod.labels = {{std::string(names::kPodIndex), suffix},
                {std::string(names::kPodName), pod.name},
                {std::string(names::kPodHostname), pod.hostname},
                {std::string(names::kScalingMode), std::string(to_string(ScalingMode::kStatefulSet))}};
  if (!hash.empty()) pod.labels.emplace(names::kRevisionHash, hash);
  for (const std::string& name : spec.claim_templates) pod.claims[name] = claim_for(spec, claims, name, ordinal);
  return pod;
}

CreatePod make_daemon(const Spec& spec, const NodeView& node, const std::string& hash) {
  CreatePod pod;
  pod.generate_name = spec.name + "-";
  pod.name = daemon_name(spec, node);
  pod.hostname = hostname_of(node);
  pod.hash = hash;
  pod.only_node = node.name;
  pod.labels = {{std::string(names::kPodName), pod.name},
                {std::string(names::kPodHostname), pod.hostname},
                {std::string(names::kScalingMode), std::string(to_string(ScalingMode::kDaemonSet))}};
  if (!hash.empty()) pod.labels.emplace(names::kRevisionHash, hash);
  for (const std::string& name : spec.claim_templates) {
    pod.claims[name] = fmt::format("{}-{}-{}", name, spec.name, pod.hostname);
  }
  return pod;
}

std::map<std::string, std::optional<std::string>> identity_labels(const Spec& spec, const PodView& pod) {
  std::map<std::string, std::optional<std::string>> changes;
  const auto want = [&](std::string_view key, const std::optional<std::string>& has, std::string_view wanted) {
    if (!wanted.empty() && has != wanted) changes[std::string(key)] = std::string(wanted);
  };
  PodView known = pod;
  if (!known.mode_label) known.mode_label = to_string(spec.mode);
  want(names::kScalingMode, pod.mode_label, *known.mode_label);
  want(names::kPodName, pod.name_label, pod.name);
  want(names::kPodHostname, pod.hostname_label, slurm_name_of(known));
  if (known.mode_label == to_string(ScalingMode::kStatefulSet)) want(names::kPodIndex, pod.index_label, suffix_of(pod));
  return changes;
}

}  // namespace bascule::op::nodeset
