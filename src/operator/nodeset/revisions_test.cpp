#include "operator/nodeset/revisions.hpp"

#include "operator/nodeset/test_support.hpp"

namespace bascule::op::nodeset {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> dropped(const Plan& plan) {
  std::vector<std::string> names;
  for (const DeleteRevision& what : all_of<DeleteRevision>(plan)) names.push_back(what.name);
  return names;
}

RevisionView revision(std::string hash, std::int64_t number, std::string data) {
  return {.name = "foo-" + hash, .hash_label = hash, .revision = number, .data = std::move(data), .created = kNow};
}

TEST(Revisions, HashesAsKubernetesDoes) {
  // FNV-1 of nothing is the offset basis 2166136261; each digit picks alphabet[character % 27].
  EXPECT_EQ(revision_hash("", std::nullopt), "65bb57b6b5");
  EXPECT_NE(revision_hash("a", 0), revision_hash("a", 1));
  EXPECT_EQ(revision_name(std::string(300, 'x'), "h").size(), 223 + 2);
}

TEST(Revisions, TheNewestEqualOneIsCurrentAndUpdate) {
  State state;
  state.spec.name = "foo";
  state.template_data = "same";
  state.revisions = {revision("a", 1, "same"), revision("b", 2, "same"), revision("c", 3, "same")};
  state.status.hash = "unknown";
  Plan plan;
  Revisions found = plan_revisions(state, plan);
  EXPECT_EQ(found.update_hash, "c");
  EXPECT_EQ(found.current_hash, "c");
  state.status.hash = "b";
  found = plan_revisions(state, plan);
  EXPECT_EQ(found.update_hash, "c");
  EXPECT_EQ(found.current_hash, "b");
  EXPECT_FALSE(found.collisions);
}

TEST(Revisions, W1_W2_RollBackReusesTheOldHashAndHistoryIsCut) {
  State state;
  state.spec.name = "foo";
  state.spec.history_limit = 1;
  state.template_data = "one";
  state.status.hash = "c";
  state.revisions = {revision("a", 1, "one"), revision("b", 2, "two"), revision("c", 3, "three"),
                     revision("d", 4, "four"), revision("e", 5, "five")};
  PodView pod;
  pod.hash_label = "b";
  state.pods = {pod};
  Plan plan;
  const Revisions found = plan_revisions(state, plan);
  EXPECT_EQ(found.update_hash, "a");
  EXPECT_EQ(found.current_hash, "c") << "status holds the hash, not the name";
  const auto patches = all_of<PatchRevision>(plan);
  ASSERT_EQ(patches.size(), 1);
  EXPECT_EQ(patches[0].name, "foo-a");
  EXPECT_EQ(patches[0].revision, 6);
  // a is wanted, b has a pod, c is current; of d and e one may stay.
  EXPECT_THAT(dropped(plan), ElementsAre("foo-d"));
}

// What makes a revision is known by its hash; the data has the NodeSet's own labels of its time beside.
TEST(Revisions, TheNodeSetsOwnMetadataMakesNone) {
  State state;
  state.spec.name = "foo";
  state.template_data = "one, label x";
  state.template_hash = "1";
  state.revisions = {revision("a", 1, "one, label x")};  // as an older version wrote it
  Plan first;
  EXPECT_EQ(plan_revisions(state, first).update_hash, "a");
  ASSERT_EQ(all_of<PatchRevision>(first).size(), 1);
  EXPECT_EQ(all_of<PatchRevision>(first)[0].template_hash, "1");
  state.revisions[0].template_hash = "1";
  state.template_data = "one, label y";
  Plan second;
  EXPECT_EQ(plan_revisions(state, second).update_hash, "a");
  EXPECT_TRUE(second.at_rest());
  state.template_hash.clear();  // the template cannot be made
  state.template_data = "one, label x";
  EXPECT_EQ(plan_revisions(state, second).update_hash, "a");
  EXPECT_TRUE(second.at_rest());
  state.template_hash = "2";
  state.template_data = "two, label y";
  Plan third;
  plan_revisions(state, third);
  EXPECT_EQ(all_of<CreateRevision>(third).size(), 1);
}

TEST(Revisions, OrphansAreAdoptedAndLabelledByTheirHash) {
  State state;
  state.spec.name = "foo";
  state.template_data = "one";
  state.revisions = {revision("a", 1, "one")};
  state.revisions[0].hash_label.reset();
  state.revisions[0].owner = Owner::kNone;
  Plan plan;
  EXPECT_EQ(plan_revisions(state, plan).update_hash, "a");
  const auto patches = all_of<PatchRevision>(plan);
  ASSERT_EQ(patches.size(), 1);
  EXPECT_TRUE(patches[0].adopt);
  EXPECT_EQ(patches[0].hash_label, "a");
  state.revisions[0].owner = Owner::kOther;
  Plan other;
  plan_revisions(state, other);
  EXPECT_THAT(all_of<PatchRevision>(other), IsEmpty());
}

TEST(Revisions, ACollisionIsCounted) {
  State state;
  state.spec.name = "foo";
  state.template_data = "new";
  const std::string taken = revision_hash("new", 0);
  state.revisions = {revision(taken, 1, "other data")};
  Plan plan;
  const Revisions found = plan_revisions(state, plan);
  EXPECT_EQ(found.collisions, 1);
  EXPECT_EQ(found.update_hash, revision_hash("new", 1));
  ASSERT_EQ(all_of<CreateRevision>(plan).size(), 1);
  EXPECT_EQ(all_of<CreateRevision>(plan)[0].revision, 2);
}

}  // namespace
}  // namespace bascule::op::nodeset
