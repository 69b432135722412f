#include "bridge/description.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "bridge/names.hpp"

namespace bascule::bridge {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

using Amounts = std::vector<std::pair<std::string, std::string>>;
using Annotations = std::vector<std::pair<std::string, std::string>>;

json::Interner& interner() {
  static json::Interner strings;
  return strings;
}
kube::ResourceList resources(const Amounts& amounts) {
  kube::ResourceList list;
  for (const auto& [name, amount] : amounts) list.emplace_back(interner()(name), *Quantity::parse(amount));
  std::ranges::sort(list, {}, [](const auto& item) { return item.first; });
  return list;
}
PodPtr pod(const Amounts& requests, const Amounts& limits = {}) {
  auto made = std::make_shared<kube::Pod>();
  made->meta.key = {"hpc", "p"};
  made->requests = resources(requests);
  made->limits = resources(limits);
  return made;
}
// `suffixes` without their prefix.
Root root(const Annotations& suffixes) {
  Root made;
  made.kind = "Job";
  made.key = {"hpc", "j"};
  for (const auto& [suffix, value] : suffixes) {
    made.annotations.emplace_back(interner()(std::string(names::kJobPrefix) + suffix), interner()(value));
  }
  return made;
}

slurm::JobDescription described(const Root& owner, const std::vector<PodPtr>& pods, const Config& config = {}) {
  auto job = describe_job(config, owner, pods);
  EXPECT_TRUE(job) << (job ? "" : job.error().faults.front());
  return job ? *job : slurm::JobDescription{};
}
std::vector<std::string> faults(const Annotations& annotations, const PodPtr& one = pod({})) {
  const auto job = describe_job({}, root(annotations), {one});
  return job ? std::vector<std::string>{} : job.error().faults;
}

TEST(Describe, APlainPodIsOneExclusiveNode) {
  Config config;
  config.partition = "bridge";
  config.mcs_label = "kubernetes";
  const auto job = described(root({}), {pod({})}, config);
  EXPECT_EQ(job.name, "j");
  EXPECT_EQ(job.partition, "bridge");
  EXPECT_EQ(job.mcs_label, "kubernetes");
  EXPECT_EQ(job.nodes, slurm::NodeCount(1));
  EXPECT_EQ(job.tasks_per_node, 1u);
  EXPECT_EQ(job.exclusive, true);
  // Unset, so that the partition's defaults count.
  EXPECT_FALSE(job.cpus_per_task || job.memory_per_node || job.tres_per_node || job.time_limit);
}

TEST(Describe, TakesEveryAnnotation) {
  const auto job = described(root({{"account", "acc"},
                                   {"constraints", "a&b"},
                                   {"cpu-per-task", "200m"},
                                   {"exclusive", "false"},
                                   {"gres", "gres/gpu=2"},
                                   {"group-id", "100"},
                                   {"job-name", "name"},
                                   {"licenses", "matlab:2"},
                                   {"max-nodes", "3"},
                                   {"mem-per-node", "1Gi"},
                                   {"min-nodes", "1"},
                                   {"partition", "part"},
                                   {"priority", "100"},
                                   {"qos", "high"},
                                   {"reservation", "res"},
                                   {"timelimit", "90"},
                                   {"user-id", "1000"},
                                   {"wckey", "key"}}),
                             {pod({{"cpu", "7"}, {"memory", "7Gi"}, {"nvidia.com/gpu", "1"}})}, Config{});
  EXPECT_EQ(job.account, "acc");
  EXPECT_EQ(job.constraints, "a&b");
  EXPECT_EQ(job.cpus_per_task, 1u);
  EXPECT_EQ(job.exclusive, false);
  EXPECT_EQ(job.tres_per_node, "gres/gpu=2");
  EXPECT_EQ(job.group_id, "100");
  EXPECT_EQ(job.name, "name");
  EXPECT_EQ(job.licenses, "matlab:2");
  EXPECT_EQ(job.memory_per_node, 1024u);
  EXPECT_EQ(job.partition, "part");
  EXPECT_EQ(job.priority, 100u);
  EXPECT_EQ(job.qos, "high");
  EXPECT_EQ(job.reservation, "res");
  EXPECT_EQ(job.time_limit, 90u);
  EXPECT_EQ(job.user_id, "1000");
  EXPECT_EQ(job.wckey, "key");
  // W30: one node a pod, whatever the annotations say.
  EXPECT_EQ(job.nodes, slurm::NodeCount(1));
}

TEST(Describe, ExclusiveIsGivenUpOnlyByFalse) {
  EXPECT_EQ(described(root({{"exclusive", " False\n"}}), {pod({})}).exclusive, false);
  for (const char* value : {"", "no", "0", "true"}) {
    EXPECT_EQ(described(root({{"exclusive", value}}), {pod({})}).exclusive, true) << value;
  }
}

TEST(Describe, TellsEveryFaultAtOnce) {
  EXPECT_THAT(
      faults({{"cpu-per-task", "x"},
              {"mem-per-node", "-1"},
              {"timelimit", "1234.eu"},
              {"priority", "99999999999"},
              {"max-nodes", "0"},
              {"min-nodes", ""},
              {"account", "a\nb"},
              {"gres", ":2"},
              {"unknown", "x"}}),
      UnorderedElementsAre(AllOf(HasSubstr("cpu-per-task"), HasSubstr("\"x\"")), HasSubstr("mem-per-node"),
                           HasSubstr("timelimit: \"1234.eu\" is not a whole number"), HasSubstr("priority"),
                           HasSubstr("max-nodes"), HasSubstr("min-nodes"), HasSubstr("account"), HasSubstr("gres")));
}

// W20: rounded up, never 0, which Slurm reads as everything.
TEST(Describe, SmallAmountsAreNotNothing) {
  const auto small = described(root({}), {pod({{"cpu", "1m"}, {"memory", "1"}})});
  EXPECT_EQ(small.cpus_per_task, 1u);
  EXPECT_EQ(small.memory_per_node, 1u);
  const auto odd = described(root({}), {pod({{"cpu", "2500m"}, {"memory", "1025Ki"}})});
  EXPECT_EQ(odd.cpus_per_task, 3u);
  EXPECT_EQ(odd.memory_per_node, 2u);
  EXPECT_FALSE(described(root({}), {pod({{"cpu", "0"}, {"memory", "0"}})}).memory_per_node);
}

// As sbatch's --mem=0; and Slurm takes 0 CPUs for one.
TEST(Describe, AnExplicitZeroMeansWhatItMeansToSlurm) {
  const auto all = described(root({{"cpu-per-task", "0"}, {"mem-per-node", "0"}}), {pod({{"memory", "1Gi"}})});
  EXPECT_EQ(all.cpus_per_task, 1u);
  EXPECT_EQ(all.memory_per_node, 0u);
  EXPECT_THAT(faults({{"cpu-per-task", "-1m"}, {"mem-per-node", "-1"}}), testing::SizeIs(2));
}

TEST(Describe, TheLargestOfRequestsLimitsAndPodsCounts) {
  const auto job = described(root({}), {pod({{"cpu", "1"}, {"memory", "1Mi"}}, {{"cpu", "2"}, {"memory", "5Mi"}}),
                                        pod({{"deviceclass.resource.kubernetes.io/dra.cpu", "4"}})});
  EXPECT_EQ(job.cpus_per_task, 4u);
  EXPECT_EQ(job.memory_per_node, 5u);
  EXPECT_EQ(job.nodes, slurm::NodeCount(2));
}

TEST(Describe, PodLevelLimitsOfTheTemplateCountWhereThePodsSayNothing) {
  Root job_root = root({});
  job_root.fallback_limits = resources({{"cpu", "22"}});
  const auto job = described(job_root, {pod({{"memory", "1Mi"}})});
  EXPECT_EQ(job.cpus_per_task, 22u);
  EXPECT_EQ(job.memory_per_node, 1u);
  EXPECT_EQ(described(job_root, {pod({{"cpu", "1"}})}).cpus_per_task, 1u);
}

TEST(Describe, DeadlineBecomesAWholeMinute) {
  Root job_root = root({});
  const auto minutes = [&](std::optional<std::int64_t> seconds) {
    job_root.active_deadline_seconds = seconds;
    return described(job_root, {pod({})}).time_limit;
  };
  EXPECT_EQ(minutes(90), 2u);
  EXPECT_EQ(minutes(60), 1u);
  EXPECT_EQ(minutes(1), 1u);
  EXPECT_EQ(minutes(std::nullopt), std::nullopt);
  EXPECT_EQ(minutes(0), std::nullopt) << "0 is no limit to Slurm";
  EXPECT_EQ(minutes(std::numeric_limits<std::int64_t>::max()), 2147483647u);
  job_root.annotations = root({{"timelimit", "5"}}).annotations;
  EXPECT_EQ(minutes(90), 5u);
}

// W19: every class, not the largest only.
TEST(Describe, DevicesOfSeveralClassesAreJoined) {
  const auto gres = [](const Amounts& limits) { return described(root({}), {pod({}, limits)}).tres_per_node; };
  EXPECT_EQ(gres({}), std::nullopt);
  EXPECT_EQ(gres({{"nvidia.com/gpu", "2"}}), "gres/gpu=2");
  EXPECT_EQ(gres({{"amd.com/gpu", "1"}}), "gres/gpu=1");
  EXPECT_EQ(gres({{"deviceclass.resource.kubernetes.io/gpu.nvidia.com", "2"},
                  {"deviceclass.resource.kubernetes.io/gpu.example.com", "3"},
                  {"deviceclass.resource.kubernetes.io/dra.cpu", "4"}}),
            "gres/gpu:gpu.example.com=3,gres/gpu:gpu.nvidia.com=2");
  EXPECT_EQ(gres({{"example.com/gpu", "2"}}), std::nullopt);
  EXPECT_EQ(gres({{"nvidia.com/gpu", "0"}}), std::nullopt);
  EXPECT_EQ(gres({{"nvidia.com/gpu", "9223372036854775807"}, {"amd.com/gpu", "9223372036854775807"}}),
            "gres/gpu=9223372036854775807");
  const auto gang = described(root({}), {pod({{"nvidia.com/gpu", "1"}}), pod({{"nvidia.com/gpu", "4"}})});
  EXPECT_EQ(gang.tres_per_node, "gres/gpu=4");
}

TEST(Describe, UnknownClassesAreRefused) {
  EXPECT_THAT(faults({}, pod({{"deviceclass.resource.kubernetes.io/tpu", "1"}})), ElementsAre(HasSubstr("\"tpu\"")));
}

// W36
TEST(Describe, W36ClassesOfConfiguredDriversAreAskedFor) {
  Config config;
  config.device_drivers.put({.driver = "fpga.example.org", .classes = {"fpga"}, .number_attribute = "slot"});
  config.device_drivers.put(
      {.driver = "cpu.example.org", .classes = {"cores"}, .kind = DeviceKind::kCpu, .number_attribute = "id"});
  const auto job = describe_job(
      config, root({}),
      {pod({{"deviceclass.resource.kubernetes.io/fpga", "2"}, {"deviceclass.resource.kubernetes.io/cores", "3"}})});
  ASSERT_TRUE(job);
  EXPECT_EQ(job->tres_per_node, "gres/gpu:fpga=2");
  EXPECT_EQ(job->cpus_per_task, 3u);
  const auto refused = describe_job(config, root({}), {pod({{"deviceclass.resource.kubernetes.io/dra.cpu", "2"}})});
  EXPECT_THAT(refused.error().faults,
              ElementsAre(HasSubstr("use one of gpu.nvidia.com, gpu.example.com, fpga, cores")));
}

TEST(Describe, GresAnnotationMayBeWrittenAsForSbatch) {
  const auto gres = [](const char* text) { return described(root({{"gres", text}}), {pod({})}).tres_per_node; };
  EXPECT_EQ(gres("gpu:v100:2"), "gres/gpu:v100:2");
  EXPECT_EQ(gres("gpu:1,shard=3"), "gres/gpu:1,gres/shard=3");
  EXPECT_EQ(gres("gres/gpu=2"), "gres/gpu=2");
  EXPECT_EQ(gres("gres:gpu:2"), "gres:gpu:2");
  EXPECT_EQ(gres("license/x=1,cpu=4"), "license/x=1,cpu=4");
  EXPECT_EQ(gres(""), std::nullopt);
}

// W37: the annotations that count are those of the root.
TEST(Describe, AnnotationsOfTheRootAreHeldAgainstThePodsDevices) {
  const PodPtr gpu = pod({{"deviceclass.resource.kubernetes.io/gpu.nvidia.com", "1"}});
  const PodPtr cpu = pod({{"deviceclass.resource.kubernetes.io/dra.cpu", "1"}});
  EXPECT_THAT(faults({{"gres", "gpu:1"}}, gpu), ElementsAre(HasSubstr("gres")));
  EXPECT_THAT(faults({{"cpu-per-task", "1"}}, cpu), ElementsAre(HasSubstr("cpu-per-task")));
  EXPECT_THAT(faults({{"gres", "gpu:1"}}, cpu), IsEmpty());
  EXPECT_THAT(faults({{"cpu-per-task", "1"}}, gpu), IsEmpty());
}

// A field that is wanted as it was sent once is another's to change.
TEST(Describe, AnUpdateSaysOnlyWhatIsWantedOtherwiseThanBefore) {
  slurm::JobDescription job;
  job.partition = "p";
  job.name = "a,b";
  job.time_limit = 60;
  job.exclusive = true;
  job.nodes = 2;
  const std::string before = asked_of(job);
  EXPECT_TRUE(keeps_partition(job, before));
  slurm::JobDescription same = job;
  leave_unchanged(same, before);
  slurm::JobDescription nodes;
  nodes.nodes = 2;
  EXPECT_EQ(same, nodes) << "what its pods need is always said";
  slurm::JobDescription next = job;
  next.partition = "q";
  next.time_limit = 61;
  next.priority = 7;
  EXPECT_FALSE(keeps_partition(next, before));
  leave_unchanged(next, before);
  nodes.partition = "q";
  nodes.time_limit = 61;
  nodes.priority = 7;
  EXPECT_EQ(next, nodes);
  leave_unchanged(job, {});
  EXPECT_TRUE(job.partition && job.name && job.time_limit && job.exclusive) << "what was sent is not known";
}

TEST(Describe, WhatWasAskedIsShort) {
  slurm::JobDescription job;
  job.partition = job.name = job.account = job.qos = job.reservation = job.constraints = job.licenses = job.wckey = "x";
  job.mcs_label = job.user_id = job.group_id = job.comment = "x";
  job.time_limit = job.priority = 1;
  job.exclusive = true;
  EXPECT_LE(asked_of(job).size(), kLongestAsked);
}

TEST(InQuotes, CutsAtACharacter) {
  EXPECT_EQ(in_quotes("a"), "\"a\"");
  const std::string text = std::string(99, 'a') + "\xc3\xa4" + "b";
  EXPECT_EQ(in_quotes(text), "\"" + std::string(99, 'a') + "...\"");
}

// Of what a job shares with others each of its pods has no more than it was given.
TEST(HasRoomFor, APodThatAsksForNoMore) {
  JobRecord record;
  record.task = TaskSize{2, 2048, "gres/gpu=2,gres/gpu:v100=1"};
  const auto fits = [&record](const PodPtr& one, Annotations annotations = {}) {
    annotations.emplace_back("exclusive", "false");
    return has_room_for(record, Config{}, root(annotations), one);
  };
  EXPECT_TRUE(fits(pod({})));
  EXPECT_TRUE(fits(pod({{"cpu", "1500m"}, {"memory", "2Gi"}}, {{"nvidia.com/gpu", "2"}})));
  EXPECT_FALSE(fits(pod({{"cpu", "2100m"}})));
  EXPECT_FALSE(fits(pod({{"memory", "2049Mi"}})));
  EXPECT_FALSE(fits(pod({}, {{"nvidia.com/gpu", "3"}})));
  EXPECT_TRUE(fits(pod({}), {{"gres", "gres/gpu:v100=1"}}));
  EXPECT_FALSE(fits(pod({}), {{"gres", "gres/gpu:a100=1"}}));
  EXPECT_FALSE(fits(pod({}), {{"gres", "gpu:v100:1"}})) << "is not counted that way there";
  EXPECT_FALSE(fits(pod({}), {{"mem-per-node", "0"}})) << "all of it";
  EXPECT_FALSE(fits(pod({}), {{"timelimit", "x"}})) << "cannot be told";
  EXPECT_FALSE(has_room_for(record, Config{}, root({}), pod({}))) << "whole nodes";
  record.task->memory = 0;
  EXPECT_TRUE(fits(pod({{"memory", "20Gi"}})));
  record.task->memory.reset();
  EXPECT_FALSE(fits(pod({{"memory", "1Mi"}})));
  record.task.reset();
  EXPECT_TRUE(has_room_for(record, Config{}, root({}), pod({{"cpu", "20"}}))) << "its nodes are its own";
  record.cpus = 2;
  EXPECT_FALSE(fits(pod({}))) << "a record of before sizes were written";
}

// Pods that no webhook has seen come here too.
TEST(Describe, PlacesByThoseOfOtherPodsAreRefused) {
  using AntiAffinity = kube::PeerRules::AntiAffinity;
  const auto with = [](const kube::PeerRules& rules, const Annotations& annotations = {}) {
    kube::Pod one = *pod({});
    one.peers = rules;
    return faults(annotations, std::make_shared<kube::Pod>(one));
  };
  EXPECT_THAT(with({.spread = true}), ElementsAre(HasSubstr("spec.topologySpreadConstraints is not supported")));
  EXPECT_THAT(with({.affinity = true}),
              ElementsAre(HasSubstr("spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution is not "
                                    "supported")));
  EXPECT_THAT(with({.anti_affinity = AntiAffinity::kWider}),
              ElementsAre(AllOf(HasSubstr("spec.affinity.podAntiAffinity."),
                                HasSubstr("topologyKey kubernetes.io/hostname alone"), HasSubstr("remove it"))));
  // The job has its nodes for itself, and each of its pods one of them.
  EXPECT_THAT(with({.anti_affinity = AntiAffinity::kOfHosts}), IsEmpty());
  EXPECT_THAT(with({.anti_affinity = AntiAffinity::kOfHosts}, {{"exclusive", "true"}}), IsEmpty());
  EXPECT_THAT(with({.anti_affinity = AntiAffinity::kOfHosts}, {{"exclusive", "false"}}),
              ElementsAre(AllOf(HasSubstr("spec.affinity.podAntiAffinity."),
                                HasSubstr("remove it, or the annotation slurmjob.slinky.slurm.net/exclusive"))));
}

// One sentence, however many pods of a gang it is true of.
TEST(Describe, WhatIsTrueOfManyPodsIsSaidOnce) {
  kube::Pod one = *pod({});
  one.peers.affinity = true;
  const PodPtr spread = std::make_shared<kube::Pod>(one);
  const auto job = describe_job({}, root({}), {spread, pod({}), spread});
  ASSERT_FALSE(job);
  EXPECT_THAT(job.error().faults, ElementsAre(HasSubstr("podAffinity")));
}

}  // namespace
}  // namespace bascule::bridge
