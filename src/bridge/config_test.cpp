#include "bridge/config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace bascule::bridge {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

std::vector<std::string> faults_of(std::string_view yaml, bool need_slurm = false) {
  try {
    static_cast<void>(parse_config(yaml, "c.yaml", need_slurm));
  } catch (const ConfigFaults& thrown) {
    return thrown.faults;
  }
  return {};
}

TEST(Config, EmptyFileIsAllDefaults) {
  for (const char* text : {"", "---\n", "# nothing\n", "{}"}) {
    const Config config = parse_config(text, "c.yaml", false);
    EXPECT_EQ(config.scheduler_name, "slurm-bridge-scheduler");
    EXPECT_TRUE(config.slurm_rest_api.empty());
    EXPECT_TRUE(config.managed_namespaces.empty());
    EXPECT_FALSE(config.managed_namespace_selector);
    EXPECT_TRUE(config.partition.empty());
  }
}

TEST(Config, Identities) {
  const Config config = parse_config(R"(
identities:
- namespaces: [alice-hpc, "team-*"]
  users: [alice]
  accounts: [physics, maths]
)",
                                     "c.yaml", false);
  ASSERT_THAT(config.identities, SizeIs(1));
  EXPECT_THAT(config.identities[0].namespaces, ElementsAre("alice-hpc", "team-*"));
  EXPECT_THAT(config.identities[0].accounts, ElementsAre("physics", "maths"));
  EXPECT_THAT(faults_of("identities: [{users: [a]}]"), ElementsAre(HasSubstr("identities[0].namespaces: is required")));
  EXPECT_THAT(faults_of("identities: [{namespaces: [a], user: [b]}]"), ElementsAre(HasSubstr("did you mean users?")));
  const Config more = parse_config(
      "identities: [{namespaces: [a], reservations: [r], wckeys: [w], licenses: [l@db], maxPriority: 100}]", "c.yaml",
      false);
  EXPECT_THAT(more.identities.at(0).reservations, ElementsAre("r"));
  EXPECT_THAT(more.identities[0].wckeys, ElementsAre("w"));
  EXPECT_THAT(more.identities[0].licenses, ElementsAre("l@db"));
  EXPECT_EQ(more.identities[0].max_priority, 100u);
  EXPECT_EQ(config.identities[0].max_priority, std::nullopt);
  for (const char* wrong : {"-1", "1.5", "2147483648", "'7'", "[1]"}) {
    EXPECT_THAT(faults_of(std::string("identities: [{namespaces: [a], maxPriority: ") + wrong + "}]"),
                ElementsAre(HasSubstr("identities[0].maxPriority: expected a whole number from 0")))
        << wrong;
  }
  EXPECT_THAT(faults_of("identities: [{namespaces: [a], licenses: [\"matlab:2\"]}]"),
              ElementsAre(HasSubstr("licenses[0]: \"matlab:2\" is not the name of one license")));
  EXPECT_THAT(faults_of("identities: {}"), ElementsAre(HasSubstr("expected a list of rules")));
}

// W36
TEST(Config, W36DeviceDriversAreAddedAndReplaced) {
  const Config config = parse_config(R"(
deviceDrivers:
- driver: fpga.example.org
  classes: [fpga-small, fpga-large]
  numberAttribute: slot
- driver: gpu.nvidia.com
  namePrefix: gpu-
- driver: cpu.example.org
  kind: cpu
  numberAttribute: example.org/id
  coreAttribute: core
)",
                                     "c.yaml", false);
  const DeviceDrivers& drivers = config.device_drivers;
  EXPECT_EQ(drivers.classes(), "gpu.example.com, fpga-small, fpga-large, gpu.nvidia.com, cpu.example.org");
  EXPECT_EQ(drivers.of_class("fpga-large"), drivers.named("fpga.example.org"));
  EXPECT_EQ(drivers.of_class("dra.cpu"), nullptr);
  EXPECT_EQ(drivers.named("cpu.example.org")->core_attribute, "core");
  EXPECT_EQ(drivers.named("cpu.example.org")->socket_attribute, "socketID");
  EXPECT_EQ(parse_config("", "c.yaml", false).device_drivers.classes(), "dra.cpu, gpu.nvidia.com, gpu.example.com");
}

