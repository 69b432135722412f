// One odd object among others: it holds up nobody, and what cannot be read is named.
#include "kube/informer.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <map>

#include "base/log.hpp"
#include "base/manual_loop.hpp"
#include "net/loopback.hpp"
#include "testing/fake_api.hpp"
#include "testing/objects.hpp"
#include "testing/run.hpp"

namespace bascule::kube {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

std::string thing(const std::string& name, int version, const std::string& more = "") {
  return fmt::format(
      R"({{"kind":"Thing","apiVersion":"v1","metadata":{{"name":"{}","namespace":"ns","uid":"uid-{}","resourceVersion":"{}"{}}}}})",
      name, name, version, more);
}
std::string nested(const std::string& name, int version, std::size_t depth) {
  std::string out = thing(name, version);
  out.pop_back();
  return out + R"(,"spec":)" + std::string(depth, '[') + std::string(depth, ']') + "}";
}
constexpr const char* kFar = R"(,"deletionTimestamp":"2280-01-01T00:00:00Z","deletionGracePeriodSeconds":8000000000)";
constexpr const char* kSenseless = R"(,"creationTimestamp":"yesterday")";

// Lists `items`, then tells what event() was given.
struct InformerTest : ::testing::Test {
  void start() { informer.start(); }
  void event(const char* type, const std::string& object) {
    events += fmt::format("{{\"type\":\"{}\",\"object\":{}}}\n", type, object);
    bell.notify();
    loop.advance(1s);
  }
  std::vector<std::string> names() {
    std::vector<std::string> out;
    informer.for_each(
        [&](const std::shared_ptr<const DynamicObject>& object) { out.push_back(object->meta.key.name); });
    std::ranges::sort(out);
    return out;
  }
  std::string version(const std::string& name) {
    const auto object = informer.get({"ns", name});
    return object ? object->meta.resource_version : "none";
  }
  ~InformerTest() override { testing::run(loop, informer.stop()); }

  Task<net::ServerResponse> serve(const net::ServerRequest& request) {
    if (maintenance) {
      net::ServerResponse page{.status = 503, .body = "<html>"};
      page.headers.add("Retry-After", "3600");
      co_return page;
    }
    if (down) co_return net::ServerResponse{.status = 500, .body = "{}"};
    if (request.target.find("watch=true") != std::string::npos) {
      co_return net::ServerResponse{
          .stream = [this](net::BodySink& sink, std::stop_token stop) { return stream(sink, std::move(stop)); }};
    }
    std::string body = R"({"kind":"ThingList","apiVersion":"v1","metadata":{"resourceVersion":"10"},"items":[)";
    for (const std::string& item : items) body += (&item == &items.front() ? "" : ",") + item;
    co_return net::ServerResponse{.body = body + "]}"};
  }
  Task<> stream(net::BodySink& sink, std::stop_token stop) {
    while (!stop.stop_requested() && !down) {
      if (!events.empty()) co_await sink.write(std::exchange(events, {}));
      (void)co_await bell.wait(stop, loop.now() + 10s);
    }
  }

