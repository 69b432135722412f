#include "operator/reconcile/plan.hpp"

#include <fmt/format.h>

#include "base/base64.hpp"
#include "kube/condition.hpp"
#include "operator/api/resources.hpp"
#include "operator/config/hash.hpp"

namespace bascule::op::reconcile {

namespace {

std::expected<std::string, std::string> config_text(View& view, const KeyRef& ref, std::string_view field) {
  const json::Value* map = view.find(kConfigMaps, ref.name);
  if (!map) return std::unexpected(fmt::format("ConfigMap {}, named in {}, does not exist", ref.name, field));
  const json::Object* data = json::object_at(*map, {"data"});
  const json::Value* value = data ? data->if_contains(ref.key) : nullptr;
  if (!value || !value->is_string()) {
    return std::unexpected(fmt::format("ConfigMap {}, named in {}, has no key {}", ref.name, field, ref.key));
  }
  return std::string(json::view(value->get_string()));
}

// Of a Deployment, by the API server's own word: a quota, a policy. A StatefulSet has it in events alone.
std::string refusal_of_pods(const json::Value& live) {
  const json::Value* failure = kube::find_condition(json::array_at(live, {"status", "conditions"}), "ReplicaFailure");
  return kube::holds(failure) ? fmt::format(": {}", json::string_at(*failure, {"message"})) : std::string();
}

}  // namespace

std::expected<std::string, std::string> secret_bytes(View& view, const KeyRef& ref, std::string_view field) {
  const json::Value* secret = view.find(kSecrets, ref.name);
  if (!secret) return std::unexpected(fmt::format("Secret {}, named in {}, does not exist", ref.name, field));
  const json::Object* data = json::object_at(*secret, {"data"});
  const json::Value* value = data ? data->if_contains(ref.key) : nullptr;
  if (!value || !value->is_string()) {
    return std::unexpected(fmt::format("Secret {}, named in {}, has no key {}", ref.name, field, ref.key));
  }
  std::optional<std::string> bytes = base64_decode(json::view(value->get_string()));
  if (!bytes) return std::unexpected(fmt::format("Secret {}: key {} is not base64", ref.name, ref.key));
  return *std::move(bytes);
}

std::optional<KeyHashes> key_hashes(View& view, const Keys& keys, Plan& plan) {
  KeyHashes hashes;
  bool whole = true;
  const auto missing = [&](const std::string& why) {
    plan.wait(why);
    whole = false;
  };
  if (!keys.slurm.empty()) {
    const auto bytes = secret_bytes(view, keys.slurm, "spec.slurmKeyRef");
    bytes ? (void)(hashes.slurm = sha256_hex(*bytes)) : missing(bytes.error());
  }
  Hasher jwt;
  if (!keys.jwt.empty()) {
    const auto bytes = secret_bytes(view, keys.jwt, "spec.jwtKeyRef");
    bytes ? (void)jwt.add("key", *bytes) : missing(bytes.error());
  }
  if (!keys.jwks.empty()) {
    const auto text = config_text(view, keys.jwks, "spec.jwksKeyRef");
    text ? (void)jwt.add("jwks", *text) : missing(text.error());
  }
  hashes.jwt = jwt.hex();
  if (!whole) return std::nullopt;
  return hashes;
}

std::string pods_follow(const kube::Resource& resource, std::string_view name) {
  return fmt::format("{} {} has changed, its pods follow", resource.kind, name);
}

std::optional<std::string> workload_wait(const kube::Resource& resource, std::string_view name,
                                         const json::Value* live) {
  if (!live) return fmt::format("{} {} is not there yet", resource.kind, name);
  const std::int64_t wanted = json::int_at(*live, {"spec", "replicas"}).value_or(1);
  const std::int64_t updated = json::int_at(*live, {"status", "updatedReplicas"}).value_or(0);
  const std::int64_t ready = json::int_at(*live, {"status", "readyReplicas"}).value_or(0);
  const std::int64_t seen = json::int_at(*live, {"status", "observedGeneration"}).value_or(0);
  if (seen < json::int_at(*live, {"metadata", "generation"}).value_or(0)) {
    return pods_follow(resource, name);
  }
  const std::string why = refusal_of_pods(*live);
  if (ready < wanted) return fmt::format("{} {}: {} of {} pods are ready{}", resource.kind, name, ready, wanted, why);
  if (updated < wanted) {
    return fmt::format("{} {}: {} of {} pods run its newest version{}", resource.kind, name, updated, wanted, why);
  }
  return std::nullopt;
}

}  // namespace bascule::op::reconcile
