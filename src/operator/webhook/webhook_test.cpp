#include "operator/webhook/webhook.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/manual_loop.hpp"
#include "net/loopback.hpp"
#include "operator/api/names.hpp"
#include "operator/api/resources.hpp"
#include "testing/fake_api.hpp"
#include "testing/run.hpp"

namespace bascule::op {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr std::string_view kController = "/validate-slinky-slurm-net-v1beta1-controller";

struct WebhookTest : ::testing::Test {
  net::ServerResponse call(std::string method, std::string target, std::string body) {
    net::ServerRequest request;
    request.method = std::move(method);
    request.target = std::move(target);
    request.body = std::move(body);
    const net::Handler handler = make_webhook(client, options);
    return bascule::testing::run(loop, handler(request, {}));
  }
  json::Value review(std::string target, std::string_view request) {
    const std::string body = fmt::format(
        R"({{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"u1","namespace":"hpc",{}}}}})",
        request);
    const net::ServerResponse response = call("POST", std::move(target), body);
    EXPECT_EQ(response.status, 200) << response.body;
    const json::Value answer = json::parse(response.body);
    EXPECT_EQ(json::string_at(answer, {"response", "uid"}), "u1");
    return answer;
  }
  json::Value create(std::string target, std::string_view spec) {
    return review(
        std::move(target),
        fmt::format(R"("operation":"CREATE","object":{{"metadata":{{"name":"slurm","namespace":"hpc"}},"spec":{}}})",
                    spec));
  }
  static bool allowed(const json::Value& answer) { return json::bool_at(answer, {"response", "allowed"}); }
  static std::string message(const json::Value& answer) {
    return std::string(json::string_at(answer, {"response", "status", "message"}));
  }
  static std::vector<std::string> warnings(const json::Value& answer) {
    std::vector<std::string> out;
    if (const json::Array* list = json::array_at(answer, {"response", "warnings"})) {
      for (const json::Value& item : *list) out.emplace_back(json::view(item.as_string()));
    }
    return out;
  }
  void make(const kube::Resource& resource, std::string_view object) {
    json::Value made = json::parse(object);
    made.as_object()["apiVersion"] = resource.api_version();
    made.as_object()["kind"] = resource.kind;
    api.create(resource, std::move(made));
  }

