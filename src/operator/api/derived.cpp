#include "operator/api/derived.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace bascule::op {

std::int64_t replicas(const Controller& controller) noexcept {
  return controller.ha && !controller.external ? 1 + controller.backups : 1;
}

std::int64_t slurmctld_port(const Controller& controller) noexcept {
  if (controller.external) return controller.external_config.port;
  return controller.service.port != 0 ? controller.service.port : names::kSlurmctldPort;
}

std::string conf_server(const Controller& controller) {
  const std::int64_t port = slurmctld_port(controller);
  if (controller.external) return fmt::format("{}:{}", controller.external_config.host, port);
  return fmt::format("{}.{}:{}", names::controller(controller.meta.name), controller.meta.ns, port);
}

std::string slurmdbd_host(const Accounting& accounting) {
  return accounting.external ? accounting.external_config.host : names::accounting(accounting.meta.name);
}

std::int64_t slurmdbd_port(const Accounting& accounting) noexcept {
  if (accounting.external) return accounting.external_config.port;
  return accounting.service.port != 0 ? accounting.service.port : names::kSlurmdbdPort;
}

std::string rest_url(const RestApi& api) {
  const std::int64_t port = api.service.port != 0 ? api.service.port : names::kSlurmrestdPort;
  return fmt::format("http://{}.{}:{}", names::restapi(api.meta.name), api.meta.ns, port);
}

std::string slurm_name(const NodeSet& set) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
  std::string_view word = set.pod_template.text("hostname");
  word.remove_prefix(std::min(word.find_first_not_of(kSpace), word.size()));
  word = word.substr(0, word.find_first_not_of(kPlain));
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  word = word.substr(0, word.find_last_not_of('-') + 1);
  return word.empty() ? set.meta.name : std::string(word);
}

bool host_network(const PodTemplate& pod_template) noexcept {
  return json::bool_at(pod_template.spec, {"hostNetwork"});
}

StringMap selector_labels(names::App app, std::string_view instance) {
  return {{std::string(names::kAppName), std::string(app.name)},
          {std::string(names::kAppInstance), std::string(instance)}};
}

StringMap child_labels(names::App app, std::string_view instance) {
  StringMap labels = selector_labels(app, instance);
  labels.emplace(names::kAppComponent, app.component);
  return labels;
}

std::string selector_text(names::App app, std::string_view instance) {
  return fmt::format("{}={},{}={}", names::kAppInstance, instance, names::kAppName, app.name);
}

std::string token_secret(std::string_view token, std::string_view user) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  std::string text(user);
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (!plain(c) && c != '-' && c != '.') c = '-';
  }
  if (text == user && plain(text.back())) return fmt::format("{}-jwt-{}", token, text);
  std::uint32_t hash = 2166136261U;  // FNV-1a
  for (const char c : user) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return fmt::format("{}-jwt-{}-{:08x}", token, text, hash);
}

}  // namespace bascule::op
