#include "bridge/identity.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  return apply_identity(rules, ns, annotations, job);
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
                          HasSubstr("group-id: namespace alice-hpc may not be \"0\" in Slurm; remove it")));
  EXPECT_THAT(apply("elsewhere", asked, job), ElementsAre(HasSubstr("user-id"), HasSubstr("group-id")));
  EXPECT_THAT(apply("team-7", asked, job), ElementsAre(HasSubstr("group-id"), HasSubstr("partition")));
}

TEST(Identity, ANameIsNoPattern) {
  slurm::JobDescription job;
  EXPECT_THAT(apply("alice-hpc-2", {{"slurmjob.slinky.slurm.net/user-id", "alice"}}, job),
              ElementsAre(HasSubstr("user-id")));
}

}  // namespace
}  // namespace bascule::bridge
