#include "operator/nodeset/claims.hpp"

#include "operator/nodeset/test_support.hpp"

namespace bascule::op::nodeset {
namespace {

using Kind = OwnerView::Kind;

struct Claims : testing::Test {
  Spec spec;
  PodView pod;
  ClaimView claim;
  const OwnerView by_pod{Kind::kPod, "foo-0", Uid("pod"), true};
  const OwnerView by_set{Kind::kNodeSet, "foo", Uid("set"), true};
  const OwnerView custom{Kind::kOther, "backup", Uid("other"), true};
  const OwnerView watcher{Kind::kOther, "watcher", Uid("other"), false};
  Claims() {
    spec.name = "foo";
    spec.uid = Uid("set");
    pod.name = "foo-0";
    pod.uid = Uid("pod");
    claim.name = "data-foo-0";
  }
  void policy(Retention scaled, Retention deleted) {
    spec.when_scaled = scaled;
    spec.when_deleted = deleted;
  }
  std::string fixed(bool scaled_in, std::vector<OwnerView> owners) {
    claim.owners = std::move(owners);
    const auto fix = fix_owners(spec, claim, pod, scaled_in);
    if (!fix) return "right";
    return fmt::format("{}{}{}", fix->patch.pod_owner ? "pod" : "", fix->patch.nodeset_owner ? "set" : "",
                       fix->conflict ? "conflict" : "");
  }
};

TEST_F(Claims, PolicyTable) {
  constexpr auto kKeep = Retention::kRetain;
  constexpr auto kGo = Retention::kDelete;
  struct Row {
    Retention scaled, deleted;
    bool scaled_in, pod, set;
  };
  const Row rows[] = {{kKeep, kKeep, false, false, false}, {kKeep, kKeep, true, false, false},
                      {kKeep, kGo, false, false, true},    {kKeep, kGo, true, false, true},
                      {kGo, kKeep, false, false, false},   {kGo, kKeep, true, true, false},
                      {kGo, kGo, false, false, true},      {kGo, kGo, true, true, false}};
  for (const Row& row : rows) {
    policy(row.scaled, row.deleted);
    EXPECT_EQ(wanted_owners(spec, row.scaled_in), (ClaimOwners{row.pod, row.set}));
    for (const bool has_pod : {false, true}) {
      for (const bool has_set : {false, true}) {
        std::vector<OwnerView> owners{watcher};
        if (has_pod) owners.push_back(by_pod);
        if (has_set) owners.push_back(by_set);
        const bool right = has_pod == row.pod && has_set == row.set;
        const std::string wanted = right ? "right" : fmt::format("{}{}", row.pod ? "pod" : "", row.set ? "set" : "");
        EXPECT_EQ(fixed(row.scaled_in, owners), wanted);
      }
    }
  }
}

TEST_F(Claims, OddOwners) {
  policy(Retention::kRetain, Retention::kDelete);
  OwnerView weak = by_set;
  weak.controller = false;
  EXPECT_EQ(fixed(false, {weak}), "set") << "ours has to be the controller";
  OwnerView stale = by_set;
  stale.uid = Uid("an earlier NodeSet");
  EXPECT_EQ(fixed(false, {stale}), "right") << "of an earlier NodeSet: garbage collection takes it";
  EXPECT_EQ(fixed(false, {custom}), "right") << "somebody else's claim";
  EXPECT_EQ(fixed(false, {custom, by_set}), "conflict");
  policy(Retention::kRetain, Retention::kRetain);
  EXPECT_EQ(fixed(false, {custom, by_set}), "") << "no policy, no conflict";
}

TEST_F(Claims, ClaimsThatGoBlockTheirSuccessors) {
  EXPECT_FALSE(claim_blocks(claim, "foo-0"));
  claim.owners = {by_pod};
  EXPECT_TRUE(claim_blocks(claim, "foo-0")) << "goes with an earlier foo-0";
  claim.owners = {by_pod, watcher};
  EXPECT_FALSE(claim_blocks(claim, "foo-0"));
  claim.owners = {by_set};
  EXPECT_FALSE(claim_blocks(claim, "foo-0"));
  claim.deleting = true;
  EXPECT_TRUE(claim_blocks(claim, "foo-0"));
}

}  // namespace
}  // namespace bascule::op::nodeset