  ManualLoop loop;
  log::Capture log{log::Level::kDebug, log::Format::kText, &loop};
  Bell bell{loop};
  std::vector<std::string> items;
  std::string events;
  bool down = false;
  bool maintenance = false;                       // a proxy speaks
  std::map<std::string, std::uint32_t> failures;  // as the client's owner was told
  std::unique_ptr<net::Transport> transport =
      net::make_loopback(loop, [this](const net::ServerRequest& request, std::stop_token) { return serve(request); });
  static ClientOptions options_of(InformerTest& test) {
    ClientOptions options;
    options.report_cache = [&test](const CacheReport& report) {
      EXPECT_EQ(report.before, test.failures.contains("things") ? test.failures["things"] : 0);
      test.failures[std::string(report.resource)] = report.failures;
    };
    return options;
  }
  Client client{loop, *transport, options_of(*this)};
  json::Interner interner;
  Informer<DynamicObject> informer{
      client, {.resource = {"", "v1", "things", "Thing", true}, .seed = 1}, decode_dynamic, interner};
};

// Its pod asks for a grace of 250 years.
TEST_F(InformerTest, AnObjectThatIsDeletedFarInTheFutureIsDeleted) {
  items = {thing("a", 1), thing("far", 2, kFar), thing("z", 3)};
  start();
  loop.advance(1s);
  ASSERT_TRUE(informer.synced());
  EXPECT_THAT(names(), ElementsAre("a", "far", "z"));
  EXPECT_TRUE(informer.get({"ns", "far"})->meta.deleted);
  event("MODIFIED", thing("z", 11, kFar));
  event("MODIFIED", thing("a", 12));
  EXPECT_TRUE(informer.get({"ns", "z"})->meta.deleted);
  EXPECT_EQ(version("a"), "12");
  EXPECT_EQ(informer.stats().failures, 0u);
}

TEST_F(InformerTest, WhatCannotBeReadIsNamedAndHoldsUpNobody) {
  items = {thing("a", 1), thing("odd", 2, kSenseless), thing("z", 3)};
  start();
  loop.advance(1s);
  ASSERT_TRUE(informer.synced());
  EXPECT_THAT(names(), ElementsAre("a", "z"));
  EXPECT_EQ(log.count("ns/odd"), 1u);
  event("MODIFIED", thing("z", 11, kSenseless));
  event("MODIFIED", thing("a", 12));
  EXPECT_EQ(version("z"), "3") << "as it was last read";
  EXPECT_EQ(version("a"), "12");
  event("DELETED", thing("z", 13, kSenseless));
  EXPECT_THAT(names(), ElementsAre("a"));
  EXPECT_EQ(informer.stats().undecodable, 2u);
  EXPECT_EQ(informer.stats().failures, 0u);
}

TEST_F(InformerTest, WhatIsNestedTooDeepIsNamedAndHoldsUpNobody) {
  items = {thing("a", 1), nested("deep", 2, 5000), thing("z", 3)};
  start();
  loop.advance(1s);
  ASSERT_TRUE(informer.synced());
  EXPECT_THAT(names(), ElementsAre("a", "z"));
  EXPECT_EQ(log.count("ns/deep"), 1u);
  event("MODIFIED", nested("z", 11, 5000));
  event("MODIFIED", thing("a", 12));
  EXPECT_EQ(version("z"), "3");
  EXPECT_EQ(version("a"), "12");
  event("DELETED", nested("z", 13, 5000));
  EXPECT_THAT(names(), ElementsAre("a"));
  EXPECT_EQ(informer.stats().failures, 0u);
}

// Whoever looks on sees that what is decided rests on old data.
TEST_F(InformerTest, ACopyThatIsNotKeptUpToDateIsCountedAndComplainedAbout) {
  items = {thing("a", 1)};
  start();
  EXPECT_EQ(failures.at("things"), 0u);
  loop.advance(1s);
  event("MODIFIED", thing("a", 11));
  down = true;
  bell.notify();
  loop.advance(110s);
  EXPECT_GE(failures.at("things"), 3u);
  EXPECT_EQ(log.count("ERROR"), 0u) << "an API server may be restarted";
  loop.advance(1min);
  EXPECT_GE(failures.at("things"), 5u);
  EXPECT_GE(log.count("silent_for=2m"), 1u);
  down = false;
  loop.advance(1min);
  event("MODIFIED", thing("a", 12));
  EXPECT_EQ(failures.at("things"), 0u);
  EXPECT_EQ(version("a"), "12");
}

TEST_F(InformerTest, AMaintenancePageOfAProxyIsNotBelievedForAnHour) {
  items = {thing("a", 1)};
  maintenance = true;
  start();
  loop.advance(20s);
  maintenance = false;
  loop.advance(40s);
  EXPECT_TRUE(informer.synced());
}

// The API server takes more than etcd does by default.
TEST_F(InformerTest, TakesWhatAnApiServerMayStore) {
  const std::string large = R"(,"labels":{"x":")" + std::string(std::size_t{8} << 20, 'x') + R"("})";
  items = {thing("a", 1), thing("large", 2, large)};
  start();
  loop.advance(1s);
  EXPECT_THAT(names(), ElementsAre("a", "large"));
  event("MODIFIED", thing("large", 11, large));
  EXPECT_EQ(version("large"), "11");
}

// It may be back at any moment, and pods wait for that.
TEST(InformerOfAServerThatIsAway, HearsOfItsReturnWithinSeconds) {
  const log::Capture quiet(log::Level::kError);
  ManualLoop loop;
  testing::FakeApi api(loop);
  bool away = false;
  const auto transport = net::make_loopback(loop, api.handler(), [&away](const net::Request&) {
    return away ? net::Fault{.kind = net::Fault::Kind::kUnreachable} : net::Fault{};
  });
  Client client(loop, *transport, {});
  json::Interner interner;
  Informer<Pod> pods(client, {.resource = resources::kPods, .seed = 1}, decode_pod, interner);
  pods.start();
  loop.advance(10s);
  EXPECT_TRUE(pods.following());
  away = true;
  api.end_watches();
  loop.advance(2min);
  EXPECT_FALSE(pods.following());
  api.create(resources::kPods, testing::make_pod({.name = "new"}));
  away = false;
  loop.advance(5s);
  EXPECT_TRUE(pods.following());
  EXPECT_TRUE(pods.get({"default", "new"}));
  EXPECT_EQ(pods.stats().lists, 1u);
  testing::run(loop, pods.stop());
}

// Restoring etcd restarts the API servers, whose versions begin where the backup was made. Their watches tell nobody.
TEST(InformerAfterARestore, SeesWhatTheOlderServerHas) {
  const log::Capture quiet(log::Level::kError);
  ManualLoop loop;
  testing::FakeApi before(loop);
  testing::FakeApi restored(loop);
  before.store().skip_versions(100'000);
  before.create(resources::kPods, testing::make_pod({.name = "lost"}));
  restored.create(resources::kPods, testing::make_pod({.name = "kept"}));
  testing::FakeApi* now = &before;
  const auto transport = net::make_loopback(loop, [&now](const net::ServerRequest& request, std::stop_token stop) {
    return now->handler()(request, std::move(stop));
  });
  Client client(loop, *transport, {});
  json::Interner interner;
  Informer<Pod> pods(client, {.resource = resources::kPods, .seed = 1}, decode_pod, interner);
  pods.start();
  loop.advance(2min);
  ASSERT_TRUE(pods.get({"default", "lost"}));
  now = &restored;
  before.end_watches();
  restored.create(resources::kPods, testing::make_pod({.name = "new"}));
  loop.advance(11min);
  EXPECT_FALSE(pods.get({"default", "lost"}));
  EXPECT_TRUE(pods.get({"default", "kept"}));
  EXPECT_TRUE(pods.get({"default", "new"}));
  testing::run(loop, pods.stop());
}

}  // namespace
}  // namespace bascule::kube
