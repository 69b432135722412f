#include "operator/nodeset/actions.hpp"

#include <gmock/gmock.h>

#include "operator/nodeset/test_support.hpp"

namespace bascule::op::nodeset {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Without that a pause lasts for an hour more, or none of it is left.
TEST(Actions, APauseLastsAsLongAsItShouldWhenTheClockSteps) {
  for (const Duration step : {Duration(-1h), Duration(1h)}) {
    Fixture f(1);
    f.pod(0).phase = PodPhase::kFailed;
    ASSERT_THAT(deleted(f.plan()), ElementsAre("foo-0"));
    f.pod(0).uid = Uid("its successor, failed too");
    f.now += step;
    follow_clock(f.memory, step);
    EXPECT_THAT(deleted(f.plan()), IsEmpty());
    f.now += 1s;
    EXPECT_THAT(deleted(f.plan()), ElementsAre("foo-0"));
  }
}

// slurmctld may just not have told of it yet.
TEST(Actions, WhatIsMissingInSlurmForAMomentIsNotMissingForAnHourWhenTheClockSteps) {
  Fixture f(1);
  f.state.slurm.nodes.clear();
  const std::string first = text_of(f.plan());
  f.now += 1h;
  follow_clock(f.memory, 1h);
  EXPECT_EQ(text_of(f.plan()), first);
}

}  // namespace
}  // namespace bascule::op::nodeset
