#include "operator/config/node_conf.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "operator/api/derived.hpp"

namespace bascule::op {

namespace {

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
bool same(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, {}, lower, lower);
}
bool is_feature(const NodeOption& option) {
  return same(option.key, "Feature") || same(option.key, "Features");
}

void split(std::string_view text, char separator, std::vector<std::string>& parts) {
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

// The kubelet expands $(NAME) in arguments, and writes $ for $$.
std::string without_expansion(std::string_view text) {
  std::string result;
  for (const char c : text) result.append(c == '$' ? 2 : 1, c);
  return result;
}

std::vector<std::string> features_of(const NodeSet& set, const std::vector<NodeOption>& options) {
  std::vector<std::string> features{slurm_name(set)};
  for (const NodeOption& option : options) {
    if (is_feature(option)) features.insert(features.end(), option.values.begin(), option.values.end());
  }
  std::erase(features, "");
  std::ranges::sort(features);
  const auto tail = std::ranges::unique(features);
  features.erase(tail.begin(), tail.end());
  return features;
}

}  // namespace

std::expected<std::vector<NodeOption>, std::string> parse_node_options(std::string_view extra_conf) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  std::vector<NodeOption> options;
  while (true) {
    extra_conf.remove_prefix(std::min(extra_conf.find_first_not_of(kSpace), extra_conf.size()));
    if (extra_conf.empty()) return options;
    const std::string_view word = extra_conf.substr(0, extra_conf.find_first_of(kSpace));
    extra_conf.remove_prefix(word.size());
    const std::size_t equals = word.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return std::unexpected(
          fmt::format("spec.extraConf: \"{}\" is no Key=Value; write it as in Weight=10 Features=a,b", word));
    }
    if (std::ranges::any_of(word, [](char c) { return c == '\'' || static_cast<unsigned char>(c) < ' '; })) {
      return std::unexpected(
          fmt::format("spec.extraConf: \"{}\" holds a single quote, which slurmd's argument cannot "
                      "carry; leave it out",
                      word));
    }
    const std::string_view key = word.substr(0, equals);
    auto option = std::ranges::find_if(options, [&](const NodeOption& known) { return same(known.key, key); });
    if (option == options.end()) option = options.insert(option, NodeOption{std::string(key), {}});
    split(word.substr(equals + 1), ',', option->values);
  }
}

std::vector<std::string> node_features(const NodeSet& set) {
  return features_of(set, parse_node_options(set.extra_conf).value_or(std::vector<NodeOption>{}));
}

NodeConf node_conf(const NodeSet& set) {
  NodeConf conf;
  std::vector<NodeOption> options;
  if (auto parsed = parse_node_options(set.extra_conf)) {
    options = std::move(*parsed);
  } else {
    conf.fault = parsed.error();
  }
  std::vector<std::string> items{fmt::format("Features={}", fmt::join(features_of(set, options), ","))};
  bool own_topology = false;
  for (const NodeOption& option : options) {
    if (is_feature(option)) continue;
    own_topology |= same(option.key, "Topology");
    items.push_back(fmt::format("{}={}", option.key, fmt::join(option.values, ",")));
  }
  for (std::string& item : items) item = without_expansion(item);
  if (!own_topology) items.push_back(fmt::format("Topology=$({})", kTopologyVariable));
  std::ranges::sort(items);
  conf.argument = fmt::format("'{}'", fmt::join(items, " "));
  return conf;
}

bool is_topology(std::string_view text) noexcept {
  return std::ranges::all_of(text, [](char c) {
    return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9') || std::string_view(":,._-[]/").contains(c);
  });
}

}  // namespace bascule::op
