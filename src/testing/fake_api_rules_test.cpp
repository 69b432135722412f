// Deletion, binding, server-side apply, subresources: what kinds do of their own.
#include "testing/fake_api_test.hpp"

#include <fmt/format.h>

namespace bascule::testing {
namespace {

const std::string kP0 = std::string(kPods) + "/p0";

TEST_F(FakeApiTest, DeletesWithGrace) {
  pods(2);
  json::Value of_another = make_binding("p0", "n1");
  json::at_or_create(of_another, {"metadata", "resourceVersion"}) = "1";
  EXPECT_EQ(post(kP0 + "/binding", of_another).status, 409);
  EXPECT_EQ(post(kP0 + "/binding", make_binding("p0", "n1")).status, 201);
  const Answer refused = post(kP0 + "/binding", make_binding("p0", "n2"));
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(refused.message(),
            "Operation cannot be fulfilled on pods/binding \"p0\": pod p0 is already assigned to node \"n1\"");
  const Answer bound = get(kP0);
  EXPECT_EQ(bound.string({"spec", "nodeName"}), "n1");
  EXPECT_EQ(json::string_at(*json::find(bound.body, {"status", "conditions"}), {}), "");
  EXPECT_EQ(json::string_at(json::array_at(bound.body, {"status", "conditions"})->at(0), {"type"}), "PodScheduled");

  const Answer going = del(kP0);
  EXPECT_EQ(going.status, 200);
  EXPECT_EQ(going.string({"metadata", "deletionTimestamp"}), "2026-01-01T01:00:30Z");
  EXPECT_EQ(json::int_at(going.body, {"metadata", "deletionGracePeriodSeconds"}), 30);
  EXPECT_EQ(json::int_at(going.body, {"metadata", "generation"}), 2) << "the binding did not count";
  const auto version = api.store().version();
  del(kP0);
  EXPECT_EQ(api.store().version(), version) << "deleted already";
  const Answer sooner = del(kP0, json::parse(R"({"gracePeriodSeconds":5})"));
  EXPECT_EQ(sooner.string({"metadata", "deletionTimestamp"}), "2026-01-01T01:00:05Z");
  del(kP0, json::parse(R"({"gracePeriodSeconds":0})"));
  EXPECT_EQ(get(kP0).status, 404);
  // Never bound: gone at once, and the answer is the pod.
  const Answer unbound = del(std::string(kPods) + "/p1");
  EXPECT_EQ(unbound.string({"kind"}), "Pod");
  EXPECT_EQ(get(std::string(kPods) + "/p1").status, 404);
}

TEST_F(FakeApiTest, DeletesWithPreconditionsAndFinalizers) {
  pods(1);
  const std::string uid = get(kP0).string({"metadata", "uid"});
  const Answer refused = del(kP0, Object{{"preconditions", Object{{"uid", "other"}}}});
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(refused.reason(), "Conflict");
  EXPECT_EQ(del(kP0, Object{{"preconditions", Object{{"resourceVersion", "1"}}}}).status, 409);
  merge(kP0, R"({"metadata":{"finalizers":["example.com/keep"]}})");
  Watching w = watch("/api/v1/pods?watch=1&resourceVersion=" + version());
  EXPECT_EQ(del(kP0, Object{{"preconditions", Object{{"uid", uid}}}}).status, 200);
  EXPECT_EQ(get(kP0).status, 200);
  EXPECT_EQ(merge(kP0, R"({"metadata":{"finalizers":["example.com/keep","example.com/more"]}})").status, 422);
  EXPECT_EQ(merge(kP0, R"({"metadata":{"finalizers":null}})").status, 200);
  EXPECT_EQ(get(kP0).status, 404);
  EXPECT_EQ(events(w), (Strings{"MODIFIED p0", "DELETED p0"}));
  EXPECT_EQ(post("/api/v1/namespaces/default/configmaps", json::parse(R"({"metadata":{"name":"c"}})")).status, 201);
  const Answer plain = del("/api/v1/namespaces/default/configmaps/c");
  EXPECT_EQ(plain.string({"kind"}), "Status");
  EXPECT_EQ(plain.string({"status"}), "Success");
  EXPECT_EQ(plain.string({"details", "kind"}), "configmaps");
}

TEST_F(FakeApiTest, EvictsAndDeletesCollections) {
  pods(3, {{"app", "x"}});
  post(kP0 + "/binding", make_binding("p0", "n1"));
  EXPECT_EQ(
      post(kP0 + "/eviction", json::parse(R"({"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p0"}})"))
          .status,
      201);
  const Answer evicted = get(kP0);
  EXPECT_FALSE(evicted.string({"metadata", "deletionTimestamp"}).empty());
  EXPECT_NE(evicted.text.find("DisruptionTarget"), std::string::npos);
  const Answer all = del(std::string(kPods) + "?labelSelector=app%3Dx");
  EXPECT_EQ(all.string({"kind"}), "PodList");
  EXPECT_EQ(api.count(kube::resources::kPods), 1u) << "p0 ends with its grace";
}

TEST_F(FakeApiTest, AppliesAndRemembersWhoOwnsWhat) {
  const std::string path = "/apis/apps/v1/namespaces/default/deployments/d?fieldManager=";
  const auto object = [](std::string_view spec) {
    return fmt::format(
        R"({{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"d","labels":{{"a":"1"}}}},"spec":{}}})",
        spec);
  };
  const std::string both =
      R"({"replicas":2,"template":{"spec":{"containers":[{"name":"x","image":"i1"},{"name":"y","image":"i2"}]}}})";
  const Answer made = apply(path + "bascule", object(both));
  ASSERT_EQ(made.status, 201) << made.text;
  EXPECT_NE(made.text.find(R"("manager":"bascule","operation":"Apply")"), std::string::npos);
  const auto before = api.store().version();
  loop.advance(5s);
  EXPECT_EQ(apply(path + "bascule", object(both)).status, 200);
  EXPECT_EQ(api.store().version(), before) << "the same again writes nothing";

  const Answer conflict = apply(path + "other", object(R"({"replicas":3})"));
  EXPECT_EQ(conflict.status, 409);
  EXPECT_EQ(conflict.message(), "Apply failed with 1 conflict: conflict with \"bascule\": .spec.replicas");
  EXPECT_EQ(apply(path + "other&force=true", object(R"({"replicas":3})")).status, 200);
  // What a manager no longer says goes away, unless another says it too.
  const Answer less =
      apply(path + "bascule", object(R"({"template":{"spec":{"containers":[{"name":"x","image":"i3"}]}}})"));
  ASSERT_EQ(less.status, 200) << less.text;
  EXPECT_EQ(json::int_at(less.body, {"spec", "replicas"}), 3);
  const auto* containers = json::array_at(less.body, {"spec", "template", "spec", "containers"});
  ASSERT_EQ(containers->size(), 1u);
  EXPECT_EQ(json::string_at(containers->at(0), {"image"}), "i3");
  EXPECT_EQ(json::int_at(less.body, {"metadata", "generation"}), 3);
  // A plain patch takes the field over, and the next apply meets it.
  merge("/apis/apps/v1/namespaces/default/deployments/d", R"({"metadata":{"labels":{"a":"9"}}})");
  const Answer taken =
      apply(path + "bascule", object(R"({"template":{"spec":{"containers":[{"name":"x","image":"i3"}]}}})"));
  EXPECT_EQ(taken.status, 409);
  EXPECT_EQ(taken.string({"reason"}), "Conflict");
}

TEST_F(FakeApiTest, CustomResourcesAndTheirSubresources) {
  const Value crd = json::parse(R"({"metadata":{"name":"nodesets.slinky.slurm.net"},"spec":{"group":"slinky.slurm.net",
    "scope":"Namespaced","names":{"plural":"nodesets","kind":"NodeSet"},"versions":[{"name":"v1beta1","served":true,
    "storage":true,"subresources":{"status":{},"scale":{}}}]}})");
  EXPECT_EQ(get("/apis/slinky.slurm.net/v1beta1/nodesets").text, "404 page not found\n");
  EXPECT_EQ(post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).status, 201);
  const std::string path = "/apis/slinky.slurm.net/v1beta1/namespaces/default/nodesets";
  EXPECT_EQ(post(path, json::parse(R"({"apiVersion":"slinky.slurm.net/v1beta1","kind":"NodeSet","metadata":{"name":"n"},
    "spec":{"replicas":2},"status":{"replicas":7}})"))
                .status,
            201);
  const Answer list = get(path);
  EXPECT_EQ(json::string_at(json::array_at(list.body, {"items"})->at(0), {"kind"}), "NodeSet");
  EXPECT_EQ(json::find(json::array_at(list.body, {"items"})->at(0), {"status"}), nullptr);
  EXPECT_EQ(merge(path + "/n/scale", R"({"spec":{"replicas":5}})").string({"kind"}), "Scale");
  const Answer scaled = merge(path + "/n/status", R"({"metadata":{"labels":{"no":"no"}},"status":{"replicas":5}})");
  EXPECT_EQ(json::int_at(scaled.body, {"spec", "replicas"}), 5);
  EXPECT_EQ(json::int_at(scaled.body, {"status", "replicas"}), 5);
  EXPECT_EQ(json::int_at(scaled.body, {"metadata", "generation"}), 2);
  EXPECT_EQ(json::find(scaled.body, {"metadata", "labels"}), nullptr);
  Value whole = scaled.body;
  whole.at("metadata").get_object().erase("resourceVersion");
  EXPECT_EQ(put(path + "/n", whole).status, 422) << "a custom resource is not updated blindly";
}

