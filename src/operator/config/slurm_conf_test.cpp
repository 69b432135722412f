#include "operator/config/slurm_conf.hpp"

#include <gtest/gtest.h>

#include "operator/config/golden_test.hpp"
#include "operator/config/sample_test.hpp"
#include "operator/config/slurmdbd_conf.hpp"

namespace bascule::op {
namespace {

using test::accounting;
using test::controller;
using test::expect_golden;
using test::node_set;

constexpr std::string_view kEverything = R"(
ha: {enabled: true, backups: 1}
persistence: {existingClaim: state}
jwksKeyRef: {name: jwks, key: jwks.json}
accountingRef: {name: slurm}
metrics: {enabled: true}
service: {port: 7000}
extraConf: |
  MinJobAge=2
  SlurmctldParameters=cloud_dns,Reconfig_On_Restart
prologScriptRefs: [{name: p2}, {name: p1}]
epilogScriptRefs: [{name: e}]
prologSlurmctldScriptRefs: [{name: pc}]
epilogSlurmctldScriptRefs: [{name: ec}]
configFileRefs: [{name: extra}]
)";

ConfigMaps scripts() {
  return {{"p1", {{{"prolog-b.sh", "#!/bin/sh\n"}}, {}}},   {"p2", {{{"prolog-a.sh", "#!/bin/sh\n"}}, {}}},
          {"e", {{{"epilog.sh", "#!/bin/sh\n"}}, {}}},      {"pc", {{{"prolog-ctl.sh", "#!/bin/sh\n"}}, {}}},
          {"ec", {{{"epilog-ctl.sh", "#!/bin/sh\n"}}, {}}}, {"extra", {{{"gres.conf", "AutoDetect=nvidia\n"}}, {}}}};
}

TEST(SlurmConfTest, Minimal) {
  expect_golden("config/testdata/slurm_conf_minimal.golden", slurm_conf({.controller = controller()}, {}));
}

TEST(SlurmConfTest, Everything) {
  const Controller ctl = controller(kEverything);
  const Accounting acct = accounting();
  const std::vector<NodeSet> sets{node_set("gpu", "partition: {enabled: true, config: State=UP MaxTime=UNLIMITED}"),
                                  node_set("cpu", "{template: {spec: {hostname: c-}}, partition: {enabled: true}}"),
                                  node_set("big", "partition: {enabled: false, config: State=UP}")};
  const FilePlan files = plan_files(ctl, scripts());
  EXPECT_TRUE(files.faults.empty());
  const std::string conf = slurm_conf({ctl, &acct, sets}, files);
  expect_golden("config/testdata/slurm_conf_everything.golden", conf);
  const std::vector<NodeSet> other_order{sets[2], sets[0], sets[1]};
  EXPECT_EQ(slurm_conf({ctl, &acct, other_order}, files), conf);
}

TEST(SlurmConfTest, External) {
  const Controller ctl =
      controller("{external: true, externalConfig: {host: my-controller, port: 6817}, extraConf: A=b, clusterName: c}");
  const Accounting acct = accounting();
  const std::vector<NodeSet> sets{node_set("gpu", "partition: {enabled: true, config: State=UP}")};
  expect_golden("config/testdata/slurm_conf_external.golden", slurm_conf({ctl, &acct, sets}, {}));
  // A3: its administrator must be told these.
  EXPECT_EQ(node_set_lines({ctl, &acct, sets}), "NodeSet=gpu Feature=gpu\nPartitionName=gpu Nodes=gpu State=UP\n");
  EXPECT_TRUE(slurm_conf({.controller = ctl}, {}).contains("AccountingStorageType=accounting_storage/none\n"));
}

TEST(SlurmConfTest, ExternalAccountingIsUsed) {
  // A1.
  const Accounting acct = accounting("{external: true, externalConfig: {host: dbd.example.com, port: 7001}}");
  const std::string conf = slurm_conf({controller(), &acct, {}}, {});
  EXPECT_TRUE(conf.contains("AccountingStorageHost=dbd.example.com\nAccountingStoragePort=7001\n"));
}

TEST(SlurmConfTest, NodeSetsOfOthersDoNotCount) {
  NodeSet other = node_set("other");
  other.controller = "elsewhere";
  NodeSet far = node_set("far");
  far.meta.ns = "elsewhere";
  const std::vector<NodeSet> sets{other, far};
  EXPECT_FALSE(slurm_conf({controller(), nullptr, sets}, {}).contains("NODESET"));
}

TEST(SlurmConfTest, PartitionStaysOnItsLine) {
  NodeSet set = node_set("a");
  set.partition = true;
  set.partition_config = "State=UP\nSlurmUser=root";
  const std::vector<NodeSet> sets{set};
  EXPECT_EQ(node_set_lines({controller(), nullptr, sets}), "NodeSet=a Feature=a\nPartitionName=a Nodes=a State=UP\n");
}

TEST(SlurmConfTest, NodeSetsWithOneSlurmNameMakeOneNodeSet) {
  const std::vector<NodeSet> sets{node_set("a", "template: {spec: {hostname: x-}}"),
                                  node_set("b", "template: {spec: {hostname: x}}")};
  EXPECT_EQ(node_set_lines({controller(), nullptr, sets}), "NodeSet=x Feature=x\n");
}

TEST(SlurmConfTest, RoomForNodesGrows) {
  // A11.
  const auto room = [](std::string_view spec) {
    const std::vector<NodeSet> sets{node_set("a", spec)};
    return max_node_count({controller(), nullptr, sets});
  };
  EXPECT_EQ(room("replicas: 512"), 1024);
  EXPECT_EQ(room("replicas: 513"), 2048);
  EXPECT_EQ(room("replicas: 2000000000"), 65536);
  EXPECT_EQ(room("{replicas: 5000, scalingMode: DaemonSet}"), 1024);
}

TEST(SlurmConfTest, APartitionGoesOnInNoOtherLine) {
  const std::vector<NodeSet> sets{node_set("a", R"({partition: {enabled: true, config: "State=UP \\ "}})"),
                                  node_set("b", "{}")};
  EXPECT_EQ(node_set_lines({controller(), nullptr, sets}),
            "NodeSet=a Feature=a\nPartitionName=a Nodes=a State=UP\nNodeSet=b Feature=b\n");
}

// slurmctld forgets nodes beyond it, and the jobs on them with it.
TEST(SlurmConfTest, RoomForNodesNeverShrinks) {
  std::vector<NodeSet> sets{node_set("a", "replicas: 400")};
  sets[0].status = json::parse_yaml("{desired: 400, replicas: 1200}");
  EXPECT_EQ(max_node_count({controller(), nullptr, sets}), 4096) << "800 wait for their jobs";
  sets[0].status = json::parse_yaml("{desired: 400, replicas: 400}");
  EXPECT_EQ(max_node_count({controller(), nullptr, sets}), 1024);
  const std::int64_t room = room_in("ClusterName=x\nMaxNodeCount=4096\nSlurmUser=slurm\n");
  EXPECT_EQ(max_node_count({.controller = controller(), .node_sets = sets, .room = room}), 4096);
  EXPECT_EQ(max_node_count({.controller = controller(), .node_sets = sets, .room = 1 << 30}), 65536);
  EXPECT_EQ(room_in("ClusterName=x\n") + room_in("\nMaxNodeCount=x") + room_in("\nMaxNodeCount=-5"), 0);
}

// A31.
TEST(SlurmConfTest, ASlurmctldThatIsReconfiguredInPlaceIsToldWhatItRuns) {
  const Controller plain = controller("inplaceReconfigure: true");
  const Controller other = controller("{inplaceReconfigure: true, extraConf: 'SlurmctldParameters=cloud_dns'}");
  const std::string digest = config_digest({plain, nullptr, {}}, {});
  EXPECT_EQ(digest.size(), 16u);
  EXPECT_NE(slurm_conf({plain, nullptr, {}}, {}).find("reconfig_on_restart,config_digest=" + digest + "\n"),
            std::string::npos);
  EXPECT_NE(config_digest({other, nullptr, {}}, {}), digest);
  EXPECT_NE(slurm_conf({other, nullptr, {}}, {}).find("SlurmctldParameters=cloud_dns,config_digest="),
            std::string::npos)
      << "the last of such lines counts";
  FilePlan files;
  files.hash = "another";
  EXPECT_NE(config_digest({plain, nullptr, {}}, files), digest);
  EXPECT_TRUE(says_digest({"enable_configless", "config_digest=" + digest}, digest));
  EXPECT_FALSE(says_digest({"enable_configless", "config_digest=0"}, digest));
  EXPECT_EQ(config_digest({controller(), nullptr, {}}, {}), "") << "its pod is made anew";
  EXPECT_EQ(client_part(slurm_conf({plain, nullptr, {}}, {})),
            client_part(slurm_conf({controller(), nullptr, {}}, {})));
}

TEST(SlurmConfTest, ClientsNeedLittle) {
  const std::vector<NodeSet> sets{node_set("gpu", "{replicas: 900, partition: {enabled: true}}")};
  EXPECT_EQ(client_part(slurm_conf({controller(), nullptr, sets}, {})),
            client_part(slurm_conf({controller(), nullptr, {}}, {})));
  EXPECT_EQ(client_part("#\nA=1\nProlog=x\nB=2"), "A=1\nB=2");
}

TEST(FilePlanTest, MissingMapsAreNamedAndTheRestStays) {
  // A4.
  ConfigMaps maps = scripts();
  maps.erase("p1");
  const FilePlan plan = plan_files(controller(kEverything), maps);
  EXPECT_EQ(plan.missing, std::vector<std::string>{"p1"});
  EXPECT_EQ(plan.prolog, std::vector<std::string>{"prolog-a.sh"});
  EXPECT_EQ(plan.sources, (std::vector<std::string>{"e", "ec", "extra", "p2", "pc"}));
}

TEST(FilePlanTest, CollisionsAndReservedNamesAreRefused) {
  // A9 and A10.
  ConfigMaps maps = scripts();
  maps["p1"].data = {{"prolog-a.sh", "other"}};
  maps["extra"].data = {{"slurm.conf", "x"}};
  const FilePlan plan = plan_files(controller(kEverything), maps);
  ASSERT_EQ(plan.faults.size(), 2U);
  EXPECT_EQ(plan.faults[0], "ConfigMap extra has a slurm.conf, which the operator writes itself; use spec.extraConf");
  EXPECT_EQ(plan.faults[1], "ConfigMaps p1 and p2 both have a file prolog-a.sh; rename one of them");
}

TEST(FilePlanTest, AJwksFileIsOursWhereWeWriteOne) {
  const ConfigMaps maps = {{"f", {{{"jwks.json", "{}"}}, {}}}};
  EXPECT_TRUE(plan_files(controller("configFileRefs: [{name: f}]"), maps).faults.empty());
  const Controller ctl = controller("{configFileRefs: [{name: f}], jwksKeyRef: {name: j, key: k}}");
  ASSERT_EQ(plan_files(ctl, maps).faults.size(), 1U);
  EXPECT_EQ(plan_files(ctl, maps).faults[0],
            "ConfigMap f has a jwks.json, which the operator writes itself; use spec.extraConf");
}

TEST(FilePlanTest, OneMapForTwoPurposesIsNoCollision) {
  const Controller ctl = controller("{prologScriptRefs: [{name: s}, {name: s}], epilogScriptRefs: [{name: s}]}");
  const FilePlan plan = plan_files(ctl, {{"s", {{{"both.sh", "x"}}, {}}}});
  EXPECT_TRUE(plan.faults.empty());
  EXPECT_EQ(plan.prolog, std::vector<std::string>{"both.sh"});
  EXPECT_EQ(plan.epilog, std::vector<std::string>{"both.sh"});
  EXPECT_EQ(plan.sources, std::vector<std::string>{"s"});
}

TEST(FilePlanTest, HashFollowsEveryFile) {
  // A24.
  const Controller ctl = controller(kEverything);
  ConfigMaps maps = scripts();
  const std::string before = plan_files(ctl, maps).hash;
  maps["p1"].data["prolog-b.sh"] = "#!/bin/sh\nexit 1\n";
  EXPECT_NE(plan_files(ctl, maps).hash, before);
  EXPECT_EQ(plan_files(controller(), maps).hash, "");
}

TEST(FilePlanTest, OwnCgroupConf) {
  const Controller ctl = controller("configFileRefs: [{name: extra}]");
  EXPECT_FALSE(plan_files(ctl, scripts()).own_cgroup_conf);
  EXPECT_TRUE(plan_files(ctl, {{"extra", {{{"cgroup.conf", "x"}}, {}}}}).own_cgroup_conf);
  EXPECT_EQ(default_cgroup_conf(), "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\n");
}

TEST(SlurmdbdConfTest, Everything) {
  const Accounting acct = accounting(
      "{jwksKeyRef: {name: j, key: jwks.json}, extraConf: \"ArchiveJobs=yes\\nAuthInfo=ttl=60\", service: {port: "
      "7003}}");
  expect_golden("config/testdata/slurmdbd_conf.golden", slurmdbd_conf(acct, "s3cret").value());
}

TEST(SlurmdbdConfTest, PasswordsCannotBreakOut) {
  // A12.
  EXPECT_TRUE(slurmdbd_conf(accounting(), "a b#c\n")->contains("StoragePass=\"a b\\#c\"\n"));
  const auto broken = slurmdbd_conf(accounting(), "a\nStorageHost=evil");
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error(),
            "the password in Secret mariadb-password, key password holds a newline or another control character, which "
            "a Slurm configuration cannot carry");
  EXPECT_FALSE(slurmdbd_conf(accounting(), "")->contains("StoragePass"));
}

}  // namespace
}  // namespace bascule::op