TEST(Config, W36FaultsOfDeviceDriversAreToldInFull) {
  EXPECT_THAT(faults_of("deviceDrivers: {}"), ElementsAre(HasSubstr("deviceDrivers: expected a list of drivers")));
  EXPECT_THAT(faults_of("deviceDrivers: [a, {drivr: b, numberAttribute: i}]"),
              ElementsAre(HasSubstr("deviceDrivers[0]: expected a mapping with driver, found a text"),
                          HasSubstr("deviceDrivers[1].drivr: is not a key of this file; did you mean driver?")));
  EXPECT_THAT(faults_of("deviceDrivers: [{driver: a, kind: fpga, numberAttribute: i}]"),
              ElementsAre(HasSubstr("deviceDrivers[0].kind: \"fpga\" is neither gpu nor cpu")));
  EXPECT_THAT(faults_of("deviceDrivers: [{driver: a, numberAttribute: i, coreAttribute: c}]"),
              ElementsAre(HasSubstr("deviceDrivers[0]: has attributes of cores, which are for kind cpu")));
  EXPECT_THAT(
      faults_of(R"(
deviceDrivers:
- numberAttribute: index
- driver: A
  namePrefix: gpu_
- driver: fpga.example.org
- driver: fpga.example.org
  numberAttribute: a-b
  classes: ["x y", gpu.example.com]
- {driver: cpu.a, kind: cpu, numberAttribute: id, classes: [one, two]}
- {driver: cpu.b, kind: cpu, numberAttribute: id, socketAttribute: ""}
)"),
      ElementsAre(
          HasSubstr("deviceDrivers[0].driver: is required"),
          HasSubstr("deviceDrivers[1].driver: \"A\" cannot be a driver's name"),
          HasSubstr("deviceDrivers[1].namePrefix: \"gpu_\" cannot begin"),
          HasSubstr("deviceDrivers[2]: needs numberAttribute or namePrefix"),
          HasSubstr("deviceDrivers[3].driver: \"fpga.example.org\" is given twice"),
          HasSubstr("deviceDrivers[3].numberAttribute: \"a-b\" cannot be an attribute"),
          HasSubstr("deviceDrivers[4].classes: expected one class"),
          HasSubstr("deviceDrivers[5].socketAttribute: \"\" cannot be an attribute"),
          HasSubstr("deviceDrivers[5].kind: is cpu, as that of cpu.a"),
          HasSubstr("deviceDrivers[1].classes[0]: \"A\" cannot be a DeviceClass"),
          HasSubstr("deviceDrivers[3].classes[0]: \"x y\" cannot be a DeviceClass"),
          HasSubstr("deviceDrivers[3].classes[1]: \"gpu.example.com\" is a class of driver gpu.example.com already")));
}

TEST(Config, ReadsEveryKey) {
  const Config config = parse_config(R"(
schedulerName: my-scheduler
slurmRestApi: http://slurm-restapi.slurm:6820
managedNamespaces: [a, b]
managedNamespaceSelector:
  matchLabels: {team: hpc}
  matchExpressions:
  - {key: tier, operator: NotIn, values: [web, db]}
  - {key: slurm, operator: Exists}
mcsLabel: kubernetes
partition: bridge
trustedUsers: ["system:serviceaccount:slinky:*"]
)",
                                     "c.yaml", true);
  EXPECT_EQ(config.scheduler_name, "my-scheduler");
  EXPECT_EQ(config.slurm_rest_api, "http://slurm-restapi.slurm:6820");
  EXPECT_THAT(config.managed_namespaces, ElementsAre("a", "b"));
  ASSERT_TRUE(config.managed_namespace_selector);
  const auto& requirements = config.managed_namespace_selector->requirements;
  ASSERT_THAT(requirements, SizeIs(3));
  EXPECT_EQ(requirements[0].op, "In");
  EXPECT_EQ(requirements[0].key, "team");
  EXPECT_THAT(requirements[1].values, ElementsAre("web", "db"));
  EXPECT_EQ(requirements[2].op, "Exists");
  EXPECT_EQ(config.mcs_label, "kubernetes");
  EXPECT_EQ(config.partition, "bridge");
  EXPECT_THAT(config.trusted_users, ElementsAre("system:serviceaccount:slinky:*"));
}

TEST(Config, KeysMatchWithoutCaseAsInSlurmBridge) {
  EXPECT_EQ(parse_config("schedulername: x", "c.yaml", false).scheduler_name, "x");
  EXPECT_THAT(faults_of("schedulername: x\nschedulerName: y"), ElementsAre(HasSubstr("given twice")));
}

TEST(Config, NullSelectorIsNoSelectorAndEmptyOneMatchesAll) {
  EXPECT_FALSE(parse_config("managedNamespaceSelector:", "c.yaml", false).managed_namespace_selector);
  EXPECT_TRUE(parse_config("managedNamespaceSelector: {}", "c.yaml", false).managed_namespace_selector);
}

