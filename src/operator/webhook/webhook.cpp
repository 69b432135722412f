#include "operator/webhook/webhook.hpp"

#include <fmt/format.h>

#include <expected>
#include <memory>
#include <optional>

#include "base/log.hpp"
#include "kube/admission_http.hpp"
#include "operator/api/resources.hpp"
#include "operator/webhook/binding.hpp"

namespace bascule::op {

namespace {

using namespace std::chrono_literals;

ConfigMapFacts config_map_facts(const json::Value& object) {
  ConfigMapFacts facts{.exists = true, .keys = {}};
  for (const std::string_view part : {"data", "binaryData"}) {
    const json::Object* entries = json::object_at(object, {part});
    if (entries == nullptr) continue;
    for (const auto& [key, value] : *entries) facts.keys.emplace_back(key);
  }
  return facts;
}

ClaimFacts claim_facts(const json::Value& object) {
  ClaimFacts facts{.exists = true, .access_modes = {}};
  const json::Array* modes = json::array_at(object, {"spec", "accessModes"});
  if (modes == nullptr) return facts;
  for (const json::Value& mode : *modes) {
    if (const auto* text = mode.if_string()) facts.access_modes.emplace_back(json::view(*text));
  }
  return facts;
}

// Bytes of a binding's review: the API server takes 256 KiB of annotations.
constexpr std::size_t kMaxBinding = std::size_t{1} << 20;

// What a review says of a binding; its document need not live while others are asked.
struct BindingReview {
  std::string version;
  std::string uid;
  NamespacedName pod;
  std::string node;
  bool binds = false;  // a creation of pods/binding, and no dry run
};

std::expected<BindingReview, std::string> read_binding(std::string_view body) {
  const auto document = kube::parse_admission_review(body);
  const auto review = document ? kube::read_admission_review(*document) : std::unexpected(document.error());
  if (!review) return std::unexpected(review.error());
  BindingReview out;
  out.version = review->version;
  out.uid = review->uid;
  out.pod = {std::string(review->ns), std::string(review->name)};
  out.binds =
      review->operation == kube::AdmissionOperation::kCreate && review->sub_resource == "binding" && !review->dry_run;
  if (out.binds) out.node = json::string_at(*review->object, {"target", "name"});
  return out;
}

struct Webhook {
  kube::Client& kube;
  WebhookOptions options;

  // The object; null when there is none; nullopt when that cannot be learnt now.
  Task<std::optional<json::Value>> look_up(const kube::Resource& resource, NamespacedName key, TimePoint until,
                                           std::stop_token stop) const {
    if (kube.loop().now() >= until) co_return std::nullopt;
    try {
      co_return co_await kube.get(resource, key, {}, stop);
    } catch (const kube::NotFound&) {
      co_return json::Value(nullptr);
    } catch (const std::exception& error) {
      log::limited(log::Level::kWarning, 1s, "an object cannot be read for admission",
                   {{"kind", resource.kind}, {"namespace", key.ns}, {"name", key.name}, {"why", error}});
    }
    co_return std::nullopt;
  }

  Task<std::vector<json::Value>> node_sets(std::string ns, std::stop_token stop) const {
    std::vector<json::Value> found;
    try {
      const json::Value list = co_await kube.list(kNodeSets, ns, {}, stop);
      if (const json::Array* items = json::array_at(list, {"items"})) found.assign(items->begin(), items->end());
    } catch (const std::exception& error) {
      log::limited(log::Level::kWarning, 1s, "the NodeSets beside one cannot be read for admission",
                   {{"namespace", ns}, {"why", error}});
    }
    co_return found;
  }

  Task<Known> look_up_all(Wanted names, std::string ns, std::stop_token stop) const {
    const TimePoint until = kube.loop().now() + options.look_up_for;
    Known known;
    for (const std::string& name : names.claims) {
      const auto found = co_await look_up(kClaims, {ns, name}, until, stop);
      if (found) known.claims[name] = found->is_null() ? ClaimFacts{} : claim_facts(*found);
    }
    for (const std::string& name : names.config_maps) {
      const auto found = co_await look_up(kube::resources::kConfigMaps, {ns, name}, until, stop);
      if (found) known.config_maps[name] = found->is_null() ? ConfigMapFacts{} : config_map_facts(*found);
    }
    if (names.node_sets) known.node_sets = co_await node_sets(std::move(ns), stop);
    co_return known;
  }

