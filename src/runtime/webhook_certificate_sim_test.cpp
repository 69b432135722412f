// Two processes of one webhook, killed at any moment while its certificate is renewed again and again: the API server
// trusts what each pod serves at every instant, although kubelet brings a changed Secret late.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/log.hpp"
#include "net/loopback.hpp"
#include "runtime/webhook_certificate_test.hpp"
#include "testing/process.hpp"

namespace bascule::runtime {
namespace {

using namespace std::chrono_literals;
using testing::SimEnvironment;
using testing::SimProcess;

// Renewed at 20 h; the charts' live a year.
constexpr Duration kLife = std::chrono::hours(30);

Task<> keep(SimEnvironment& self, net::Transport& far, WebhookCertificateOptions options, std::stop_token stop) {
  const auto transport = self.network.connect(self.loop, far);
  kube::Client client(self.loop, *transport, {});
  WebhookCertificate kept(client, std::move(options));
  co_await kept.run(stop);
}

struct World {
  explicit World(std::uint64_t seed) : random(seed), network(loop, {.seed = seed}) {
    const auto one = objects.issue(kLife);
    objects.create(one);
    served = {one.certificate, one.certificate};
    for (int i = 0; i < 2; ++i) {
      pods.push_back(std::make_unique<SimProcess>(loop, network, [this](SimEnvironment& self, std::stop_token stop) {
        return keep(self, *far, objects.options(kLife), std::move(stop));
      }));
      pods.back()->start();
    }
  }

  // Lets time pass and judges every instant of it.
  void pass(Duration duration) {
    bool over = false;
    loop.call_at(loop.now() + duration, [&over] { over = true; });
    loop.run_until([&] { return judge(), over; }, duration);
  }
  void judge() {
    const std::uint64_t version = api.store().version();
    if (std::exchange(judged, version) == version && !std::exchange(brought, false)) return;
    const std::string now = objects.secret("tls.crt");
    if (std::exchange(written, now) != now) {
      ++renewals;
      for (std::size_t pod = 0; pod < served.size(); ++pod) deliver(pod);
    }
    for (const std::string& bundle : objects.bundles()) {
      for (const std::string& certificate : served) trusted = trusted && trusts(bundle, certificate);
    }
  }
  // kubelet brings what the Secret says by then.
  void deliver(std::size_t pod) {
    loop.call_at(loop.now() + 1s + std::chrono::milliseconds(random() % 120'000), [this, pod] {
      served[pod] = objects.secret("tls.crt");
      brought = true;
    });
  }
  bool trusts(const std::string& bundle, const std::string& certificate) {
    const auto known = verdicts.find({bundle, certificate});
    if (known != verdicts.end()) return known->second;
    const auto authorities = net::certificates_in(bundle);
    const bool good = std::ranges::any_of(authorities, [&](const auto& one) { return net::vouches(one, certificate); });
    return verdicts[{bundle, certificate}] = good;
  }
  void start_all() {
    for (const auto& pod : pods) {
      if (!pod->running()) pod->start();
    }
  }
  bool settled() const {
    const std::string authority = objects.secret("ca.crt");
    return net::certificates_in(authority).size() == 1 &&
           std::ranges::all_of(objects.bundles(), [&](const std::string& bundle) { return bundle == authority; });
  }
  // One authority is left, the same everywhere, and what is served is good.
  void expect_end() {
    for (int hours = 0; hours < 40 && !settled(); ++hours) {
      pass(1h);
      start_all();  // one that was to be killed earlier, and had less to do then
    }
    EXPECT_TRUE(settled());
    EXPECT_TRUE(trusted);
    for (const std::string& certificate : served) {
      EXPECT_GT(net::certificate_facts(certificate)->until, loop.wall());
    }
    for (const auto& pod : pods) pod->terminate();
    EXPECT_TRUE(loop.run_until([this] { return !pods[0]->running() && !pods[1]->running(); }, 1min));
  }

  const log::Capture quiet{log::Level::kError};
  std::mt19937_64 random;
  ManualLoop loop;
  testing::FakeApi api{loop};
  std::unique_ptr<net::Transport> far = net::make_loopback(loop, api.handler());
  testing::SimNetwork network;
  WebhookObjects objects{api};
  std::vector<std::string> served;  // tls.crt by pod
  std::string written;
  std::uint64_t judged = 0;
  bool brought = false;  // a certificate to a pod, not judged yet
  bool trusted = true;   // always, so far
  int renewals = -1;
  std::map<std::pair<std::string, std::string>, bool> verdicts;
  std::vector<std::unique_ptr<SimProcess>> pods;
};

TEST(WebhookCertificateSim, WhatIsServedIsTrustedWhoeverIsKilledWhen) {
  int renewals = 0;
  int kills = 0;
  for (std::uint64_t seed = 1; seed <= 6 && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    World world(seed);
    for (int life = 0; life < 60; ++life) {
      SimProcess& pod = *world.pods[world.random() % 2];
      pod.kill_after(world.random() % 60);
      world.pass(std::chrono::seconds(world.random() % 14'400));
      kills += !pod.running();
      world.start_all();
    }
    world.expect_end();
    renewals += world.renewals;
  }
  EXPECT_GT(renewals, 15);
  EXPECT_GT(kills, 150);
}

// The moments that matter, one by one: all effects of a renewal, with a pair that is due at the start.
TEST(WebhookCertificateSim, EachMomentOfARenewalMayBeTheLast) {
  for (std::uint64_t effects = 0; effects < 120 && !::testing::Test::HasFailure(); ++effects) {
    SCOPED_TRACE(effects);
    World world(effects + 1);
    world.pass(std::chrono::hours(20) - 1min);
    for (const auto& pod : world.pods) pod->kill_after(effects);
    world.pass(std::chrono::hours(1));
    world.start_all();
    world.pass(10min);
    world.expect_end();
    EXPECT_GE(world.renewals, 1);
  }
}

TEST(WebhookCertificateSim, AnUpgradeOfTheChartMayComeAtAnyMoment) {
  for (int moment = 0; moment < 100 && !::testing::Test::HasFailure(); ++moment) {
    SCOPED_TRACE(moment);
    World world(static_cast<std::uint64_t>(moment) + 1);
    world.pass(std::chrono::hours(20) - 1min);
    int events = 0;
    world.loop.run_until([&] { return world.judge(), ++events > moment; }, 1h);
    world.objects.upgrade_chart();
    world.pass(1h);
    world.expect_end();
    EXPECT_GE(world.renewals, 1);
  }
}

}  // namespace
}  // namespace bascule::runtime
