// Keeps the certificate of a webhook good: renews it in its Secret before it ends, and has the API server trust the new
// one first. Nothing needs a restart: kubelet brings the Secret to the pods, whose server reads changed files again. At
// rest it looks once an hour and writes nothing. What is done when is decided by runtime/webhook_certificate_plan.hpp.
#pragma once

#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "kube/client.hpp"

namespace bascule::runtime {

struct WebhookCertificateOptions {
  struct Configuration {
    bool mutating = false;  // MutatingWebhookConfiguration, else ValidatingWebhookConfiguration
    std::string name;
  };
  NamespacedName secret;  // type kubernetes.io/tls, with ca.crt
  std::vector<Configuration> configurations;
  std::vector<std::string> names;  // for DNS, in small letters: those the API server may call the webhook by
  std::string controller;          // of events about the Secret
  std::string instance;
  Duration life = std::chrono::days(365);  // of a new one
};

// "mutating/NAME" or "validating/NAME"; nullopt: neither.
std::optional<WebhookCertificateOptions::Configuration> parse_webhook_configuration(std::string_view text);

class WebhookCertificate final {
 public:
  // `client` outlives it.
  WebhookCertificate(kube::Client& client, WebhookCertificateOptions options);
  WebhookCertificate(const WebhookCertificate&) = delete;
  WebhookCertificate& operator=(const WebhookCertificate&) = delete;
  ~WebhookCertificate();
  Task<> run(std::stop_token stop);  // once; until stopped
  // Another one is served than before: somebody may have written the Secret. It is looked at soon.
  void changed();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bascule::runtime
