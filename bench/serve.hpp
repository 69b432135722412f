// What the fake servers of this folder share: a TLS server on this machine, a kubeconfig that leads to it, and a run of
// the loop until SIGTERM.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/async.hpp"
#include "net/server.hpp"
#include "net/test_pki.hpp"

namespace bascule::bench {

// Serves `handler` at 127.0.0.1 (port 0: any) and writes `kubeconfig`, and the authority's certificate beside it.
inline std::unique_ptr<net::Server> serve_api(net::IoLoop& loop, const std::string& kubeconfig, std::uint16_t port,
                                              bool plain, net::Handler handler) {
  net::ServerOptions options{.address = "127.0.0.1", .port = port};
  std::string trust;
  if (!plain) {
    const net::test::Authority authority("bench authority");
    const net::test::KeyPair pair = authority.issue({.common_name = "bench", .alternative_names = "IP:127.0.0.1"});
    options.certificate.text = pair.certificate;
    options.key.text = pair.key;
    std::ofstream(kubeconfig + ".ca.pem") << authority.certificate();
    trust = fmt::format("    certificate-authority: {}.ca.pem\n", kubeconfig);
  }
  auto server = net::serve(loop, options, std::move(handler));
  std::ofstream(kubeconfig) << fmt::format(
      "apiVersion: v1\nkind: Config\nclusters:\n- name: bench\n  cluster:\n    server: {}://127.0.0.1:{}\n{}"
      "contexts:\n- name: bench\n  context: {{cluster: bench, user: bench}}\ncurrent-context: bench\n"
      "users:\n- name: bench\n  user: {{token: bench}}\n",
      plain ? "http" : "https", server->port(), trust);
  return server;
}

inline void run_until_terminated(net::IoLoop& loop, net::Server& server) {
  Gate gate(loop);
  loop.on_terminate([&] {
    spawn(gate, [](net::Server& s, net::IoLoop& l) -> Task<> {
      co_await s.drain(l.now() + std::chrono::seconds(1));
      l.quit();
    }(server, loop));
  });
  loop.run();
}

// A whole cluster of fakes: `world` serves the API by serve(), and slurmrestd by slurm(), whose port is said. Its
// clocks run to the end of the process, so it is never destroyed.
template <class World>
[[noreturn]] void serve_cluster(net::IoLoop& loop, const std::string& kubeconfig, World& world) {
  const auto slurm = net::serve(loop, {.address = "127.0.0.1"}, world.slurm());
  const auto api = serve_api(
      loop, kubeconfig, 0, false,
      [&world](const net::ServerRequest& request, std::stop_token stop) { return world.serve(request, stop); });
  std::cout << "ready " << slurm->port() << std::endl;
  run_until_terminated(loop, *api);
  std::_Exit(0);
}

// 0 for what is none.
inline int number(std::string_view text) {
  int out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

}  // namespace bascule::bench
