#include "bridge/group_status.hpp"

#include <gtest/gtest.h>

#include "net/loopback.hpp"
#include "testing/fake_api.hpp"
#include "testing/run.hpp"

namespace bascule::bridge {
namespace {

PodPtr pod(bool bound, kube::PodPhase phase = kube::PodPhase::kPending) {
  static json::Interner interner;
  auto out = std::make_shared<kube::Pod>();
  if (bound) out->node_name = interner("n1");
  out->phase = phase;
  return out;
}

TEST(GroupScheduled, WhenEveryLiveMemberHasItsNode) {
  EXPECT_EQ(group_scheduled({}), std::nullopt);
  EXPECT_EQ(group_scheduled({pod(true, kube::PodPhase::kSucceeded)}), std::nullopt);
  EXPECT_EQ(group_scheduled({pod(true), pod(false)}), false);
  EXPECT_EQ(group_scheduled({pod(true), pod(true)}), true);
  EXPECT_EQ(group_scheduled({pod(true), pod(false, kube::PodPhase::kFailed)}), true);
}

// W31: the condition returns to False; and it is written only when it changes.
TEST(GroupStatus, SaysTrueThenFalseAndNothingInBetween) {
  ManualLoop loop;
  testing::FakeApi api(loop, {});
  const auto transport = net::make_loopback(loop, api.handler());
  kube::Client client(loop, *transport, {});
  const kube::Resource& groups = resource_of(GroupKind::kWorkload);
  api.create(groups, json::Object{{"apiVersion", groups.api_version()},
                                  {"kind", "PodGroup"},
                                  {"metadata", json::Object{{"name", "g"}, {"namespace", "ns"}}}});
  GroupStatus status(client, "bridge");
  const Group group{GroupKind::kWorkload, {"ns", "g"}, Uid("scheduling.k8s.io/ns/g")};
  const auto tell = [&](std::vector<PodPtr> pods) { testing::run(loop, status.tell(group, std::move(pods), {})); };
  const auto said = [&] { return json::dump(*api.get(groups, {"ns", "g"})); };
  tell({pod(false)});
  EXPECT_EQ(api.write_calls(), 0u) << "no word about a group that never was scheduled";
  tell({pod(true)});
  EXPECT_NE(said().find(R"("status":"True")"), std::string::npos) << said();
  EXPECT_NE(said().find("Pod group admitted by bridge"), std::string::npos) << said();
  tell({pod(true)});
  EXPECT_EQ(api.write_calls(), 1u);
  tell({pod(true), pod(false)});
  EXPECT_NE(said().find(R"("status":"False")"), std::string::npos) << said();
  EXPECT_EQ(api.write_calls(), 2u);
}

}  // namespace
}  // namespace bascule::bridge
