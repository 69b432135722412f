// Clients of Slurm clusters come, change and go with their objects; one that is dead holds up nobody.
#include "operator/clusters/clusters.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/base64.hpp"
#include "json/yaml.hpp"
#include "net/loopback.hpp"
#include "operator/api/resources.hpp"
#include "testing/fake_api.hpp"
#include "testing/fake_slurm.hpp"
#include "testing/run.hpp"

namespace bascule::op {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using Dynamic = kube::Informer<kube::DynamicObject>;

class SlurmClustersTest : public ::testing::Test {
 public:
  SlurmClustersTest() {
    api_.add_resource(kControllers);
    api_.add_resource(kRestApis);
    for (Dynamic* one : {&controllers_, &restapis_, &secrets_}) one->start();
    for (Dynamic* one : {&controllers_, &restapis_, &secrets_}) {
      bascule::testing::run(loop_, one->wait_synced({}, TimePoint::max()));
    }
    clusters_.listen({.on_cluster = [this](const NamespacedName& key) { ++told_[key.name]; },
                      .on_node = [this](const NamespacedName& key,
                                        const slurm::ClusterMirror::NodeChange&) { ++nodes_[key.name]; }});
    clusters_.start();
  }
  ~SlurmClustersTest() override {
    bascule::testing::run(loop_, clusters_.stop());
    for (Dynamic* one : {&controllers_, &restapis_, &secrets_}) bascule::testing::run(loop_, one->stop());
  }

 protected:
  void make(const kube::Resource& resource, const std::string& name, std::string_view yaml) {
    json::Value value = json::parse_yaml(yaml);
    json::at_or_create(value, {"apiVersion"}) = resource.api_version();
    json::at_or_create(value, {"kind"}) = resource.kind;
    json::at_or_create(value, {"metadata", "name"}) = name;
    json::at_or_create(value, {"metadata", "namespace"}) = "slurm";
    api_.create(resource, std::move(value));
  }
  void make_controller(const std::string& name) {
    make(kControllers, name, "{spec: {slurmKeyRef: {name: s, key: k}, jwtKeyRef: {name: " + name + "-jwt, key: k}}}");
  }
  void make_restapi(const std::string& name, const std::string& controller) {
    make(kRestApis, name, "{spec: {controllerRef: {name: " + controller + "}}}");
  }
  void make_key(const std::string& controller, std::string_view key) {
    make(kube::resources::kSecrets, controller + "-jwt", "{data: {k: " + base64_encode(key) + "}}");
  }
  void make_all(const std::string& name) {
    make_key(name, "key of " + name);
    make_controller(name);
    make_restapi(name, name);
    loop_.advance(5s);
  }
  // "1", "0", or empty: there is no such series.
  std::string up(const std::string& name) {
    const std::string text = metrics_.text();
    const std::string series = "bascule_slurm_cluster_up{controller=\"" + name + "\",namespace=\"slurm\"} ";
    const std::size_t at = text.find(series);
    return at == std::string::npos ? "" : text.substr(at + series.size(), 1);
  }
  ClusterPtr find(const std::string& name) { return clusters_.find({"slurm", name}); }
  bascule::testing::FakeSlurm& slurm(const std::string& name) {
    auto& fake = slurms_["http://" + name + "-restapi.slurm:6820"];
    if (!fake) {
      fake = std::make_unique<bascule::testing::FakeSlurm>(
          loop_, bascule::testing::FakeSlurmOptions{.accepts = [this](std::string_view token) {
            tokens_.emplace_back(token);
            return true;
          }});
    }
    return *fake;
  }

