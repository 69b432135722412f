// A webhook's objects in the fake API server, as the charts make them.
#pragma once

#include "base/base64.hpp"
#include "net/certificates.hpp"
#include "runtime/webhook_certificate.hpp"
#include "testing/fake_api.hpp"

namespace bascule::runtime {

inline const kube::Resource kMutatingHooks{"admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations",
                                           "MutatingWebhookConfiguration", false};
inline const kube::Resource kValidatingHooks{"admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations",
                                             "ValidatingWebhookConfiguration", false};
inline const NamespacedName kHookSecret{"slinky", "hook"};

struct WebhookObjects {
  testing::FakeApi& api;
  std::vector<std::string> names = {"hook.slinky", "hook.slinky.svc"};

  WebhookCertificateOptions options(Duration life) const {
    return {.secret = kHookSecret,
            .configurations = {{true, "hook"}, {false, "hook"}},
            .names = names,
            .controller = "hook",
            .instance = "hook-0",
            .life = life};
  }
  net::IssuedCertificate issue(Duration life) const {
    const WallTime now = api.loop().wall();
    return net::issue_certificate(names, now, now + life);
  }
  static json::Object data(const net::IssuedCertificate& one) {
    return {{"ca.crt", base64_encode(one.authority)},
            {"tls.crt", base64_encode(one.certificate)},
            {"tls.key", base64_encode(one.key)}};
  }
  void create(const net::IssuedCertificate& one) const {
    json::Object meta{{"name", kHookSecret.name}, {"namespace", kHookSecret.ns}};
    api.create(kube::resources::kSecrets, json::Object{{"apiVersion", "v1"},
                                                       {"kind", "Secret"},
                                                       {"metadata", std::move(meta)},
                                                       {"type", "kubernetes.io/tls"},
                                                       {"data", data(one)}});
    for (const auto* resource : {&kMutatingHooks, &kValidatingHooks}) {
      json::Array hooks;
      for (const char* name : {"a.example.com", "b.example.com"}) {
        json::Object service{{"name", "hook"}, {"namespace", "slinky"}, {"path", "/x"}};
        json::Object to{{"caBundle", base64_encode(one.authority)}, {"service", std::move(service)}};
        hooks.push_back(json::Object{{"name", name}, {"clientConfig", std::move(to)}, {"sideEffects", "None"}});
      }
      api.create(*resource, json::Object{{"apiVersion", resource->api_version()},
                                         {"kind", resource->kind},
                                         {"metadata", json::Object{{"name", "hook"}}},
                                         {"webhooks", std::move(hooks)}});
    }
  }
  void put(const net::IssuedCertificate& one) const {
    api.patch(kube::resources::kSecrets, kHookSecret, json::Object{{"data", data(one)}});
  }

  std::string secret(std::string_view key) const {
    const json::Value object = *api.get(kube::resources::kSecrets, kHookSecret);
    return base64_decode(json::string_at(object, {"data", key})).value_or("");
  }
  // The caBundle of each webhook.
  std::vector<std::string> bundles() const {
    std::vector<std::string> out;
    for (const auto* resource : {&kMutatingHooks, &kValidatingHooks}) {
      const std::optional<json::Value> object = api.get(*resource, {"", "hook"});
      if (!object) continue;
      for (const json::Value& hook : *json::array_at(*object, {"webhooks"})) {
        out.push_back(base64_decode(json::string_at(hook, {"clientConfig", "caBundle"})).value_or(""));
      }
    }
    return out;
  }
  // As the chart's `lookup` has it: what the Secret says becomes the bundle of all.
  void upgrade_chart() const {
    const json::Value secret_now = *api.get(kube::resources::kSecrets, kHookSecret);
    for (const auto* resource : {&kMutatingHooks, &kValidatingHooks}) {
      json::Value object = *api.get(*resource, {"", "hook"});
      for (json::Value& hook : object.at("webhooks").as_array()) {
        hook.at("clientConfig").as_object()["caBundle"] = json::string_at(secret_now, {"data", "ca.crt"});
      }
      api.update(*resource, std::move(object));
    }
  }
};

}  // namespace bascule::runtime
