#include "bridge/device_ledger.hpp"

#include <gtest/gtest.h>

#include "bridge/names.hpp"

namespace bascule::bridge {
namespace {

const DeviceId kGpu{"gpu.example.com", "n1-pool", "gpu-3"};
const DeviceId kOther{"gpu.example.com", "n1-pool", "gpu-4"};

struct Ledger : ::testing::Test {
  json::Interner interner;
  DeviceLedger ledger{"slurm-bridge-scheduler"};

  static kube::Pod pod(const std::string& ns, const std::string& uid) {
    kube::Pod out;
    out.meta.key = {ns, "p"};
    out.meta.uid = Uid(uid);
    return out;
  }
  // As anybody who may write claims in `ns` can make it.
  ClaimPtr claim(const std::string& ns, const std::string& name, const std::string& pod_uid, const DeviceId& device) {
    auto out = std::make_shared<ResourceClaim>();
    out->meta.key = {ns, name};
    out->meta.annotations = {{interner(names::kClaimedBy), interner("slurm-bridge-scheduler")}};
    out->pod = Uid(pod_uid);
    out->pod_name = "p";
    out->allocated = true;
    out->devices = {device};
    return out;
  }
};

// UIDs are no secret: the owner of a claim is what its writer says, and he may write in his own namespaces only.
TEST_F(Ledger, AClaimOfAnotherNamespaceIsNoPodsOwn) {
  const kube::Pod victim = pod("team", "u1");
  const ClaimPtr forged = claim("aaa", "forged", "u1", kGpu);
  ledger.on_claim(nullptr, forged);
  EXPECT_EQ(ledger.holder(kGpu, victim), "claim aaa/forged");
  EXPECT_EQ(ledger.claim_of(victim), nullptr);
  const ClaimPtr own = claim("team", "own", "u1", kOther);
  ledger.on_claim(nullptr, own);
  EXPECT_EQ(ledger.claim_of(victim), own) << "and not the first by name";
  EXPECT_EQ(ledger.holder(kOther, victim), "");
  EXPECT_EQ(ledger.holder(kOther, pod("aaa", "u1")), "claim team/own");
  ledger.on_claim(own, nullptr);
  EXPECT_EQ(ledger.claim_of(victim), nullptr);
}

TEST_F(Ledger, AClaimOfAnotherNamespaceDoesNotShowWhatIsBeingWritten) {
  const kube::Pod writing = pod("team", "u1");
  const kube::Pod beside = pod("team", "u2");
  ledger.assume(writing, {kGpu});
  const ClaimPtr forged = claim("aaa", "forged", "u1", kGpu);
  ledger.on_claim(nullptr, forged);
  ledger.on_claim(forged, nullptr);
  EXPECT_EQ(ledger.holder(kGpu, beside), "a claim that is being written");
  const ClaimPtr own = claim("team", "own", "u1", kGpu);
  ledger.on_claim(nullptr, own);
  ledger.on_claim(own, nullptr);
  EXPECT_EQ(ledger.holder(kGpu, beside), "") << "it was seen, and it has gone";
}

TEST_F(Ledger, WhatIsBeingWrittenIsTheLatest) {
  const kube::Pod writing = pod("team", "u1");
  const kube::Pod beside = pod("team", "u2");
  ledger.assume(writing, {kGpu});
  ledger.assume(writing, {kOther, kOther});
  EXPECT_EQ(ledger.holder(kGpu, beside), "");
  EXPECT_EQ(ledger.holder(kOther, beside), "a claim that is being written");
  EXPECT_EQ(ledger.holder(kOther, writing), "");
  ledger.assume(beside, {kOther});
  ledger.forget(writing.meta.uid);
  EXPECT_EQ(ledger.holder(kOther, writing), "a claim that is being written");
  ledger.forget(beside.meta.uid);
  ledger.forget(beside.meta.uid);
  EXPECT_EQ(ledger.holder(kOther, writing), "");
}

}  // namespace
}  // namespace bascule::bridge