  ManualLoop loop_;
  bascule::testing::FakeApi api_{loop_};
  std::map<std::string, std::unique_ptr<bascule::testing::FakeSlurm>> slurms_;
  std::vector<std::string> tokens_, dialled_;
  std::unique_ptr<net::Transport> to_api_ = net::make_loopback(loop_, api_.handler());
  kube::Client kube_{loop_, *to_api_, {}};
  json::Interner interner_;
  Dynamic controllers_{kube_, {.resource = kControllers, .seed = 1}, kube::decode_dynamic, interner_};
  Dynamic restapis_{kube_, {.resource = kRestApis, .seed = 1}, kube::decode_dynamic, interner_};
  Dynamic secrets_{kube_, {.resource = kube::resources::kSecrets, .seed = 1}, kube::decode_dynamic, interner_};
  std::map<std::string, int> told_, nodes_;
  runtime::Metrics metrics_;
  SlurmClusters clusters_{{.loop = loop_,
                           .controllers = controllers_,
                           .restapis = restapis_,
                           .secrets = secrets_,
                           .connect =
                               [this](const std::string& url) {
                                 dialled_.push_back(url);
                                 const std::string name = url.substr(7, url.find("-restapi") - 7);
                                 return net::make_loopback(loop_, slurm(name).handler());
                               },
                           .metrics = &metrics_},
                          {}};
};

TEST_F(SlurmClustersTest, ComesWithItsRestApiAndGoesWithIt) {
  make_key("a", "key");
  make_controller("a");
  loop_.advance(5s);
  EXPECT_EQ(find("a"), nullptr);
  EXPECT_THAT(clusters_.why_none({"slurm", "a"}), HasSubstr("no RestApi refers to Controller slurm/a"));
  slurm("a").add_nodes("NodeName=n1 NodeAddr=n1 CPUs=4");
  make_restapi("a", "a");
  loop_.advance(15s);
  ASSERT_NE(find("a"), nullptr);
  EXPECT_TRUE(find("a")->known()) << find("a")->why_unknown();
  EXPECT_NE(find("a")->mirror().node("n1"), nullptr);
  EXPECT_EQ(nodes_["a"], 1);
  api_.remove(kRestApis, {"slurm", "a"});
  loop_.advance(1s);
  EXPECT_EQ(find("a"), nullptr);
}

TEST_F(SlurmClustersTest, GoesWithItsController) {
  make_all("a");
  ASSERT_NE(find("a"), nullptr);
  const ClusterPtr held = find("a");  // somebody is in the middle of something
  api_.remove(kControllers, {"slurm", "a"});
  loop_.advance(1s);
  EXPECT_EQ(find("a"), nullptr);
  EXPECT_TRUE(bascule::testing::run(loop_, held->client().ping()));
}

TEST_F(SlurmClustersTest, ANewKeyMakesANewClient) {
  make_all("a");
  const ClusterPtr before = find("a");
  ASSERT_TRUE(before);
  const std::string old_token = tokens_.back();
  api_.patch(kube::resources::kSecrets, {"slurm", "a-jwt"},
             json::Object{{"data", json::Object{{"k", base64_encode("another")}}}});
  loop_.advance(5s);
  ASSERT_TRUE(find("a"));
  EXPECT_NE(find("a"), before);
  EXPECT_NE(tokens_.back(), old_token);
  EXPECT_TRUE(find("a")->known());
}

TEST_F(SlurmClustersTest, AMissingKeyLeavesTheClientThatWorks) {
  make_all("a");
  const ClusterPtr before = find("a");
  api_.remove(kube::resources::kSecrets, {"slurm", "a-jwt"});
  loop_.advance(1min);
  EXPECT_EQ(find("a"), before);
  make_controller("b");
  make_restapi("b", "b");
  loop_.advance(5s);
  EXPECT_EQ(find("b"), nullptr);
  EXPECT_THAT(clusters_.why_none({"slurm", "b"}), HasSubstr("Secret slurm/b-jwt"));
  make_key("b", "key");
  loop_.advance(5s);
  EXPECT_NE(find("b"), nullptr);
}

TEST_F(SlurmClustersTest, TheOldestRestApiCountsAndItsPort) {
  make_key("a", "key");
  make_controller("a");
  make_restapi("z", "a");
  loop_.advance(5s);
  make_restapi("b", "a");
  loop_.advance(5s);
  ASSERT_TRUE(find("a"));
  EXPECT_EQ(find("a")->url(), "http://z-restapi.slurm:6820");
  api_.patch(kRestApis, {"slurm", "z"}, json::parse_yaml("{spec: {service: {port: 7000}}}"));
  loop_.advance(5s);
  EXPECT_EQ(find("a")->url(), "http://z-restapi.slurm:7000");
  api_.remove(kRestApis, {"slurm", "z"});
  loop_.advance(5s);
  EXPECT_EQ(find("a")->url(), "http://b-restapi.slurm:6820");
  EXPECT_EQ(dialled_.size(), 3u);
}

TEST_F(SlurmClustersTest, AtRestNothingIsMadeAnew) {
  make_all("a");
  const ClusterPtr before = find("a");
  for (int i = 0; i < 3; ++i) {
    api_.patch(kControllers, {"slurm", "a"},
               json::Object{{"metadata", json::Object{{"labels", json::Object{{"i", std::to_string(i)}}}}}});
    loop_.advance(20min);
  }
  EXPECT_EQ(find("a"), before);
  EXPECT_TRUE(before->known()) << "tokens are renewed without a new client";
}

// A slurmrestd that never answers: others are known, and it is let go at once.
TEST_F(SlurmClustersTest, ADeadClusterHoldsUpNobody) {
  slurm("dead").set_faults([](const net::ServerRequest&) {
    return bascule::testing::FakeSlurmFault{.kind = bascule::testing::FakeSlurmFault::Kind::kSilence};
  });
  make_all("dead");
  const TimePoint begin = loop_.now();
  make_all("a");
  ASSERT_TRUE(find("a"));
  EXPECT_TRUE(find("a")->known());
  ASSERT_TRUE(find("dead"));
  EXPECT_FALSE(find("dead")->known());
  EXPECT_LE(loop_.now() - begin, 6s);
  loop_.advance(2min);
  EXPECT_FALSE(find("dead")->why_unknown().empty());
  api_.remove(kControllers, {"slurm", "dead"});
  loop_.advance(100ms);
  EXPECT_EQ(find("dead"), nullptr);
  EXPECT_TRUE(find("a")->known());
}

TEST_F(SlurmClustersTest, ItsListenersHearUpAndDown) {
  make_all("a");
  const int before = told_["a"];
  slurm("a").stop_controller();
  loop_.advance(1min);
  EXPECT_GT(told_["a"], before);
  EXPECT_FALSE(find("a")->known());
  slurm("a").start_controller();
  loop_.advance(1min);
  EXPECT_TRUE(find("a")->known());
}

// What is looked for and not there must not be missing among what is up.
TEST_F(SlurmClustersTest, TheMetricIsZeroUntilSlurmAnswersAndGoesWithItsController) {
  make_key("a", "key");
  make_controller("a");
  loop_.advance(1s);
  EXPECT_EQ(up("a"), "0") << "no RestApi leads to it";
  slurm("a").stop_controller();
  make_restapi("a", "a");
  loop_.advance(10s);
  EXPECT_EQ(up("a"), "0");
  slurm("a").start_controller();
  loop_.advance(1min);
  EXPECT_EQ(up("a"), "1");
  api_.patch(kControllers, {"slurm", "a"},
             json::Object{{"metadata", json::Object{{"labels", json::Object{{"touched", "yes"}}}}}});
  loop_.advance(1s);
  EXPECT_EQ(up("a"), "1");
  api_.remove(kRestApis, {"slurm", "a"});
  loop_.advance(1s);
  EXPECT_EQ(up("a"), "0");
  api_.remove(kControllers, {"slurm", "a"});
  loop_.advance(1s);
  EXPECT_EQ(up("a"), "");
}

TEST_F(SlurmClustersTest, ShowsForHowLongItsTokenIsGood) {
  make_all("a");
  const auto left = [this] {
    const std::string text = metrics_.text();
    const std::string series = R"(bascule_slurm_token_expiry_seconds{controller="a",namespace="slurm"} )";
    const std::size_t at = text.find(series);
    return at == std::string::npos ? -1 : std::stod(text.substr(at + series.size()));
  };
  EXPECT_NEAR(left(), 15 * 60, 10);
  loop_.advance(6min);
  EXPECT_NEAR(left(), 9 * 60, 10);
  loop_.advance(3min);
  EXPECT_GT(left(), 12 * 60) << "made anew";
  api_.remove(kRestApis, {"slurm", "a"});
  loop_.advance(1s);
  EXPECT_EQ(left(), -1);
}

}  // namespace
}  // namespace bascule::op