  Task<> copy_topology(const BindingReview& review, std::stop_token stop) const {
    if (review.pod.name.empty() || review.node.empty()) co_return;
    try {
      const json::Value pod = co_await kube.get(kube::resources::kPods, review.pod, {}, stop);
      // Anybody may send a review. What has a node is bound no more: nobody changes the topology of a running slurmd.
      if (!is_worker(pod) || !json::string_at(pod, {"spec", "nodeName"}).empty()) co_return;
      const json::Value node = co_await kube.get(kube::resources::kNodes, {"", review.node}, {}, stop);
      std::optional<json::Value> patch = binding_patch(pod, node);
      if (!patch) co_return;
      co_await kube.patch(kube::resources::kPods, review.pod, kube::PatchType::kMerge, std::move(*patch), {}, {}, stop);
    } catch (const kube::NotFound&) {
      // The pod or node has gone: the API server says so itself when it binds.
    } catch (const kube::Conflict&) {
      // Another pod of the name by now: this binding is not for it.
    }
  }

  // A worker that starts without its topology would join the wrong part of the cluster, so what cannot be copied is
  // refused; the scheduler tries again.
  Task<kube::AdmissionVerdict> bind(const BindingReview& review, std::stop_token stop) const {
    kube::AdmissionVerdict verdict;
    if (!review.binds) co_return verdict;
    try {
      co_await copy_topology(review, stop);
    } catch (const std::exception& error) {
      verdict.allowed = false;
      verdict.code = 503;
      verdict.reason = "ServiceUnavailable";
      verdict.message =
          fmt::format("pod {}: the topology of its node cannot be copied to it now: {}; it is tried again",
                      review.pod.str(), error.what());
    }
    co_return verdict;
  }

  Task<net::ServerResponse> serve_binding(const std::string& body, std::stop_token stop) const {
    if (body.size() > kMaxBinding) co_return kube::admission_refusal(413, "no binding is that large");
    const auto review = read_binding(body);
    if (!review) co_return kube::admission_refusal(400, review.error());
    const kube::AdmissionVerdict verdict = co_await bind(*review, std::move(stop));
    kube::AdmissionReview asked;
    asked.version = review->version;
    asked.uid = review->uid;
    co_return kube::admission_response(asked, verdict);
  }

  Task<kube::AdmissionVerdict> decide(Kind kind, const kube::AdmissionReview& review, std::stop_token stop) const {
    const Known known = co_await look_up_all(wanted(kind, review), std::string(review.ns), stop);
    co_return validate(kind, review, known);
  }

  Task<net::ServerResponse> serve(const net::ServerRequest& request, std::stop_token stop) const {
    const std::string_view target = request.target;
    const std::string_view path = target.substr(0, target.find('?'));
    const std::optional<Kind> kind = validated_kind(path);
    if (!kind && path != kBindingPath) co_return kube::admission_refusal(404, "no webhook has this path");
    if (request.method != "POST") co_return kube::admission_refusal(405, "an AdmissionReview comes by POST");
    if (!kind) co_return co_await serve_binding(request.body, std::move(stop));
    const auto document = kube::parse_admission_review(request.body);
    const auto review = document ? kube::read_admission_review(*document) : std::unexpected(document.error());
    if (!review) co_return kube::admission_refusal(400, review.error());
    co_return kube::admission_response(*review, co_await decide(*kind, *review, std::move(stop)));
  }
};

}  // namespace

net::Handler make_webhook(kube::Client& kube, WebhookOptions options) {
  auto webhook = std::make_shared<const Webhook>(Webhook{kube, options});
  // The handler owns the webhook; the server keeps the handler for as long as a request runs.
  return [webhook](const net::ServerRequest& request, std::stop_token stop) {
    return webhook->serve(request, std::move(stop));
  };
}

}  // namespace bascule::op
