#include "runtime/health.hpp"

#include <algorithm>

namespace bascule::runtime {

namespace {

net::ServerResponse text(int status, std::string body, std::string_view type = "text/plain; charset=utf-8") {
  net::ServerResponse response;
  response.status = status;
  response.headers.add("Content-Type", std::string(type));
  response.body = std::move(body);
  return response;
}

// All checks of a list, in the words of the API server's own endpoints.
net::ServerResponse answer(const std::vector<NamedCheck>& checks, std::string_view what, bool verbose) {
  bool good = true;
  std::string lines;
  for (const NamedCheck& named : checks) {
    const auto problem = named.check();
    lines += (problem ? "[-]" : "[+]") + named.name + (problem ? " failed: " + *problem : " ok") + "\n";
    good = good && !problem;
  }
  if (good && !verbose) return text(200, "ok");
  return text(good ? 200 : 503, lines + std::string(what) + (good ? " check passed\n" : " check failed\n"));
}

Task<net::ServerResponse> serve_health(const std::vector<NamedCheck>& live, const std::vector<NamedCheck>& ready,
                                       std::string target) {
  const net::Target parsed = net::parse_target(target);
  const bool verbose = std::ranges::any_of(parsed.query, [](const auto& pair) { return pair.first == "verbose"; });
  for (const auto& [root, checks] : {std::pair<std::string_view, const std::vector<NamedCheck>*>{"/healthz", &live},
                                     {"/livez", &live},
                                     {"/readyz", &ready}}) {
    if (parsed.path == root) co_return answer(*checks, root.substr(1), verbose);
    if (!parsed.path.starts_with(root) || parsed.path.size() <= root.size() + 1 || parsed.path[root.size()] != '/')
      continue;
    const std::string_view name = std::string_view(parsed.path).substr(root.size() + 1);
    for (const NamedCheck& named : *checks) {
      if (named.name == name) co_return answer({named}, root.substr(1), verbose);
    }
  }
  co_return text(404, "404 page not found\n");
}

}  // namespace

net::Handler health_handler(std::vector<NamedCheck> live, std::vector<NamedCheck> ready) {
  const auto lists =
      std::make_shared<std::pair<std::vector<NamedCheck>, std::vector<NamedCheck>>>(std::move(live), std::move(ready));
  return [lists](const net::ServerRequest& request, std::stop_token) {
    return serve_health(lists->first, lists->second, request.target);
  };
}

net::Handler metrics_handler(const Metrics& metrics) {
  return [&metrics](const net::ServerRequest& request, std::stop_token) {
    return [](const Metrics& m, std::string target) -> Task<net::ServerResponse> {
      if (net::parse_target(target).path != "/metrics") co_return text(404, "404 page not found\n");
      co_return text(200, m.text(), "text/plain; version=0.0.4; charset=utf-8");
    }(metrics, request.target);
  };
}

}  // namespace bascule::runtime
