#include "testing/fake_cluster.hpp"

#include <gtest/gtest.h>

#include "testing/objects.hpp"
#include "testing/run.hpp"

namespace bascule::testing {
namespace {

using namespace std::chrono_literals;
using json::Object;
using json::Value;
namespace r = kube::resources;

struct FakeClusterTest : ::testing::Test {
  ManualLoop loop;
  FakeApi api{loop};
  FakeCluster cluster{api};

  FakeClusterTest() {
    for (const char* name : {"n1", "n2"}) api.create(r::kNodes, make_node({.name = name}));
    cluster.start();
  }
  ~FakeClusterTest() override { run(loop, cluster.stop()); }

  std::string phase(const NamespacedName& key) {
    const auto pod = api.get(r::kPods, key);
    return pod ? std::string(json::string_at(*pod, {"status", "phase"})) : "gone";
  }
  // What a scheduler would do.
  void bind_all() {
    int i = 0;
    for (const Value& pod : api.list(r::kPods)) {
      if (!json::string_at(pod, {"spec", "nodeName"}).empty() || deleting(pod)) continue;
      ApiTable& pods = api.store().table(r::kPods);
      api.writer().commit(
          api.writer().bind(pods, ns_of(pod), name_of(pod), make_binding("", ++i % 2 ? "n1" : "n2"), {}));
    }
  }
  Value job(const std::string& name) { return api.get(r::kJobs, {"default", name}).value_or(nullptr); }
  bool condition(const Value& object, std::string_view type) {
    const auto* list = json::array_at(object, {"status", "conditions"});
    return list && std::ranges::any_of(*list, [&](const Value& c) {
             return json::string_at(c, {"type"}) == type && json::string_at(c, {"status"}) == "True";
           });
  }
};

TEST_F(FakeClusterTest, RunsBoundPodsToTheirEnd) {
  api.create(r::kPods, make_pod({.name = "ok", .node = "n1"}));
  api.create(r::kPods,
             make_pod({.name = "bad", .node = "n1", .annotations = {{"fake/exit", "1"}, {"fake/run-for", "2"}}}));
  api.create(r::kPods, make_pod({.name = "unbound"}));
  api.create(r::kPods, make_pod({.name = "long", .node = "n2", .annotations = {{"fake/run-for", "forever"}}}));
  loop.advance(1500ms);
  EXPECT_EQ(phase({"default", "ok"}), "Running");
  loop.advance(2s);
  EXPECT_EQ(phase({"default", "bad"}), "Failed");
  loop.advance(10s);
  EXPECT_EQ(phase({"default", "ok"}), "Succeeded");
  EXPECT_EQ(phase({"default", "unbound"}), "Pending");
  EXPECT_EQ(phase({"default", "long"}), "Running");
  api.remove(r::kPods, {"default", "long"});
  EXPECT_EQ(phase({"default", "long"}), "Running");
  loop.advance(2s);
  EXPECT_EQ(phase({"default", "long"}), "gone");
  const auto version = api.store().version();
  loop.advance(1h);
  EXPECT_EQ(api.store().version(), version) << "at rest nothing is written";
}

TEST_F(FakeClusterTest, DeadNodesKeepTheirPods) {
  api.create(r::kPods, make_pod({.name = "a", .node = "n1", .annotations = {{"fake/run-for", "forever"}}}));
  loop.advance(2s);
  cluster.set_node_alive("n1", false);
  api.remove(r::kPods, {"default", "a"});
  loop.advance(1min);
  EXPECT_EQ(phase({"default", "a"}), "Running");
  api.erase(r::kNodes, {"", "n1"});
  loop.advance(1min);
  EXPECT_EQ(phase({"default", "a"}), "gone");
}

TEST_F(FakeClusterTest, JobsRunToCompletion) {
  api.create(r::kJobs, make_job({.name = "j", .parallelism = 2, .completions = 5}));
  loop.advance(1s);
  EXPECT_EQ(api.count(r::kPods), 2u);
  EXPECT_EQ(json::int_at(job("j"), {"status", "active"}), 2);
  for (int i = 0; i < 60; ++i) {
    bind_all();
    loop.advance(1s);
  }
  EXPECT_TRUE(condition(job("j"), "Complete"));
  EXPECT_EQ(json::int_at(job("j"), {"status", "succeeded"}), 5);
  EXPECT_EQ(api.count(r::kPods), 5u);
  // Deleted without a word the pods stay (batch/v1 orphans), in background they go.
  api.remove(r::kJobs, {"default", "j"});
  loop.advance(1s);
  EXPECT_TRUE(job("j").is_null());
  EXPECT_EQ(api.count(r::kPods), 5u);
}

TEST_F(FakeClusterTest, DeletedAndFailedPodsAreMadeAgainWithinTheLimit) {
  api.create(r::kJobs, make_job({.name = "j", .parallelism = 1, .backoff_limit = 2}));
  for (int i = 0; i < 10; ++i) {
    loop.advance(2s);
    for (const Value& pod : api.list(r::kPods)) api.remove(r::kPods, {"default", std::string(name_of(pod))});
  }
  EXPECT_TRUE(condition(job("j"), "Failed"));
  EXPECT_EQ(json::int_at(job("j"), {"status", "failed"}), 3);
  loop.advance(1min);
  EXPECT_EQ(api.count(r::kPods), 0u);
}

TEST_F(FakeClusterTest, CollectsWhatHasNoOwner) {
  api.create(r::kJobs, make_job({.name = "bg", .parallelism = 2}));
  api.create(r::kJobs, make_job({.name = "fg", .parallelism = 2}));
  loop.advance(1s);
  bind_all();
  loop.advance(3s);
  api.remove(r::kJobs, {"default", "bg"}, {.propagation = "Background"});
  api.remove(r::kJobs, {"default", "fg"}, {.propagation = "Foreground"});
  EXPECT_TRUE(job("bg").is_null());
  EXPECT_FALSE(job("fg").is_null());
  loop.advance(5s);
  EXPECT_EQ(api.count(r::kPods), 0u);
  EXPECT_TRUE(job("fg").is_null());
  api.create(r::kNamespaces, make_namespace("work"));
  api.create(r::kPods, make_pod({.name = "p", .ns = "work"}));
  api.remove(r::kNamespaces, {"", "work"});
  loop.advance(1s);
  EXPECT_FALSE(api.get(r::kNamespaces, {"", "work"}));
  EXPECT_EQ(api.count(r::kPods), 0u);
}

TEST_F(FakeClusterTest, PodsOfJobsPassAdmission) {
  bool open = false;
  api.set_admission([&open](Admission& a) {
    return [](const bool& open, Admission& a) -> Task<> {
      if (!open) throw ApiFailure(500, "InternalError", "failed calling webhook");
      json::at_or_create(a.object, {"metadata", "labels", "seen"}) = "yes";
      co_return;
    }(open, a);
  });
  api.create(r::kJobs, make_job({.name = "j", .parallelism = 3}));
  loop.advance(5s);
  EXPECT_EQ(api.count(r::kPods), 0u);
  open = true;
  loop.advance(5s);
  EXPECT_EQ(api.list(r::kPods, "", "seen=yes").size(), 3u);
}

}  // namespace
}  // namespace bascule::testing