  ManualLoop loop;
  bascule::testing::FakeApi api{loop};
  std::unique_ptr<net::Transport> transport = net::make_loopback(loop, api.handler());
  kube::Client client{loop, *transport, {.timeout = 2s}};
  WebhookOptions options;
};

TEST_F(WebhookTest, AllowsRefusesAndWarns) {
  EXPECT_TRUE(allowed(create("/validate-slinky-slurm-net-v1beta1-token?timeout=10s", R"({"username":"ada"})")));
  const json::Value answer =
      create("/validate-slinky-slurm-net-v1beta1-nodeset", R"({"controllerRef":{"name":""},"extraConf":"Weight10"})");
  EXPECT_FALSE(allowed(answer));
  EXPECT_EQ(json::int_at(answer, {"response", "status", "code"}), 422);
  EXPECT_THAT(message(answer),
              StartsWith("NodeSet hpc/slurm: spec.controllerRef.name: is empty; name the Controller of "
                         "the cluster; spec.extraConf: \"Weight10\" is no Key=Value"));
  EXPECT_THAT(warnings(create("/validate-slinky-slurm-net-v1beta1-restapi",
                              R"({"controllerRef":{"name":"c"},"service":{"spec":{"externalIPs":["1.2.3.4"]}}})")),
              ElementsAre(HasSubstr("Service slurm-restapi")));
}

TEST_F(WebhookTest, LooksUpWhatAControllerNames) {
  make(kube::resources::kConfigMaps, R"({"metadata":{"name":"files","namespace":"hpc"},"data":{"slurm.conf":"x"}})");
  make(kClaims, R"({"metadata":{"name":"state","namespace":"hpc"},"spec":{"accessModes":["ReadWriteOnce"]}})");
  const json::Value answer = create(
      std::string(kController),
      R"({"configFileRefs":[{"name":"files"},{"name":"later"}],"ha":{"enabled":true},"persistence":{"enabled":true,"existingClaim":"state"}})");
  EXPECT_THAT(message(answer), HasSubstr("spec.configFileRefs[0]: slurm.conf of ConfigMap files would replace"));
  EXPECT_THAT(message(answer),
              HasSubstr("spec.persistence.existingClaim: claim state can be written by one node only"));
  EXPECT_THAT(warnings(answer), ElementsAre(StartsWith("spec.configFileRefs[1]: ConfigMap later does not exist yet")));
}

TEST_F(WebhookTest, LooksAtTheNodeSetsBesideOne) {
  const std::string path = "/validate-slinky-slurm-net-v1beta1-nodeset";
  api.add_resource(kNodeSets);
  const std::string_view spec = R"({"controllerRef":{"name":"c"},"template":{"spec":{"hostname":"cpu-"}}})";
  EXPECT_TRUE(allowed(create(path, spec)));
  make(kNodeSets, fmt::format(R"({{"metadata":{{"name":"cpu","namespace":"hpc"}},"spec":{}}})", spec));
  make(kNodeSets, fmt::format(R"({{"metadata":{{"name":"slurm","namespace":"other"}},"spec":{}}})", spec));
  EXPECT_THAT(message(create(path, spec)), HasSubstr("NodeSets slurm and cpu would both make the Slurm node cpu-0"));
}

TEST_F(WebhookTest, WhatCannotBeReadRefusesNothing) {
  using bascule::testing::ApiFault;
  const std::string spec = R"({"configFileRefs":[{"name":"a"},{"name":"b"},{"name":"c"}]})";
  api.set_faults([](const auto&) { return ApiFault{.kind = ApiFault::Kind::kStatus, .code = 403}; });
  json::Value answer = create(std::string(kController), spec);
  EXPECT_TRUE(allowed(answer));
  EXPECT_THAT(warnings(answer), IsEmpty());
  api.set_faults([](const auto&) { return ApiFault{.kind = ApiFault::Kind::kStallBefore}; });
  const TimePoint begun = loop.now();
  answer = create(std::string(kController), spec);
  EXPECT_TRUE(allowed(answer));
  EXPECT_LE(loop.now() - begun, options.look_up_for + 2s);
}

TEST_F(WebhookTest, ReviewsThatPassAnyhowLookNothingUp) {
  const std::string object =
      R"({"metadata":{"name":"slurm","namespace":"hpc"},"spec":{"configFileRefs":[{"name":"a"}],"clusterName":"x y"}})";
  EXPECT_TRUE(allowed(review(std::string(kController),
                             fmt::format(R"("operation":"UPDATE","object":{},"oldObject":{})", object, object))));
  EXPECT_TRUE(allowed(review(std::string(kController), fmt::format(R"("operation":"DELETE","oldObject":{})", object))));
  EXPECT_TRUE(allowed(
      review(std::string(kController),
             fmt::format(R"("operation":"UPDATE","subResource":"status","object":{},"oldObject":{{}})", object))));
  EXPECT_EQ(api.calls("", ""), 0U);
}

TEST_F(WebhookTest, ADeletionInTheForegroundEndsNoJobs) {
  const auto deleted = [&](std::string_view kind, std::string_view status, std::string_view options) {
    return review(
        fmt::format("/validate-slinky-slurm-net-v1beta1-{}", kind),
        fmt::format(
            R"("operation":"DELETE","object":null,"oldObject":{{"metadata":{{"name":"gpu"}},"status":{}}},"options":{})",
            status, options));
  };
  const std::string_view foreground = R"({"propagationPolicy":"Foreground"})";
  const json::Value answer = deleted("nodeset", R"({"slurmAllocated":2})", foreground);
  EXPECT_FALSE(allowed(answer));
  EXPECT_EQ(json::int_at(answer, {"response", "status", "code"}), 403);
  EXPECT_THAT(message(answer), StartsWith("NodeSet hpc/gpu: jobs run on 2 of its nodes, and a deletion in the "
                                          "foreground would end them at once; delete it in the background"));
  EXPECT_TRUE(allowed(deleted("nodeset", R"({"slurmAllocated":0,"slurmIdle":2})", foreground)));
  EXPECT_TRUE(allowed(deleted("nodeset", "{}", foreground)));
  // What was counted when Slurm was last known says nothing; but with the Controller gone for good nobody counts.
  const auto says = [](std::string_view reason) {
    return fmt::format(
        R"({{"replicas":2,"slurmAllocated":0,"conditions":[{{"type":"Ready","status":"False","reason":"{}"}}]}})",
        reason);
  };
  for (const std::string_view reason : {"SlurmUnknown", "BadSpec"}) {
    EXPECT_THAT(message(deleted("nodeset", says(reason), foreground)),
                StartsWith("NodeSet hpc/gpu: nobody knows whether jobs run on its nodes, and a deletion in the "
                           "foreground would end them at once; delete it in the background"));
    EXPECT_TRUE(allowed(deleted("nodeset", says(reason), R"({"propagationPolicy":"Background"})")));
  }
  for (const std::string_view reason : {"AsSpecified", "Waiting", "ControllerMissing"}) {
    EXPECT_TRUE(allowed(deleted("nodeset", says(reason), foreground))) << reason;
  }
  EXPECT_TRUE(allowed(
      deleted("nodeset", R"({"replicas":0,"conditions":[{"type":"Ready","status":"False","reason":"SlurmUnknown"}]})",
              foreground)))
      << "without pods there are no jobs";
  for (const std::string_view options : {R"({"propagationPolicy":"Background"})", R"({"propagationPolicy":"Orphan"})",
                                         R"({"orphanDependents":false})", "{}", "null"}) {
    EXPECT_TRUE(allowed(deleted("nodeset", R"({"slurmAllocated":2})", options))) << options;
  }
  EXPECT_TRUE(allowed(deleted("controller", R"({"slurmAllocated":2})", foreground)));
  EXPECT_TRUE(allowed(review("/validate-slinky-slurm-net-v1beta1-nodeset",
                             R"("operation":"DELETE","options":{"propagationPolicy":"Foreground"})")));
}

TEST_F(WebhookTest, SaysWhatItDoesNotUnderstand) {
  EXPECT_EQ(call("POST", "/other", "").status, 404);
  EXPECT_EQ(call("POST", "/validate-slinky-slurm-net-v1beta1-pod", "").status, 404);
  EXPECT_EQ(call("GET", std::string(kController), "").status, 405);
  for (
      const char* body :
      {"", "{", "null", "[]", "{}", "\xff", R"({"kind":"AdmissionReview"})",
       R"({"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","operation":"CREATE"}})"}) {
    const net::ServerResponse response = call("POST", std::string(kController), body);
    EXPECT_EQ(response.status, 400) << body;
    EXPECT_FALSE(response.body.empty());
  }
}

struct BindingTest : WebhookTest {
  json::Value bind(std::string_view node, std::string_view more = "", std::string_view pod = "gpu-0") {
    return review(
        std::string(kBindingPath),
        fmt::format(
            R"("operation":"CREATE","subResource":"binding","name":"{}",{}"object":{{"target":{{"name":"{}"}}}})", pod,
            more, node));
  }
  std::string topology() const {
    const auto pod = api.get(kube::resources::kPods, {"hpc", "gpu-0"});
    return std::string(json::string_at(*pod, {"metadata", "annotations", names::kTopologySpec}, "absent"));
  }
  void world(std::string_view app = "slurmd", std::string_view spec = "") {
    make(
        kube::resources::kPods,
        fmt::format(
            R"({{"metadata":{{"name":"gpu-0","namespace":"hpc","labels":{{"app.kubernetes.io/name":"{}"}}}},"spec":{{{}"containers":[{{"name":"c","image":"i"}}]}}}})",
            app, spec));
    make(
        kube::resources::kNodes,
        R"({"metadata":{"name":"n1","annotations":{"topology.slinky.slurm.net/spec":"topo-switch:s2,topo-block:b2"}}})");
    make(kube::resources::kNodes, R"({"metadata":{"name":"n2"}})");
  }
};

TEST_F(BindingTest, CopiesTheTopologyOnce) {  // A53
  world();
  EXPECT_TRUE(allowed(bind("n1")));
  EXPECT_EQ(topology(), "topo-switch:s2,topo-block:b2");
  EXPECT_TRUE(allowed(bind("n1")));
  EXPECT_EQ(api.write_calls(), 1U);
  EXPECT_TRUE(allowed(bind("n2")));
  EXPECT_EQ(topology(), "");
}

// Reviews are not signed: whoever reaches the port may send one.
TEST_F(BindingTest, LeavesAWorkerAloneThatIsBound) {
  world("slurmd", R"("nodeName":"n2",)");
  EXPECT_TRUE(allowed(bind("n1")));
  EXPECT_EQ(topology(), "absent");
  EXPECT_EQ(api.write_calls(), 0U);
}

TEST_F(BindingTest, TakesNoBindingOfMegabytes) {
  world();
  EXPECT_EQ(call("POST", std::string(kBindingPath), std::string(std::size_t{2} << 20, ' ')).status, 413);
}

TEST_F(BindingTest, LeavesOthersAlone) {
  world("web");
  EXPECT_TRUE(allowed(bind("n1")));
  EXPECT_TRUE(allowed(bind("n1", R"("dryRun":true,)")));
  EXPECT_TRUE(allowed(bind("n1", "", "gone")));  // A53
  EXPECT_TRUE(allowed(bind("nowhere")));
  EXPECT_EQ(topology(), "absent");
  EXPECT_EQ(api.write_calls(), 0U);
}

TEST_F(BindingTest, ADryRunWritesNothing) {
  world();
  EXPECT_TRUE(allowed(bind("n1", R"("dryRun":true,)")));
  EXPECT_TRUE(allowed(bind("nowhere")));
  EXPECT_EQ(topology(), "absent");
}

TEST_F(BindingTest, RefusesWhenItCannotBeCopied) {
  using bascule::testing::ApiCall;
  using bascule::testing::ApiFault;
  world();
  api.set_faults([](const ApiCall& call) {
    return call.is("patch", "pods") ? ApiFault{.kind = ApiFault::Kind::kStatus, .code = 403} : ApiFault{};
  });
  const json::Value answer = bind("n1");
  EXPECT_FALSE(allowed(answer));
  EXPECT_EQ(json::int_at(answer, {"response", "status", "code"}), 503);
  EXPECT_THAT(message(answer), StartsWith("pod hpc/gpu-0: the topology of its node cannot be copied"));
}

}  // namespace
}  // namespace bascule::op
