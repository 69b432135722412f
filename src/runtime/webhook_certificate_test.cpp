#include "runtime/webhook_certificate.hpp"

#include <gmock/gmock.h>

#include "base/log.hpp"
#include "base/manual_loop.hpp"
#include "net/loopback.hpp"
#include "runtime/webhook_certificate_test.hpp"

namespace bascule::runtime {
namespace {

using namespace std::chrono_literals;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr Duration kLife = std::chrono::days(6);

struct WebhookCertificateTest : ::testing::Test {
  ManualLoop loop;
  testing::FakeApi api{loop};
  std::unique_ptr<net::Transport> transport = net::make_loopback(loop, api.handler());
  kube::Client client{loop, *transport, {}};
  WebhookObjects objects{api};
  WebhookCertificate kept{client, objects.options(kLife)};
  Gate gate{loop};
  std::stop_source stop;

  void SetUp() override { loop.step_wall(std::chrono::hours(1)); }
  void TearDown() override {
    stop.request_stop();
    loop.advance(5s);
    EXPECT_EQ(gate.count(), 0u);
  }
  void start(const net::IssuedCertificate& one) {
    objects.create(one);
    start();
  }
  void start() {
    spawn(gate, kept.run(stop.get_token()));
    loop.advance(2s);
  }
  bool is_good() const {
    const std::string certificate = objects.secret("tls.crt");
    if (!net::key_belongs(certificate, objects.secret("tls.key"))) return false;
    for (const std::string& bundle : objects.bundles()) {
      if (bundle != objects.secret("ca.crt")) return false;
    }
    const auto authorities = net::certificates_in(objects.secret("ca.crt"));
    return std::ranges::any_of(authorities, [&](const auto& one) { return net::vouches(one, certificate); }) &&
           net::certificate_facts(certificate)->until > loop.wall() + kLife - std::chrono::hours(4);
  }
  std::vector<std::string> written() const {
    std::vector<std::string> out;
    for (const testing::ApiWrite& one : api.writes()) out.push_back(one.call.verb + " " + one.call.resource);
    return out;
  }
};

TEST_F(WebhookCertificateTest, AtRestItLooksOnceAnHourAndWritesNothing) {
  const auto one = objects.issue(kLife);
  start(one);
  loop.advance(std::chrono::hours(10));
  EXPECT_EQ(api.write_calls(), 0u);
  EXPECT_EQ(api.calls("get", "secrets"), 11u);
  EXPECT_EQ(api.calls(""), 33u);
  EXPECT_EQ(objects.secret("tls.crt"), one.certificate);
}

TEST_F(WebhookCertificateTest, RenewsWhenAThirdIsLeftAndForgetsTheOldAuthorityLater) {
  const auto one = objects.issue(kLife);
  start(one);
  loop.advance(std::chrono::days(4) - 1min);
  EXPECT_EQ(api.write_calls(), 0u);
  loop.advance(2min);
  EXPECT_TRUE(is_good());
  EXPECT_THAT(net::certificates_in(objects.secret("ca.crt")), SizeIs(2));
  EXPECT_THAT(objects.bundles(), Each(::testing::StartsWith(one.authority))) << "pods still serve the old one";
  EXPECT_THAT(written(), ElementsAre("patch mutatingwebhookconfigurations", "patch validatingwebhookconfigurations",
                                     "patch secrets", "create events"));
  const std::vector<json::Value> events = api.list(kube::resources::kEvents, "slinky");
  ASSERT_THAT(events, SizeIs(1));
  EXPECT_EQ(json::string_at(events[0], {"reason"}), "CertificateRenewed");
  EXPECT_EQ(json::string_at(events[0], {"regarding", "name"}), "hook");
  loop.advance(1h + 5min);
  EXPECT_TRUE(is_good());
  EXPECT_THAT(net::certificates_in(objects.secret("ca.crt")), SizeIs(1));
  api.reset_counts();
  loop.advance(std::chrono::hours(10));
  EXPECT_EQ(api.write_calls(), 0u);
}

TEST_F(WebhookCertificateTest, RestOfTheObjectsStaysAsItIs) {
  start(objects.issue(1h));
  loop.advance(std::chrono::minutes(50));
  EXPECT_TRUE(is_good());
  const json::Value hooks = *api.get(kMutatingHooks, {"", "hook"});
  for (const json::Value& hook : *json::array_at(hooks, {"webhooks"})) {
    EXPECT_EQ(json::string_at(hook, {"clientConfig", "service", "path"}), "/x");
    EXPECT_EQ(json::string_at(hook, {"sideEffects"}), "None");
  }
  EXPECT_EQ(json::string_at(*api.get(kube::resources::kSecrets, kHookSecret), {"type"}), "kubernetes.io/tls");
}

TEST_F(WebhookCertificateTest, WhatCannotBeUsedIsReplacedAtStart) {
  auto one = objects.issue(kLife);
  one.key = objects.issue(kLife).key;
  start(one);
  EXPECT_TRUE(is_good());
}

TEST_F(WebhookCertificateTest, OneThatNobodyInTheSecretVouchesForIsReplaced) {
  auto one = objects.issue(kLife);
  one.authority = objects.issue(kLife).authority;
  start(one);
  EXPECT_TRUE(is_good());
}

TEST_F(WebhookCertificateTest, GarbageIsReplaced) {
  objects.create({.authority = "Y2E=", .certificate = "x", .key = "y"});
  start();
  EXPECT_TRUE(is_good());
}

TEST_F(WebhookCertificateTest, ASecretThatSomebodyWroteIsSeenWhenItIsServed) {
  start(objects.issue(kLife));
  objects.put(objects.issue(10min));
  loop.advance(8min);
  EXPECT_EQ(api.write_calls(), 0u);
  kept.changed();
  loop.advance(1s);
  EXPECT_TRUE(is_good());
}

TEST_F(WebhookCertificateTest, AnAuthorityThatAnUpgradeTookBackIsTrustedAnewWithinAMinute) {
  start(objects.issue(1h));
  loop.advance(std::chrono::minutes(40) + 10s);
  ASSERT_TRUE(is_good());
  for (const auto* resource : {&kMutatingHooks, &kValidatingHooks}) {
    json::Value object = *api.get(*resource, {"", "hook"});
    for (json::Value& hook : object.at("webhooks").as_array()) hook.at("clientConfig").as_object().erase("caBundle");
    api.update(*resource, std::move(object));
  }
  loop.advance(1min);
  EXPECT_TRUE(is_good());
}

TEST_F(WebhookCertificateTest, AConfigurationThatIsNotThereIsPassedOver) {
  objects.create(objects.issue(10min));
  api.remove(kMutatingHooks, {"", "hook"});
  loop.advance(9min);
  start();
  EXPECT_TRUE(is_good());
  EXPECT_THAT(objects.bundles(), SizeIs(2));
}

TEST_F(WebhookCertificateTest, ARefusalIsSaidOnceAndTheOldOneServes) {
  const log::Capture log(log::Level::kInfo);
  bool refuses = true;
  api.set_faults([&](const testing::ApiCall& call) -> testing::ApiFault {
    if (!refuses || !call.is("patch", "secrets")) return {};
    return {.kind = testing::ApiFault::Kind::kStatus, .code = 403};
  });
  const auto one = objects.issue(kLife);
  start(one);
  loop.advance(std::chrono::days(4) + 10min);
  EXPECT_EQ(objects.secret("tls.crt"), one.certificate);
  EXPECT_THAT(net::certificates_in(objects.bundles().front()), SizeIs(2)) << "the same is tried again";
  EXPECT_EQ(log.count("cannot be looked after"), 1u);
  EXPECT_EQ(log.count("upgrade the chart"), 1u);
  refuses = false;
  loop.advance(2min);
  EXPECT_TRUE(is_good());
  EXPECT_EQ(log.count("the webhook's certificate is renewed"), 1u);
  EXPECT_EQ(log.count("is looked after again"), 1u);
}

TEST_F(WebhookCertificateTest, AnAnswerThatIsLostIsNoReasonForAnotherOne) {
  bool lost = false;
  api.set_faults([&](const testing::ApiCall& call) -> testing::ApiFault {
    if (!call.is("patch", "secrets") || std::exchange(lost, true)) return {};
    return {.kind = testing::ApiFault::Kind::kStatusAfter, .code = 500};
  });
  start(objects.issue(1h));
  loop.advance(std::chrono::minutes(40));
  const std::string made = objects.secret("tls.crt");
  EXPECT_TRUE(lost);
  loop.advance(std::chrono::hours(3));
  EXPECT_EQ(objects.secret("tls.crt"), made);
  EXPECT_TRUE(is_good());
}

TEST_F(WebhookCertificateTest, ASecretThatIsGoneIsSaid) {
  const log::Capture log(log::Level::kWarning);
  start();
  loop.advance(1h);
  EXPECT_EQ(log.count("the Secret is gone"), 1u);
}

TEST(ParseWebhookConfiguration, KindAndName) {
  const auto mutating = parse_webhook_configuration("mutating/a");
  ASSERT_TRUE(mutating);
  EXPECT_TRUE(mutating->mutating);
  EXPECT_EQ(mutating->name, "a");
  EXPECT_FALSE(parse_webhook_configuration("validating/b")->mutating);
  for (const char* text : {"", "a", "mutating/", "mutates/a"}) EXPECT_FALSE(parse_webhook_configuration(text)) << text;
}

}  // namespace
}  // namespace bascule::runtime
