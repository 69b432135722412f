#include "bridge/identity.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bridge/names.hpp"

namespace bascule::bridge {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<IdentityRule> kRules{
    {.namespaces = {"alice-hpc"}, .users = {"alice", "svc"}, .accounts = {"physics", "maths"}},
    {.namespaces = {"team-*"}, .users = {"*"}, .partitions = {"team"}},
};

std::vector<std::string> apply(std::string_view ns, const AnnotationViews& annotations, slurm::JobDescription& job,
                               const std::vector<IdentityRule>& rules = kRules) {
  return apply_identity(rules, ns, annotations, job, "own");
}

TEST(Identity, WithoutRulesNothingChanges) {
  slurm::JobDescription job;
  EXPECT_THAT(apply("any", {{"slurmjob.slinky.slurm.net/user-id", "root"}}, job, {}), IsEmpty());
  EXPECT_EQ(job, slurm::JobDescription{});
}

TEST(Identity, TheFirstOfAListIsTheDefault) {
  slurm::JobDescription job;
  job.partition = "of-the-configuration";
  EXPECT_THAT(apply("alice-hpc", {}, job), IsEmpty());
  EXPECT_EQ(job.user_id, "alice");
  EXPECT_EQ(job.account, "physics");
  EXPECT_EQ(job.partition, "of-the-configuration");
  slurm::JobDescription team;
  EXPECT_THAT(apply("team-7", {}, team), IsEmpty());
  EXPECT_EQ(team.user_id, std::nullopt) << "anybody, but nobody by default";
  EXPECT_EQ(team.partition, "team");
}

TEST(Identity, EachOfTheConfiguredPartitionsIsFree) {
  const auto asks = [](std::string_view partition) {
    slurm::JobDescription job;
    return apply_identity(kRules, "elsewhere", {{"slurmjob.slinky.slurm.net/partition", partition}}, job, "gpu,cpu");
  };
  for (const char* free : {"gpu", "cpu", "cpu,gpu", "gpu,cpu"}) EXPECT_THAT(asks(free), IsEmpty()) << free;
  EXPECT_THAT(asks("gpu,any"), ElementsAre(HasSubstr("partition: namespace elsewhere may not use \"any\"")));
}

TEST(Identity, AConfiguredPartitionIsFreeBesideOnesThatTheRuleAllows) {
  slurm::JobDescription job;
  for (const char* free : {"team,own", "own,team", "own, team"}) {
    EXPECT_THAT(apply("team-7", {{"slurmjob.slinky.slurm.net/partition", free}}, job), IsEmpty()) << free;
  }
  EXPECT_THAT(apply("team-7", {{"slurmjob.slinky.slurm.net/partition", "team,own,any"}}, job),
              ElementsAre(HasSubstr("may not use \"any\"")));
}

// W58: nobody takes another's identity.
TEST(Identity, WhatIsNotListedIsRefusedInOneSentenceEach) {
  slurm::JobDescription job;
  const AnnotationViews asked{{"slurmjob.slinky.slurm.net/user-id", "root"},
                              {"slurmjob.slinky.slurm.net/group-id", "0"},
                              {"slurmjob.slinky.slurm.net/account", "maths"},
                              {"slurmjob.slinky.slurm.net/qos", "high"},
                              {"slurmjob.slinky.slurm.net/partition", "any"}};
  EXPECT_THAT(apply("alice-hpc", asked, job),
              ElementsAre(HasSubstr("user-id: namespace alice-hpc may not be \"root\" in Slurm; allowed: alice, svc"),
                          HasSubstr("group-id: namespace alice-hpc may not be \"0\" in Slurm; remove it"),
                          HasSubstr("partition: namespace alice-hpc may not use \"any\" in Slurm; remove it")));
  EXPECT_THAT(apply("elsewhere", asked, job),
              ElementsAre(HasSubstr("user-id"), HasSubstr("group-id"), HasSubstr("partition")));
  for (const char* ns : {"alice-hpc", "elsewhere", "team-7"}) {
    EXPECT_THAT(apply(ns, {{"slurmjob.slinky.slurm.net/partition", "own"}}, job), IsEmpty()) << ns;
  }
  EXPECT_THAT(apply("team-7", asked, job), ElementsAre(HasSubstr("group-id"), HasSubstr("partition")));
}

// Slurm takes the first of several partitions that can start the job.
TEST(Identity, EachPartitionOfAListMustBeAllowed) {
  const std::vector<IdentityRule> rules{{.namespaces = {"ns"}, .partitions = {"gpu", "debug"}}};
  slurm::JobDescription job;
  EXPECT_THAT(apply("ns", {{"slurmjob.slinky.slurm.net/partition", "debug,gpu"}}, job, rules), IsEmpty());
  EXPECT_THAT(apply("ns", {{"slurmjob.slinky.slurm.net/partition", "gpu,big"}}, job, rules),
              ElementsAre(HasSubstr("namespace ns may not use \"big\" in Slurm; allowed: gpu, debug")));
}

// Slurm would grant a priority to whomever the bridge submits as; a reservation too.
TEST(Identity, WhatIsPrivilegedMustBeAllowed) {
  const std::vector<IdentityRule> rules{
      {.namespaces = {"free"}, .wckeys = {"*"}, .reservations = {"*"}, .licenses = {"*"}, .max_priority = 5000},
      {.namespaces = {"strict"},
       .wckeys = {"w1", "w2"},
       .reservations = {"ai", "night"},
       .licenses = {"matlab", "a@db"}},
  };
  const std::string prefix(names::kJobPrefix);
  const auto faults = [&](std::string_view ns, std::string_view suffix, std::string_view value) {
    const std::string key = prefix + std::string(suffix);
    slurm::JobDescription job;
    return apply_identity(rules, ns, {{key, value}}, job, "own");
  };
  for (const auto& [suffix, value] : {std::pair{"priority", "5000"}, std::pair{"reservation", "any"},
                                      std::pair{"wckey", "any"}, std::pair{"licenses", "x:9"}}) {
    EXPECT_THAT(faults("free", suffix, value), IsEmpty()) << suffix;
  }
  EXPECT_THAT(faults("free", "priority", "5001"),
              ElementsAre(HasSubstr("namespace free may not ask for priority 5001 in Slurm; allowed: up to 5000")));
  EXPECT_THAT(faults("free", "priority", "99999999999999999999999"), ElementsAre(HasSubstr("up to 5000")));
  EXPECT_THAT(faults("free", "priority", "much"), IsEmpty()) << "told as what cannot be read";
  EXPECT_THAT(faults("strict", "priority", "1"), ElementsAre(HasSubstr("priority 1 in Slurm; remove it, or ask")));
  EXPECT_THAT(faults("strict", "reservation", "night,ai"), IsEmpty());
  EXPECT_THAT(faults("strict", "reservation", "ai,root"),
              ElementsAre(HasSubstr("may not use \"root\" in Slurm; allowed: ai, night")));
  EXPECT_THAT(faults("strict", "licenses", "matlab:2, a@db=1"), IsEmpty());
  EXPECT_THAT(faults("strict", "licenses", "matlab:2|ansys"), ElementsAre(HasSubstr("may not use \"ansys\"")));
  // --tres-per-task takes licenses too, whatever the case of the word.
  EXPECT_THAT(faults("strict", "gres", "gpu:2,license/ansys=1"),
              ElementsAre(HasSubstr("gres: namespace strict may not use license \"ansys\" in Slurm; allowed: matlab")));
  EXPECT_THAT(faults("strict", "gres", "gres/gpu:1,License:ansys:1"), ElementsAre(HasSubstr("\"ansys\"")));
  EXPECT_THAT(faults("strict", "gres", "license/matlab=1,license/ansys"), ElementsAre(HasSubstr("\"ansys\"")));
  EXPECT_THAT(faults("strict", "gres", "license/matlab=2,license/a@db:1,gpu:1,licensed=1,license"), IsEmpty());
  EXPECT_THAT(faults("free", "gres", "license/any=1"), IsEmpty());
  EXPECT_THAT(faults("elsewhere", "gres", "license/any=1"), IsEmpty()) << "Slurm counts them";
  EXPECT_THAT(faults("strict", "wckey", "w3"), ElementsAre(HasSubstr("may not be \"w3\"")));
  EXPECT_THAT(faults("elsewhere", "reservation", "ai"), ElementsAre(HasSubstr("remove it, or ask the administrator")));
  EXPECT_THAT(faults("elsewhere", "priority", "0"), ElementsAre(HasSubstr("priority")));
  EXPECT_THAT(faults("elsewhere", "licenses", "matlab:2"), IsEmpty()) << "Slurm counts them";
  EXPECT_THAT(faults("elsewhere", "wckey", "w"), IsEmpty()) << "Slurm knows whose they are";
  slurm::JobDescription job;
  EXPECT_THAT(apply_identity(rules, "strict", {}, job, "own"), IsEmpty());
  EXPECT_EQ(job.wckey, "w1");
  EXPECT_EQ(job.reservation, std::nullopt) << "allowed, not wished";
  EXPECT_EQ(job.licenses, std::nullopt);
  EXPECT_THAT(apply("any", {{"slurmjob.slinky.slurm.net/priority", "9"}}, job, {}), IsEmpty()) << "no policy";
}

TEST(Identity, ANameIsNoPattern) {
  slurm::JobDescription job;
  EXPECT_THAT(apply("alice-hpc-2", {{"slurmjob.slinky.slurm.net/user-id", "alice"}}, job),
              ElementsAre(HasSubstr("user-id")));
}

}  // namespace
}  // namespace bascule::bridge
