#include "kube/lease.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/log.hpp"
#include "base/manual_loop.hpp"
#include "net/loopback.hpp"

namespace bascule::kube {
namespace {

using namespace std::chrono_literals;
using Kind = LeaseCore::Action::Kind;

// --- many electors, clocks that disagree, a network that delays, loses and parts -------------------------------------

struct Simulation {
  struct Elector {
    LeaseCore core;
    double rate;      // of its clock
    Duration offset;  // of its clock
    Duration wall;    // of its civil time
    bool cut = false;
    std::uint64_t call = 0;  // the one it waits for
  };

  explicit Simulation(std::uint64_t seed) : random(seed) {
    const std::size_t count = 2 + pick(4);
    for (std::size_t i = 0; i < count; ++i) {
      LeaseOptions options{.key = {"ns", "lease"}, .identity = fmt::format("elector-{}", i)};
      electors.push_back({LeaseCore(options, random()), std::uniform_real_distribution<double>(0.85, 1.15)(random),
                          std::chrono::seconds(pick(100000)), std::chrono::seconds(pick(100000))});
    }
    for (std::size_t i = 0; i < count; ++i) at(Duration(pick(5'000'000'000)), [this, i] { step(i); });
  }

  std::size_t pick(std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random); }
  bool chance(double p) { return std::uniform_real_distribution<double>(0, 1)(random) < p; }
  void at(Duration delay, std::function<void()> fn) { queue.emplace(now + delay, std::move(fn)); }
  TimePoint local(const Elector& e) const {
    return TimePoint{} + 1h + e.offset + std::chrono::duration_cast<Duration>(now * e.rate);
  }
  WallTime wall(const Elector& e) const { return WallTime{} + 400000h + e.wall + now; }
  Duration true_delay(const Elector& e, Duration mine) const {
    return std::chrono::duration_cast<Duration>(mine / e.rate) + 1ns;
  }
  Duration latency() {
    if (!rough) return std::chrono::microseconds(1 + pick(20'000));
    return chance(0.1) ? std::chrono::milliseconds(pick(20'000)) : std::chrono::milliseconds(1 + pick(500));
  }

  void check(const std::string& what) {
    std::string leaders;
    std::size_t count = 0;
    for (Elector& e : electors) {
      if (!e.core.leading(local(e))) continue;
      leaders += fmt::format(" elector-{}", &e - electors.data());
      ++count;
    }
    ASSERT_LE(count, 1U) << what << " at " << now.count() << ": leaders" << leaders;
  }

  void step(std::size_t i) {
    Elector& e = electors[i];
    LeaseCore::Action action = e.core.next(local(e), wall(e));
    if (action.kind == Kind::kWait) {
      at(true_delay(e, std::max(action.until - local(e), Duration(1))), [this, i] { step(i); });
      return;
    }
    const std::uint64_t call = ++e.call;
    const TimePoint sent = local(e);
    at(true_delay(e, 5s), [this, i, call] {
      if (electors[i].call != call) return;
      ++electors[i].call;
      electors[i].core.failed(local(electors[i]));
      step(i);
    });
    const bool lost = e.cut || (rough && chance(0.05));
    if (!lost) at(latency(), [this, i, call, sent, action] { arrive(i, call, sent, action); });
  }

  // At the server.
  void arrive(std::size_t i, std::uint64_t call, TimePoint sent, const LeaseCore::Action& action) {
    bool refused = false;
    if (action.kind == Kind::kCreate) {
      refused = lease.has_value();
    } else if (action.kind == Kind::kWrite) {
      refused = !lease || lease->version != action.record.version;
    }
    if (action.kind != Kind::kRead && !refused) {
      lease = action.record;
      lease->version = std::to_string(++version);
    }
    if (electors[i].cut || (rough && chance(0.05))) return;
    at(latency(), [this, i, call, sent, action, refused, answer = lease] {
      Elector& e = electors[i];
      if (e.call != call) return;
      ++e.call;
      if (action.kind == Kind::kRead) {
        e.core.read(answer, local(e));
      } else if (refused) {
        e.core.refused(local(e));
      } else {
        e.core.written(*answer, sent, local(e));
        if (e.core.leading(local(e))) ++wins[i];
      }
      check("an answer");
      step(i);
    });
  }

  void run(Duration length) {
    const Duration end = now + length;
    while (!queue.empty() && queue.begin()->first <= end && !testing::Test::HasFatalFailure()) {
      auto node = queue.extract(queue.begin());
      now = node.key();
      node.mapped()();
    }
    now = end;
  }
  std::size_t leaders() {
    std::size_t count = 0;
    for (Elector& e : electors) count += e.core.leading(local(e)) ? 1 : 0;
    return count;
  }

  std::mt19937_64 random;
  std::vector<Elector> electors;
  std::multimap<Duration, std::function<void()>> queue;
  Duration now{};
  bool rough = true;
  std::optional<LeaseRecord> lease;
  std::uint64_t version = 0;
  std::map<std::size_t, std::uint64_t> wins;
};

TEST(LeaseSim, never_two_leaders_and_one_when_the_network_heals) {
  std::size_t takeovers = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Simulation simulation(seed);
    for (int round = 0; round < 20; ++round) {
      for (auto& e : simulation.electors) e.cut = simulation.chance(0.3);
      simulation.rough = simulation.chance(0.7);
      simulation.run(std::chrono::seconds(simulation.pick(60)));
    }
    for (auto& e : simulation.electors) e.cut = false;
    simulation.rough = false;
    simulation.run(90s);
    EXPECT_EQ(simulation.leaders(), 1U);
    takeovers += simulation.wins.size();
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_GT(takeovers, 600U) << "leadership moves at all";
}

TEST(LeaseSim, a_leader_that_is_cut_off_stops_before_another_begins) {
  Simulation simulation(7);
  simulation.rough = false;
  simulation.run(60s);
  ASSERT_EQ(simulation.leaders(), 1U);
  for (auto& e : simulation.electors) e.cut = e.core.leading(simulation.local(e));
  simulation.run(13s);
  EXPECT_EQ(simulation.leaders(), 0U);
  simulation.run(15s);
  EXPECT_EQ(simulation.leaders(), 1U);
}

// --- the driver, against a server of one Lease
// ------------------------------------------------------------------------

struct LeaseDriver : testing::Test {
  log::Capture quiet;
  ManualLoop loop;
  std::optional<json::Object> lease;
  std::uint64_t version = 0;
  std::uint64_t writes = 0;
  bool down = false;
  net::Handler handler = [this](const net::ServerRequest& request, std::stop_token) { return serve(request); };
  std::unique_ptr<net::Transport> transport = net::make_loopback(loop, handler, [this](const net::Request&) {
    return net::Fault{.kind = down ? net::Fault::Kind::kStall : net::Fault::Kind::kNone, .delay = 1ms};
  });
  Client client{loop, *transport, {}};

  static net::ServerResponse status(int code, std::string reason) {
    return {
        .status = code,
        .body = fmt::format(R"({{"kind":"Status","code":{},"reason":"{}","details":{{"name":"l"}}}})", code, reason)};
  }
  Task<net::ServerResponse> serve(const net::ServerRequest& request) {
    net::ServerResponse response = answer(request);
    co_return response;
  }
  net::ServerResponse answer(const net::ServerRequest& request) {
    if (request.method == "GET") {
      EXPECT_EQ(request.target, "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l");
      return lease ? net::ServerResponse{.body = json::dump(*lease)} : status(404, "NotFound");
    }
    const json::Value body = json::parse(request.body);
    if (request.method == "POST") {
      if (lease) return status(409, "AlreadyExists");
      lease = body.as_object();
    } else {
      EXPECT_EQ(request.headers.get("Content-Type"), "application/merge-patch+json");
      if (!lease) return status(404, "NotFound");
      if (json::string_at(body, {"metadata", "resourceVersion"}) != std::to_string(version)) {
        return status(409, "Conflict");
      }
      (*lease)["spec"] = body.at("spec");
    }
    ++writes;
    json::Value value = *lease;
    json::at_or_create(value, {"metadata", "resourceVersion"}) = std::to_string(++version);
    lease = value.as_object();
    return {.body = json::dump(*lease)};
  }
  void finish(Task<> task) {
    Gate gate(loop);
    spawn(gate, std::move(task));
    loop.run_until([&] { return gate.count() == 0; }, 1min);
  }
};

TEST_F(LeaseDriver, leads_renews_steps_down_and_releases) {
  std::vector<bool> told_a, told_b;
  LeaderElector a(client, {.key = {"ns", "l"}, .identity = "a"}, [&](bool leading) { told_a.push_back(leading); });
  LeaderElector b(client, {.key = {"ns", "l"}, .identity = "b"}, [&](bool leading) { told_b.push_back(leading); });
  a.start();
  loop.advance(1s);
  EXPECT_TRUE(a.leading());
  b.start();
  loop.advance(60s);
  EXPECT_TRUE(a.leading());
  EXPECT_FALSE(b.leading());
  EXPECT_EQ(b.holder(), "a");
  EXPECT_EQ(told_a, std::vector<bool>{true});
  EXPECT_NEAR(static_cast<double>(writes), 31, 2);
  finish(a.stop());
  EXPECT_EQ(told_a, (std::vector<bool>{true, false}));
  EXPECT_EQ(json::string_at(*lease, {"spec", "holderIdentity"}), "");
  loop.advance(3s);
  EXPECT_TRUE(b.leading()) << "a released lease is taken without waiting";
  EXPECT_EQ(json::int_at(*lease, {"spec", "leaseTransitions"}), 1);
  finish(b.stop());
  EXPECT_TRUE(loop.idle());
}

TEST_F(LeaseDriver, a_server_that_hangs_ends_leading_in_time) {
  std::optional<TimePoint> ended;
  LeaderElector a(client, {.key = {"ns", "l"}, .identity = "a"}, [&](bool leading) {
    if (!leading) ended = loop.now();
  });
  a.start();
  loop.advance(10s);
  ASSERT_TRUE(a.leading());
  const std::uint64_t before = writes;
  down = true;
  const TimePoint cut = loop.now();
  loop.advance(9900ms);
  ASSERT_TRUE(ended);
  EXPECT_GE(*ended - cut, 7s);
  EXPECT_FALSE(a.leading());
  EXPECT_GT(writes, before) << "the stalled renewal did happen; the elector cannot know";
  down = false;
  loop.advance(10s);
  EXPECT_TRUE(a.leading());
  finish(a.stop());
}

}  // namespace
}  // namespace bascule::kube
