#include "testing/fake_api_test.hpp"

namespace bascule::testing {
namespace {

TEST_F(FakeApiTest, CreatesAndGets) {
  const Answer made = post(kPods, make_pod({.name = "a"}));
  EXPECT_EQ(made.status, 201);
  EXPECT_EQ(made.string({"kind"}), "Pod");
  EXPECT_EQ(made.string({"apiVersion"}), "v1");
  EXPECT_EQ(made.string({"status", "phase"}), "Pending");
  EXPECT_EQ(made.string({"metadata", "uid"}).size(), 36u);
  EXPECT_EQ(made.string({"metadata", "creationTimestamp"}), "2026-01-01T01:00:00Z");
  EXPECT_EQ(json::int_at(made.body, {"metadata", "generation"}), 1);
  EXPECT_EQ(made.string({"spec", "dnsPolicy"}), "ClusterFirst") << "defaulted";
  const Answer got = get(std::string(kPods) + "/a");
  EXPECT_TRUE(json::equal(got.body, made.body));

  const Answer twice = post(kPods, make_pod({.name = "a"}));
  EXPECT_EQ(twice.status, 409);
  EXPECT_EQ(twice.reason(), "AlreadyExists");
  EXPECT_EQ(twice.message(), "pods \"a\" already exists");
  EXPECT_EQ(twice.string({"details", "kind"}), "pods");
  EXPECT_EQ(get(std::string(kPods) + "/b").reason(), "NotFound");

  Value generated = make_pod({.name = ""});
  generated.at("metadata").get_object() = Object{{"generateName", "gen-"}};
  const Answer named = post(kPods, generated);
  EXPECT_EQ(named.string({"metadata", "name"}).size(), 9u);
  EXPECT_EQ(named.string({"metadata", "namespace"}), "default");

  EXPECT_EQ(post("/api/v1/namespaces/other/pods", make_pod({.name = "x"})).status, 400);
  EXPECT_EQ(post(kPods, make_pod({.name = "Bad_Name"})).status, 422);
  EXPECT_EQ(post(kPods, make_node({.name = "x"})).status, 400);
}

TEST_F(FakeApiTest, UpdatesKeepWhatOthersOwn) {
  pods(1);
  Answer got = get(std::string(kPods) + "/p0");
  Value changed = got.body;
  json::at_or_create(changed, {"metadata", "labels", "x"}) = "1";
  json::at_or_create(changed, {"status", "phase"}) = "Running";
  const Answer put_1 = put(std::string(kPods) + "/p0", changed);
  EXPECT_EQ(put_1.status, 200);
  EXPECT_EQ(put_1.string({"metadata", "labels", "x"}), "1");
  EXPECT_EQ(put_1.string({"status", "phase"}), "Pending") << "status is written by its subresource";
  EXPECT_EQ(json::int_at(put_1.body, {"metadata", "generation"}), 1);
  const Answer old = put(std::string(kPods) + "/p0", changed);
  EXPECT_EQ(old.status, 409);
  EXPECT_EQ(old.reason(), "Conflict");

  Value status = put_1.body;
  json::at_or_create(status, {"status", "phase"}) = "Running";
  json::at_or_create(status, {"spec", "priority"}) = 99;
  const Answer put_2 = put(std::string(kPods) + "/p0/status", status);
  EXPECT_EQ(put_2.string({"status", "phase"}), "Running");
  EXPECT_EQ(json::int_at(put_2.body, {"spec", "priority"}), 0);

  const auto before = api.store().version();
  EXPECT_EQ(merge(std::string(kPods) + "/p0", R"({"metadata":{"labels":{"x":"1"}}})").status, 200);
  EXPECT_EQ(api.store().version(), before) << "nothing changed, nothing written";
  const Answer frozen = merge(std::string(kPods) + "/p0", R"({"spec":{"nodeName":"n1"}})");
  EXPECT_EQ(frozen.status, 422);
  EXPECT_EQ(frozen.reason(), "Invalid");
  EXPECT_EQ(merge(std::string(kPods) + "/p0", R"({"metadata":{"resourceVersion":"1","labels":{"y":"2"}}})").status,
            409);
  EXPECT_EQ(merge(std::string(kPods) + "/p0", R"({"metadata":{"uid":"other","labels":{"y":"2"}}})").status, 422);
}

TEST_F(FakeApiTest, PatchesInEveryForm) {
  pods(1);
  const std::string path = std::string(kPods) + "/p0";
  const Answer a = call("PATCH", path, json::parse(R"([{"op":"add","path":"/metadata/labels","value":{"a":"1"}}])"),
                        "application/json-patch+json");
  EXPECT_EQ(a.string({"metadata", "labels", "a"}), "1");
  EXPECT_EQ(call("PATCH", path, json::parse(R"([{"op":"test","path":"/metadata/name","value":"q"}])"),
                 "application/json-patch+json")
                .status,
            422);
  const Answer s =
      call("PATCH", path + "/status", json::parse(R"({"status":{"conditions":[{"type":"Ready","status":"True"}]}})"),
           "application/strategic-merge-patch+json");
  EXPECT_EQ(s.status, 200);
  const Answer s2 =
      call("PATCH", path + "/status", json::parse(R"({"status":{"conditions":[{"type":"Other","status":"True"}]}})"),
           "application/strategic-merge-patch+json");
  EXPECT_EQ(json::array_at(s2.body, {"status", "conditions"})->size(), 2u);
  EXPECT_EQ(call("PATCH", path, Object(), "application/json").status, 415);
  api.add_resource({"slinky.slurm.net", "v1beta1", "nodesets", "NodeSet", true});
  EXPECT_EQ(call("PATCH", "/apis/slinky.slurm.net/v1beta1/namespaces/default/nodesets/a", Object(),
                 "application/strategic-merge-patch+json")
                .status,
            415);
}

TEST_F(FakeApiTest, WatchesWhatChanges) {
  pods(2, {{"app", "x"}});
  Watching w = watch("/api/v1/pods?watch=1&resourceVersion=" + version());
  Watching labelled = watch("/api/v1/pods?watch=1&labelSelector=app%3Dx&resourceVersion=" + version());
  Watching initial = watch("/api/v1/pods?watch=1&fieldSelector=metadata.name%3Dp1");
  EXPECT_EQ(events(initial), (Strings{"ADDED p1"}));
  merge(std::string(kPods) + "/p0", R"({"metadata":{"labels":{"app":"y"}}})");
  merge(std::string(kPods) + "/p0", R"({"metadata":{"labels":{"app":"z"}}})");
  merge(std::string(kPods) + "/p0", R"({"metadata":{"labels":{"app":"x"}}})");
  del(std::string(kPods) + "/p0");
  EXPECT_EQ(events(w), (Strings{"MODIFIED p0", "MODIFIED p0", "MODIFIED p0", "DELETED p0"}));
  EXPECT_EQ(events(labelled), (Strings{"DELETED p0", "ADDED p0", "DELETED p0"}));
  EXPECT_EQ(events(initial), Strings{});
  EXPECT_EQ(api.watches(), 3u);
}

}  // namespace
}  // namespace bascule::testing