// As kube-apiserver 1.36.3 answered when asked.
TEST_F(FakeApiTest, AnswersAsTheRealOne) {
  pods(1);
  const Answer foreign = merge(kP0, R"({"metadata":{"uid":"other"}})");
  EXPECT_EQ(foreign.status, 422) << "a uid in a patch is no precondition but an invalid value";
  EXPECT_EQ(foreign.message(), "Pod \"p0\" is invalid: metadata.uid: Invalid value: \"other\": field is immutable");
  Value whole = get(kP0).body;
  json::at_or_create(whole, {"metadata", "uid"}) = "other";
  EXPECT_EQ(put(kP0, whole).status, 409) << "in an update it is one";
  EXPECT_EQ(apply(kP0, R"({"metadata":{"name":"p0"}})").message(),
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch");
  EXPECT_EQ(apply(std::string(kPods) + "/none?fieldManager=me", R"({"metadata":{"uid":"other"}})").status, 409);
  const std::string lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/x";
  EXPECT_EQ(put(lease, json::parse(R"({"metadata":{"name":"x"},"spec":{"holderIdentity":"a"}})")).status, 201);
  EXPECT_EQ(put(lease, json::parse(R"({"metadata":{"name":"x"},"spec":{"holderIdentity":"b"}})")).status, 422);
  EXPECT_EQ(get(std::string(kPods) + "?continue=abc").status, 400);
  // A Job deleted without a propagation policy leaves its pods behind.
  api.create(kube::resources::kJobs, make_job({.name = "j"}));
  const Answer orphaning = del("/apis/batch/v1/namespaces/default/jobs/j");
  EXPECT_EQ(json::array_at(orphaning.body, {"metadata", "finalizers"})->at(0), "orphan");
  const Answer moved = del(kP0, Object{{"preconditions", Object{{"uid", "other"}}}});
  EXPECT_EQ(moved.string({"details", "kind"}), "Pod");
}

TEST_F(FakeApiTest, AdmissionMayChangeAndDeny) {
  api.set_admission([](Admission& a) -> Task<> {
    if (a.resource.name.kind == "Pod" && a.operation == "CREATE") {
      if (a.key.name == "no") throw ApiFailure(403, "Forbidden", "admission webhook denied the request: no");
      json::at_or_create(a.object, {"metadata", "labels", "seen"}) = "yes";
    }
    co_return;
  });
  EXPECT_EQ(post(kPods, make_pod({.name = "a"})).string({"metadata", "labels", "seen"}), "yes");
  EXPECT_EQ(post(kPods, make_pod({.name = "no"})).status, 403);
  EXPECT_EQ(api.count(kube::resources::kPods), 1u);
  EXPECT_EQ(post(std::string(kPods) + "?dryRun=All", make_pod({.name = "b"})).status, 201);
  EXPECT_EQ(api.count(kube::resources::kPods), 1u);
}

TEST_F(FakeApiTest, AWriteDuringAdmissionIsNotLost) {
  pods(1);
  api.set_admission([this](Admission& a) {
    return [](FakeApi& api, Admission& a) -> Task<> {
      if (json::string_at(*a.old, {"metadata", "labels", "other"}).empty()) {
        api.patch(kube::resources::kPods, a.key, json::parse(R"({"metadata":{"labels":{"other":"1"}}})"));
      }
      co_return;
    }(api, a);
  });
  const Answer both = merge(kP0, R"({"metadata":{"labels":{"mine":"1"}}})");
  EXPECT_EQ(both.string({"metadata", "labels", "other"}), "1");
  EXPECT_EQ(both.string({"metadata", "labels", "mine"}), "1");
}

}  // namespace
}  // namespace bascule::testing
