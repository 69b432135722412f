#include "runtime/webhook_certificate.hpp"

#include <algorithm>
#include <utility>

#include "base/base64.hpp"
#include "base/log.hpp"
#include "base/time.hpp"
#include "kube/events.hpp"
#include "net/certificates.hpp"
#include "runtime/webhook_certificate_plan.hpp"

namespace bascule::runtime {

using namespace std::chrono_literals;
using Step = CertificatePlan::Step;

namespace {

constexpr int kMostSteps = 20;    // at one look: a handful, and some that others were quicker with
constexpr Duration kSoon = 1min;  // after a change or a failure
constexpr Duration kClocksDiffer = 1h;

struct Hook {
  std::string name;
  Bundle bundle;
};
struct Configuration {
  kube::Resource resource;
  std::string name;
  std::string version;
  std::vector<Hook> hooks;
};
struct Seen {
  std::vector<Configuration> configurations;
  json::Value secret;
  std::string certificate;  // tls.crt
  CertificateView view;
};

kube::Resource resource_of(const WebhookCertificateOptions::Configuration& one) {
  const std::string kind = one.mutating ? "MutatingWebhookConfiguration" : "ValidatingWebhookConfiguration";
  return {"admissionregistration.k8s.io", "v1",
          one.mutating ? "mutatingwebhookconfigurations" : "validatingwebhookconfigurations", kind, false};
}

std::string decoded(std::string_view base64) {
  return base64_decode(base64).value_or("");
}

std::string text_of(const Bundle& bundle) {
  std::string out;
  for (const std::string& one : bundle) out += one;
  return out;
}

std::string version_of(const json::Value& object) {
  return std::string(json::string_at(object, {"metadata", "resourceVersion"}));
}

std::vector<Hook> hooks_of(const json::Value& configuration) {
  std::vector<Hook> out;
  const json::Array* hooks = json::array_at(configuration, {"webhooks"});
  if (hooks == nullptr) return out;
  for (const json::Value& one : *hooks) {
    out.push_back({std::string(json::string_at(one, {"name"})),
                   net::certificates_in(decoded(json::string_at(one, {"clientConfig", "caBundle"})))});
  }
  return out;
}

// Into `view`: what the Secret holds.
void read_secret(const json::Value& secret, CertificateView& view) {
  const auto part = [&](std::string_view key) { return decoded(json::string_at(secret, {"data", key})); };
  const std::string certificate = part("tls.crt");
  view.bundle = net::certificates_in(part("ca.crt"));
  const std::optional<net::CertificateFacts> facts = net::certificate_facts(certificate);
  if (!facts) {
    view.fault = "it cannot be read";
    return;
  }
  if (!net::key_belongs(certificate, part("tls.key"))) {
    view.fault = "its key is not there";
    return;
  }
  CertificateView::Pair pair{.from = facts->from, .until = facts->until, .names = facts->names, .authorities = {}};
  WallTime from = WallTime::max();
  WallTime until = WallTime::min();
  for (const std::string& authority : view.bundle) {
    const auto good = net::certificate_facts(authority);
    if (!good || !net::vouches(authority, certificate)) continue;
    pair.authorities.push_back(authority);
    from = std::min(from, good->from);
    until = std::max(until, good->until);
  }
  if (pair.authorities.empty()) {
    view.fault = "nobody in ca.crt vouches for it";
    return;
  }
  pair.from = std::max(pair.from, from);
  pair.until = std::min(pair.until, until);
  view.pair = std::move(pair);
}

}  // namespace

std::optional<WebhookCertificateOptions::Configuration> parse_webhook_configuration(std::string_view text) {
  for (const bool mutating : {true, false}) {
    const std::string_view kind = mutating ? "mutating/" : "validating/";
    if (!text.starts_with(kind) || text.size() == kind.size()) continue;
    return WebhookCertificateOptions::Configuration{mutating, std::string(text.substr(kind.size()))};
  }
  return std::nullopt;
}

struct WebhookCertificate::Impl {
  Impl(kube::Client& c, WebhookCertificateOptions o)
      : client(c),
        loop(c.loop()),
        options(std::move(o)),
        events(client, options.controller, options.instance),
        bell(loop) {}

  kube::Client& client;
  Loop& loop;
  const WebhookCertificateOptions options;
  kube::EventRecorder events;
  Bell bell;
  bool look_now = false;
  std::string known;  // tls.crt as last seen
  TimePoint known_since{};
  std::optional<net::IssuedCertificate> fresh;  // made and not seen in the Secret yet
  WallTime fresh_from{};
  bool failing = false;

  // The configurations before the Secret: see the plan.
  Task<Seen> look(const std::stop_token& stop) {
    Seen seen;
    for (const auto& one : options.configurations) {
      const kube::Resource resource = resource_of(one);
      try {
        const json::Value object = co_await client.get(resource, {"", one.name}, {}, stop);
        seen.configurations.push_back({resource, one.name, version_of(object), hooks_of(object)});
      } catch (const kube::NotFound&) {
        // The API server calls nobody by it.
      }
    }
    seen.secret = co_await client.get(kube::resources::kSecrets, options.secret, {}, stop);
    seen.certificate = decoded(json::string_at(seen.secret, {"data", "tls.crt"}));
    if (std::exchange(known, seen.certificate) != seen.certificate) known_since = loop.now();
    read_secret(seen.secret, seen.view);
    for (const Configuration& one : seen.configurations) {
      for (const Hook& hook : one.hooks) seen.view.trusted.push_back(hook.bundle);
    }
    seen.view.known = loop.now() - known_since;
    if (fresh) seen.view.fresh = {fresh_from, fresh_from + options.life, fresh->authority};
    co_return seen;
  }

