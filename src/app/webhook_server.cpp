#include "app/webhook_server.hpp"

#include <algorithm>
#include <exception>
#include <memory>

#include "base/async.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "runtime/webhook_certificate.hpp"

namespace bascule::app {

using namespace std::chrono_literals;

namespace {

// How long kube-proxy may still lead the API server here after the pod was told to stop.
constexpr Duration kStillServes = 4s;
constexpr Duration kLookAtServed = 10s;

// A certificate that cannot be used is waited for, where this process itself replaces it. nullptr: stopped before.
Task<std::unique_ptr<net::Server>> begin(net::IoLoop& loop, net::ServerOptions address, net::Handler handler,
                                         bool renews, std::stop_token stop) {
  while (!stop.stop_requested()) {
    try {
      co_return net::serve(loop, address, handler);
    } catch (const std::invalid_argument& error) {
      if (!renews) throw;
      log::limited(log::Level::kWarning, 1min, "the webhook waits for a certificate that can be used",
                   {{"error", error}});
    }
    co_await sleep_for(loop, 1s, stop);
  }
  co_return nullptr;
}

Task<> serve(Process& process, net::ServerOptions address, net::Handler handler, bool& serving,
             runtime::WebhookCertificate* kept, std::stop_token stop) {
  net::IoLoop& loop = process.loop();
  const auto server = co_await begin(loop, std::move(address), std::move(handler), kept != nullptr, stop);
  if (!server) co_return;
  const auto collecting = process.metrics().on_collect([&] {
    if (const std::optional<WallTime> end = server->certificate_end()) {
      process.metrics().set("bascule_webhook_certificate_expiry_seconds", "Until the webhook's certificate in use ends",
                            {}, std::chrono::duration<double>(*end - loop.wall()).count());
    }
  });
  serving = true;
  std::optional<WallTime> end = server->certificate_end();
  while (co_await sleep_for(loop, kLookAtServed, stop)) {
    const std::optional<WallTime> now = server->certificate_end();
    if (std::exchange(end, now) != now && kept != nullptr) kept->changed();
  }
  serving = false;
  co_await sleep_for(loop, kStillServes, {});
  co_await server->drain(loop.now() + 10s);
}

}  // namespace

net::ServerOptions webhook_address(const std::string& address, const std::string& flag, const std::string& directory) {
  auto options = parse_address(address, flag);
  if (!options) throw UsageError(flag + ": the webhook needs an address");
  options->certificate.file = directory + "/tls.crt";
  options->key.file = directory + "/tls.key";
  return *std::move(options);
}

std::vector<std::string> comma_list(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view part = trimmed(text.substr(0, comma));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    if (!part.empty() && std::ranges::find(out, part) == out.end()) out.emplace_back(part);
  }
  return out;
}

std::optional<runtime::WebhookCertificateOptions> certificate_options(Process& process, const ServeOptions& options,
                                                                      std::string controller) {
  if (options.certificate_secret.empty()) return std::nullopt;
  process.kube();  // which tells the namespace
  runtime::WebhookCertificateOptions out;
  out.secret = {process.ns(), options.certificate_secret};
  for (const std::string& name : comma_list(options.certificate_names)) out.names.push_back(lowered(name));
  if (out.names.empty()) throw UsageError("--certificate-names: expected a name");
  for (const std::string& text : comma_list(options.certificate_webhooks)) {
    const auto one = runtime::parse_webhook_configuration(text);
    if (!one) {
      throw UsageError("--certificate-webhooks: expected mutating/NAME or validating/NAME, not \"" + text + "\"");
    }
    out.configurations.push_back(*one);
  }
  out.controller = std::move(controller);
  out.instance = process.instance();
  return out;
}

Task<> serve_webhook(Process& process, net::ServerOptions address, net::Handler handler,
                     std::optional<runtime::WebhookCertificateOptions> certificate, bool& serving,
                     std::stop_token stop) {
  if (!certificate) {
    co_await serve(process, std::move(address), std::move(handler), serving, nullptr, std::move(stop));
    co_return;
  }
  runtime::WebhookCertificate kept(process.kube(), *std::move(certificate));
  Gate gate(process.loop());
  std::stop_source ending;
  const std::stop_callback told(stop, [&ending] { ending.request_stop(); });
  spawn(gate, kept.run(ending.get_token()));
  std::exception_ptr failure;
  try {
    co_await serve(process, std::move(address), std::move(handler), serving, &kept, stop);
  } catch (...) {
    failure = std::current_exception();
  }
  ending.request_stop();
  co_await gate.close();
  if (failure) std::rethrow_exception(failure);
}

runtime::NamedCheck webhook_check(const bool& serving) {
  return {"webhook", [&serving]() -> std::optional<std::string> {
            return serving ? std::nullopt : std::optional<std::string>("the webhook does not serve yet");
          }};
}

}  // namespace bascule::app