// W62
TEST(Config, TellsEveryFaultAtOnce) {
  const auto faults = faults_of(R"(
shedulerName: x
slurmRestApi: ftp://host
managedNamespaces: [ok, "Not OK", 3]
partition: 7
managedNamespaceSelector:
  matchLabel: {a: b}
  matchExpressions:
  - {key: a, operator: Equals, values: [x]}
  - {key: b, operator: In}
  - {key: c, operator: Exists, values: [x]}
  - {operator: Exists}
)");
  EXPECT_THAT(faults,
              testing::UnorderedElementsAre(
                  AllOf(HasSubstr("c.yaml: shedulerName:"), HasSubstr("did you mean schedulerName?")),
                  AllOf(HasSubstr("slurmRestApi"), HasSubstr("ftp://host")),
                  AllOf(HasSubstr("managedNamespaces[2]"), HasSubstr("the number 3"), HasSubstr("quotes")),
                  AllOf(HasSubstr("managedNamespaces[1]"), HasSubstr("Not OK")),
                  AllOf(HasSubstr("partition"), HasSubstr("the number 7")),
                  AllOf(HasSubstr("managedNamespaceSelector.matchLabel"), HasSubstr("did you mean matchLabels?")),
                  AllOf(HasSubstr("matchExpressions[0].operator"), HasSubstr("Equals")),
                  AllOf(HasSubstr("matchExpressions[1].values"), HasSubstr("required")),
                  AllOf(HasSubstr("matchExpressions[2].values"), HasSubstr("absent")),
                  AllOf(HasSubstr("matchExpressions[3].key"), HasSubstr("required"))));
}

// Slurm takes lists, and slurm-bridge passes them on.
TEST(Config, SeveralPartitionsMayBeTheDefault) {
  EXPECT_EQ(parse_config("partition: gpu,cpu", "c.yaml", false).partition, "gpu,cpu");
  for (const char* wrong : {"'gpu, cpu'", "'gpu,'", "',gpu'", "'gpu,,cpu'", "','", "'g\"pu'"}) {
    EXPECT_THAT(faults_of(std::string("partition: ") + wrong), ElementsAre(HasSubstr("partition: "))) << wrong;
  }
  EXPECT_THAT(faults_of("mcsLabel: a,b"), SizeIs(1));
}

TEST(Config, WantsSlurmOnlyFromThoseWhoCallIt) {
  EXPECT_THAT(faults_of("partition: p", true), ElementsAre(HasSubstr("slurmRestApi: is required")));
  EXPECT_THAT(faults_of("partition: p", false), SizeIs(0));
}

TEST(Config, MalformedYamlIsOneSentence) {
  EXPECT_THAT(faults_of("a: [1"), ElementsAre(HasSubstr("c.yaml: ")));
  EXPECT_THAT(faults_of("just words"), ElementsAre(HasSubstr("expected a mapping")));
  EXPECT_THAT(faults_of("- a\n- b"), ElementsAre(HasSubstr("found a list")));
  EXPECT_THAT(faults_of("whatIsThis: 1"), ElementsAre(HasSubstr("known are schedulerName")));
}

TEST(Config, SchedulerNameMustFitATaint) {
  EXPECT_THAT(faults_of("schedulerName: " + std::string(64, 'a')), SizeIs(1));
  EXPECT_THAT(faults_of("schedulerName: a_b"), SizeIs(1));
  EXPECT_THAT(faults_of("partition: 'a b'"), SizeIs(1));
}

// W61: the file is the one the flag names; nothing else is tried.
TEST(Config, MissingFileNamesItAndTheFlag) {
  try {
    static_cast<void>(load_config("/nonexistent/c.yaml", false));
    FAIL();
  } catch (const ConfigFaults& thrown) {
    EXPECT_THAT(thrown.faults, ElementsAre(AllOf(HasSubstr("/nonexistent/c.yaml"), HasSubstr("--config"))));
  }
}

TEST(Config, LoadsAFile) {
  const auto path = std::filesystem::temp_directory_path() / ("bridge-config-" + std::to_string(::getpid()) + ".yaml");
  std::ofstream(path) << "partition: p\n";
  EXPECT_EQ(load_config(path.string(), false).partition, "p");
  std::filesystem::remove(path);
}

TEST(Config, TrustsItsOwnAccountsByDefault) {
  EXPECT_THAT(default_trusted_users("slinky", "sched"),
              ElementsAre("system:serviceaccount:slinky:slurm-bridge-*", "system:serviceaccount:slinky:sched"));
}

}  // namespace
}  // namespace bascule::bridge