  void make() {
    fresh_from = std::chrono::floor<std::chrono::seconds>(loop.wall());
    fresh = net::issue_certificate(options.names, fresh_from - kClocksDiffer, fresh_from + options.life);
  }

  // `bundle` in every webhook that has another.
  Task<> trust(const Seen& seen, const Bundle& bundle, const std::stop_token& stop) {
    const std::string encoded = base64_encode(text_of(bundle));
    for (const Configuration& one : seen.configurations) {
      json::Array hooks;
      for (const Hook& hook : one.hooks) {
        if (hook.bundle == bundle) continue;
        hooks.push_back(json::Object{{"name", hook.name}, {"clientConfig", json::Object{{"caBundle", encoded}}}});
      }
      if (hooks.empty()) continue;
      json::Object patch{{"metadata", json::Object{{"resourceVersion", one.version}}}, {"webhooks", std::move(hooks)}};
      co_await client.patch(one.resource, {"", one.name}, kube::PatchType::kStrategic, std::move(patch), {}, {}, stop);
    }
  }

  Task<> write(const Seen& seen, json::Object data, const std::stop_token& stop) {
    for (auto& part : data) part.value() = base64_encode(json::view(part.value().as_string()));
    json::Object patch{{"metadata", json::Object{{"resourceVersion", version_of(seen.secret)}}},
                       {"data", std::move(data)}};
    co_await client.patch(kube::resources::kSecrets, options.secret, kube::PatchType::kMerge, std::move(patch), {}, {},
                          stop);
  }

  void tell(const Seen& seen, const std::string& why) {
    const std::string until = print_rfc3339(fresh_from + options.life);
    log::info("the webhook's certificate is renewed", {{"secret", options.secret}, {"why", why}, {"until", until}});
    events.record({"v1", "Secret", options.secret, Uid(json::string_at(seen.secret, {"metadata", "uid"}))},
                  kube::EventType::kNormal, "CertificateRenewed", "Renewing",
                  "the webhook's certificate is renewed (" + why + "); the new one is good until " + until);
  }

  Task<> perform(const Seen& seen, const CertificatePlan& plan, const std::stop_token& stop) {
    switch (plan.step) {
      case Step::kRest:
        break;
      case Step::kMake:
        make();
        break;
      case Step::kTrust:
        co_await trust(seen, plan.bundle, stop);
        break;
      case Step::kWrite: {
        json::Object data{{"ca.crt", text_of(plan.bundle)}, {"tls.crt", fresh->certificate}, {"tls.key", fresh->key}};
        co_await write(seen, std::move(data), stop);
        tell(seen, plan.why);
        break;
      }
      case Step::kShorten:
        co_await write(seen, json::Object{{"ca.crt", text_of(plan.bundle)}}, stop);
    }
  }

  // Until there is nothing left to do; returns for how long there will be nothing.
  Task<Duration> settle(const std::stop_token& stop) {
    for (int steps = 0; steps < kMostSteps; ++steps) {
      const Seen seen = co_await look(stop);
      const CertificatePlan plan = plan_certificate(seen.view, options.names, loop.wall());
      if (plan.why.empty()) fresh.reset();
      // Whoever upgrades the chart just now may have read the Secret before it changed: one more look soon.
      if (plan.step == Step::kRest) co_return steps == 0 ? plan.rest : kSoon;
      try {
        co_await perform(seen, plan, stop);
      } catch (const kube::Conflict&) {
        // Somebody else was quicker.
      }
    }
    co_return kSoon;
  }

  void failed(const std::exception& error, std::string_view remedy) {
    if (std::exchange(failing, true)) return;
    log::warning("the webhook's certificate cannot be looked after; tried again each minute",
                 {{"secret", options.secret}, {"error", error}, {"remedy", remedy}});
  }

  Task<Duration> round(const std::stop_token& stop) {
    try {
      const Duration rest = co_await settle(stop);
      if (std::exchange(failing, false)) log::info("the webhook's certificate is looked after again", {});
      co_return rest;
    } catch (const kube::Forbidden& error) {
      failed(error, "the webhook's roles lack a right, or a policy refuses: upgrade the chart");
    } catch (const kube::NotFound& error) {
      failed(error, "the Secret is gone: upgrade the chart, which makes it anew");
    } catch (const std::exception& error) {
      if (!stop.stop_requested()) failed(error, "none is needed should the API server be away");
    }
    co_return kSoon;
  }
};

WebhookCertificate::WebhookCertificate(kube::Client& client, WebhookCertificateOptions options)
    : impl_(std::make_unique<Impl>(client, std::move(options))) {}
WebhookCertificate::~WebhookCertificate() = default;

Task<> WebhookCertificate::run(std::stop_token stop) {
  Impl& self = *impl_;
  while (!stop.stop_requested()) {
    const Duration rest = co_await self.round(stop);
    if (!std::exchange(self.look_now, false)) co_await self.bell.wait(stop, self.loop.now() + rest);
    self.look_now = false;
  }
  co_await self.events.stop(self.loop.now() + 1s);
}

void WebhookCertificate::changed() {
  impl_->look_now = true;
  impl_->bell.notify();
}

}  // namespace bascule::runtime
