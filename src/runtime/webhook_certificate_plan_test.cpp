#include "runtime/webhook_certificate_plan.hpp"

#include <gmock/gmock.h>

namespace bascule::runtime {
namespace {

using namespace std::chrono_literals;
using Step = CertificatePlan::Step;
using ::testing::HasSubstr;

const WallTime kNow = std::chrono::sys_days(std::chrono::year(2026) / 5 / 1);
constexpr auto kDay = std::chrono::days(1);

struct PlanCertificate : ::testing::Test {
  CertificateView view{
      .pair =
          CertificateView::Pair{
              .from = kNow - kDay, .until = kNow + 299 * kDay, .names = {"hook", "hook.svc"}, .authorities = {"old"}},
      .bundle = {"old"},
      .trusted = {{"old"}, {"old"}},
      .known = 2h};
  CertificatePlan plan(WallTime now = kNow) const { return plan_certificate(view, {"hook", "hook.svc"}, now); }
  void make_fresh(WallTime from = kNow) { view.fresh = CertificateView::Fresh{from, from + 365 * kDay, "new"}; }
  void end_soon() { view.pair->until = kNow + 1h; }
};

TEST_F(PlanCertificate, AGoodOneIsLeftAlone) {
  EXPECT_EQ(plan().step, Step::kRest);
  EXPECT_EQ(plan().rest, kLookAtCertificate);
}

TEST_F(PlanCertificate, IsRenewedWhenAThirdOfItsLifeIsLeft) {
  EXPECT_EQ(plan(kNow + 199 * kDay - 1s).step, Step::kRest);
  EXPECT_EQ(plan(kNow + 199 * kDay - 10min).rest, 10min) << "it looks when that is";
  EXPECT_EQ(plan(kNow + 199 * kDay).step, Step::kMake);
  EXPECT_THAT(plan(kNow + 199 * kDay).why, HasSubstr("it ends at 2027-02-24"));
  EXPECT_EQ(plan(kNow + 400 * kDay).step, Step::kMake);
}

TEST_F(PlanCertificate, IsRenewedWhenItCannotBeUsed) {
  view.pair.reset();
  view.fault = "it cannot be read";
  EXPECT_EQ(plan().step, Step::kMake);
  EXPECT_EQ(plan().why, "it cannot be read");
}

TEST_F(PlanCertificate, IsRenewedWhenItWasMadeByAClockThatWasAhead) {
  EXPECT_EQ(plan(kNow - kDay - 1h).step, Step::kRest) << "clocks differ a little";
  EXPECT_EQ(plan(kNow - 30 * kDay).why, "it is not good yet");
  EXPECT_EQ(plan(kNow - 300 * kDay).step, Step::kRest) << "ours is behind";
}

TEST_F(PlanCertificate, IsRenewedWhenANeededNameIsMissing) {
  view.pair->names = {"hook", "other.svc"};
  EXPECT_EQ(plan().step, Step::kMake);
  EXPECT_EQ(plan().why, "it does not name hook.svc");
}

TEST_F(PlanCertificate, TheNewOneIsTrustedByAllBeforeItIsWritten) {
  end_soon();
  make_fresh();
  EXPECT_EQ(plan().step, Step::kTrust);
  EXPECT_EQ(plan().bundle, (Bundle{"old", "new"}));
  view.trusted[0] = plan().bundle;
  EXPECT_EQ(plan().step, Step::kTrust);
  view.trusted[1] = plan().bundle;
  EXPECT_EQ(plan().step, Step::kWrite);
  EXPECT_EQ(plan().bundle, (Bundle{"old", "new"}));
}

TEST_F(PlanCertificate, WhatTheSecretSaysIsTrustedBeforeAnythingIsWritten) {
  end_soon();
  make_fresh();
  view.trusted = {{"new"}, {"new", "old"}};
  EXPECT_EQ(plan().step, Step::kTrust);
}

TEST_F(PlanCertificate, WithoutConfigurationsTheSecretIsRenewedAllTheSame) {
  end_soon();
  make_fresh();
  view.trusted.clear();
  EXPECT_EQ(plan().step, Step::kWrite);
}

TEST_F(PlanCertificate, AFreshOneThatHasWaitedTooLongIsMadeAnew) {
  end_soon();
  make_fresh(kNow - 300 * kDay);
  EXPECT_EQ(plan().step, Step::kMake);
}

TEST_F(PlanCertificate, WhoLosesTheRaceTakesTheOthers) {
  make_fresh();
  view.trusted = {{"old", "new"}, {"old", "new"}};
  view.known = 0s;
  EXPECT_EQ(plan().step, Step::kRest) << "the Secret is good again";
}

TEST_F(PlanCertificate, OldAuthoritiesAreDroppedWhenAllServeTheNewOne) {
  view.bundle = {"older", "old"};
  view.trusted = {{"older", "lost", "old"}, {"older", "old"}};
  view.known = 40min;
  EXPECT_EQ(plan().step, Step::kRest);
  EXPECT_EQ(plan().rest, 20min);
  view.known = 1h;
  EXPECT_EQ(plan().step, Step::kShorten);
  EXPECT_EQ(plan().bundle, Bundle{"old"});
  view.bundle = plan().bundle;
  EXPECT_EQ(plan().step, Step::kTrust);
  EXPECT_EQ(plan().bundle, Bundle{"old"});
}

TEST_F(PlanCertificate, NothingIsDroppedWhenARenewalIsNear) {
  view.trusted = {{"old", "others"}, {"old"}};
  EXPECT_EQ(plan(kNow + 199 * kDay - 30min).step, Step::kRest) << "another process may be at it by its clock";
  EXPECT_EQ(plan(kNow + 199 * kDay - 2h).step, Step::kTrust);
}

TEST_F(PlanCertificate, WhatIsServedIsTrustedAnewAfterSomebodyTookThatBack) {
  view.bundle = {"older", "old"};
  view.trusted = {{"older"}, {"older", "old"}};
  view.known = 0s;
  EXPECT_EQ(plan().step, Step::kTrust);
  EXPECT_EQ(plan().bundle, (Bundle{"older", "old"}));
}

}  // namespace
}  // namespace bascule::runtime
