#include "app/webhook_server.hpp"

#include "app/process.hpp"
#include "base/async.hpp"

namespace bascule::app {

using namespace std::chrono_literals;

namespace {

// How long kube-proxy may still lead the API server here after the pod was told to stop.
constexpr Duration kStillServes = 4s;

}  // namespace

net::ServerOptions webhook_address(const std::string& address, const std::string& flag, const std::string& directory) {
  auto options = parse_address(address, flag);
  if (!options) throw UsageError(flag + ": the webhook needs an address");
  options->certificate.file = directory + "/tls.crt";
  options->key.file = directory + "/tls.key";
  return *std::move(options);
}

Task<> serve_webhook(net::IoLoop& loop, runtime::Metrics& metrics, net::ServerOptions address, net::Handler handler,
                     bool& serving, std::stop_token stop) {
  const auto server = net::serve(loop, std::move(address), std::move(handler));
  const auto collecting = metrics.on_collect([&] {
    if (const std::optional<WallTime> end = server->certificate_end()) {
      metrics.set("bascule_webhook_certificate_expiry_seconds", "Until the webhook's certificate in use ends", {},
                  std::chrono::duration<double>(*end - loop.wall()).count());
    }
  });
  serving = true;
  while (co_await sleep_for(loop, 24h, stop)) {
  }
  serving = false;
  co_await sleep_for(loop, kStillServes, {});
  co_await server->drain(loop.now() + 10s);
}

runtime::NamedCheck webhook_check(const bool& serving) {
  return {"webhook", [&serving]() -> std::optional<std::string> {
            return serving ? std::nullopt : std::optional<std::string>("the webhook does not serve yet");
          }};
}

}  // namespace bascule::app
