#include "operator/explain/read.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kube/event_read.hpp"
#include "operator/api/derived.hpp"
#include "operator/api/names.hpp"
#include "operator/api/resources.hpp"

namespace bascule::op::explain {

namespace {

struct Kind {
  const kube::Resource* resource = nullptr;
  std::array<std::string_view, 4> words;
  const names::App* app = nullptr;  // of its pods; nullptr: it has none
};
// Short names are those of the CRDs.
const std::array<Kind, 6> kKinds{
    Kind{&kNodeSets, {"nodeset", "nodesets", "nss", "slurmd"}, &names::kSlurmd},
    Kind{&kControllers, {"controller", "controllers", "slurmctld", ""}, &names::kSlurmctld},
    Kind{&kLoginSets, {"loginset", "loginsets", "lss", "sackd"}, &names::kLogin},
    Kind{&kRestApis, {"restapi", "restapis", "slurmrestd", ""}, &names::kSlurmrestd},
    Kind{&kAccountings, {"accounting", "accountings", "slurmdbd", ""}, &names::kSlurmdbd},
    Kind{&kTokens, {"token", "tokens", "jwt", ""}, nullptr}};

constexpr int kLogLines = 60;

// The items of a list; nullopt when it may not or cannot be read.
Task<std::optional<std::vector<json::Value>>> known_items(kube::Client& client, const kube::Resource& resource,
                                                          std::string ns, kube::Selectors selectors) {
  std::vector<json::Value> out;
  try {
    json::Value list = co_await client.list(resource, std::move(ns), std::move(selectors));
    if (json::Array* found = list.is_object() ? list.get_object()["items"].if_array() : nullptr) {
      out.assign(found->begin(), found->end());
    }
  } catch (const kube::Error&) {
    co_return std::nullopt;
  }
  co_return out;
}

Task<std::vector<json::Value>> items(kube::Client& client, const kube::Resource& resource, std::string ns,
                                     kube::Selectors selectors) {
  auto found = co_await known_items(client, resource, std::move(ns), std::move(selectors));
  co_return found ? *std::move(found) : std::vector<json::Value>();
}

Task<> add_one(kube::Client& client, const kube::Resource& resource, NamespacedName key, Found& to) {
  if (key.name.empty()) co_return;
  const std::string name = resource.kind + " " + key.name;
  try {
    to.neighbours.emplace_back(name, co_await client.get(resource, key));
    co_return;
  } catch (const kube::NotFound&) {
  } catch (const kube::Error&) {
    co_return;
  }
  to.neighbours.emplace_back(name, nullptr);
}

Task<> read_logs(kube::Client& client, std::string ns, Found& to) {
  for (const json::Value& pod : to.pods) {
    std::string name(json::string_at(pod, {"metadata", "name"}));
    std::string path = fmt::format("/api/v1/namespaces/{}/pods/{}/log?container={}&tailLines={}", ns, name,
                                   names::kReconfigure, kLogLines);
    try {
      to.reconfigure_logs.emplace_back(std::move(name), co_await client.raw(std::move(path)));
    } catch (const kube::Error&) {
      continue;  // it has not begun, or who asks may not read it
    }
  }
}

Task<> add_who_refer(kube::Client& client, const kube::Resource& resource, NamespacedName controller, Found& to) {
  for (json::Value& one : co_await items(client, resource, controller.ns, {})) {
    if (json::string_at(one, {"spec", "controllerRef", "name"}) != controller.name) continue;
    std::string name = resource.kind + " " + std::string(json::string_at(one, {"metadata", "name"}));
    to.neighbours.emplace_back(std::move(name), std::move(one));
  }
}

// Why it makes no pod (a quota, a policy) is said nowhere else.
Task<> add_events_of_stateful_set(kube::Client& client, const kube::Resource& resource, NamespacedName key, Found& to) {
  if (&resource != &kControllers && &resource != &kAccountings) co_return;
  const bool slurmctld = &resource == &kControllers;
  const NamespacedName name{key.ns, slurmctld ? names::controller(key.name) : names::accounting(key.name)};
  try {
    const json::Value set = co_await client.get(kStatefulSets, name);
    const std::string uid(json::string_at(set, {"metadata", "uid"}));
    const kube::ReadEvents events = co_await kube::read_events(client, kStatefulSets.kind, name, uid);
    const json::Array* more = json::array_at(events.list, {"items"});
    if (!more) co_return;
    json::Value& list = json::at_or_create(to.events, {"items"});
    if (!list.is_array()) list = json::Array{};
    list.get_array().insert(list.get_array().end(), more->begin(), more->end());
  } catch (const kube::Error&) {  // it is not there yet, or who asks may not read it
  }
}

}  // namespace

const kube::Resource* resource_of(std::string_view word) noexcept {
  for (const Kind& kind : kKinds) {
    if (!word.empty() && std::ranges::find(kind.words, word) != kind.words.end()) return kind.resource;
  }
  return nullptr;
}

Task<Explanation> read_explanation(kube::Client& client, const kube::Resource& resource, NamespacedName key) {
  Found found;
  std::string missing;
  try {
    found.object = co_await client.get(resource, key);
  } catch (const kube::NotFound&) {
    missing = fmt::format("there is no {} {}; -n chooses the namespace", resource.kind, key.str());
  } catch (const kube::NotServed&) {
    missing = fmt::format("the cluster has no {}: the custom resources of slurm-operator are not installed",
                          resource.resource);
  }
  if (!missing.empty()) throw NothingToExplain(missing);
  const auto kind = std::ranges::find(kKinds, &resource, &Kind::resource);
  if (kind->app != nullptr) {
    found.pods =
        co_await items(client, kube::resources::kPods, key.ns, {.labels = selector_text(*kind->app, key.name)});
  }
  if (&resource == &kControllers) {
    const std::string accounting(json::string_at(found.object, {"spec", "accountingRef", "name"}));
    co_await add_one(client, kAccountings, {key.ns, accounting}, found);
    for (const kube::Resource* one : {&kRestApis, &kNodeSets, &kLoginSets})
      co_await add_who_refer(client, *one, key, found);
  } else {
    const std::string controller(json::string_at(found.object, {"spec", "controllerRef", "name"}));
    co_await add_one(client, kControllers, {key.ns, controller}, found);
    if (&resource == &kNodeSets && !controller.empty())
      co_await add_who_refer(client, kRestApis, {key.ns, controller}, found);
  }
  if (&resource == &kControllers && json::bool_at(found.object, {"spec", "inplaceReconfigure"})) {
    co_await read_logs(client, key.ns, found);
  }
  const bool unbound = std::ranges::any_of(
      found.pods, [](const json::Value& pod) { return json::string_at(pod, {"spec", "nodeName"}).empty(); });
  if (unbound) found.claims = co_await known_items(client, kClaims, key.ns, {});
  const std::string uid(json::string_at(found.object, {"metadata", "uid"}));
  kube::ReadEvents events = co_await kube::read_events(client, resource.kind, key, uid);
  found.events = std::move(events.list);
  if (found.pods.empty()) co_await add_events_of_stateful_set(client, resource, key, found);
  co_return explain(resource, found);
}

}  // namespace bascule::op::explain
