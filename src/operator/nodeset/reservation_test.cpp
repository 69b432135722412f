#include "operator/nodeset/reservation.hpp"

#include "operator/nodeset/test_support.hpp"

namespace bascule::op::nodeset {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Scheduled : testing::Test {
  Fixture f{2};
  const WallTime start = kNow + 1h;
  Scheduled() {
    f.state.spec.update = UpdateType::kScheduledUpdate;
    f.state.spec.scheduled = ScheduledUpdate{start, 30min, {}};
    f.state.spec.has_reservation_finalizer = true;
    f.rest();
  }
  // As Slurm shows what was written.
  void exists(const WriteReservation& what) {
    ReservationView view{what.start, what.start + what.length, what.flags, what.nodes, "slurm"};
    view.flags.emplace_back("SPEC_NODES");
    f.state.slurm.reservation = view;
  }
  // Performs what the plans say until nothing is left; the number of writes of the reservation.
  int settle() {
    int writes = 0;
    for (int i = 0; i < 6; ++i) {
      const Plan plan = f.plan();
      for (const Action& action : plan.actions) {
        if (const auto* what = std::get_if<WriteStatus>(&action.what)) f.state.status = what->status;
        if (const auto* what = std::get_if<SetFinalizer>(&action.what)) {
          if (what->name == names::kReservationFinalizer) f.state.spec.has_reservation_finalizer = what->present;
        }
        if (std::holds_alternative<DeleteReservation>(action.what)) f.state.slurm.reservation.reset();
        if (const auto* what = std::get_if<WriteReservation>(&action.what)) {
          exists(*what);
          ++writes;
        }
      }
      if (plan.at_rest()) return writes;
    }
    ADD_FAILURE() << "does not settle\n" << text_of(f.plan());
    return writes;
  }
};

TEST_F(Scheduled, IsMadeAheadOfItsTimeAfterTheFinalizer) {
  f.state.spec.has_reservation_finalizer = false;
  Plan plan = f.plan();
  EXPECT_THAT(all_of<WriteReservation>(plan), IsEmpty());
  ASSERT_EQ(all_of<SetFinalizer>(plan).size(), 1);
  f.state.spec.has_reservation_finalizer = true;
  f.state.spec.scheduled->flags = {"weekly", "Force_Start"};
  f.state.spec.scheduled->length = 30min + 59s;
  plan = f.plan();
  const auto writes = all_of<WriteReservation>(plan);
  ASSERT_EQ(writes.size(), 1);
  EXPECT_TRUE(writes[0].create);
  EXPECT_EQ(writes[0].name, "SlurmOperatorMaint-foo");
  EXPECT_EQ(writes[0].start, start);
  EXPECT_EQ(writes[0].length, 30min);
  EXPECT_THAT(writes[0].flags, ElementsAre("FORCE_START", "IGNORE_JOBS", "MAINT", "WEEKLY"));
  EXPECT_THAT(writes[0].nodes, ElementsAre("foo-0", "foo-1"));
}

TEST_F(Scheduled, ConvergesAndSaysSo) {
  EXPECT_EQ(settle(), 1);
  ASSERT_TRUE(f.state.status.reservation_created);
  EXPECT_TRUE(f.state.status.reservation_created->is_true);
  EXPECT_EQ(f.state.status.reservation_created->reason, "Created");
  EXPECT_EQ(f.state.status.reservation_start, start);
}

TEST_F(Scheduled, NotInThePast) {
  f.state.spec.scheduled->start = kNow - 1h;
  EXPECT_EQ(settle(), 0);
  f.state.spec.scheduled->flags = {"FORCE_START"};
  EXPECT_EQ(settle(), 1);
}

TEST_F(Scheduled, W13_AChangedStartIsOneUpdateThenNone) {
  settle();
  f.state.spec.scheduled->start = start + 2h;
  EXPECT_EQ(settle(), 1);
  EXPECT_EQ(f.state.slurm.reservation->start, start + 2h);
  EXPECT_EQ(f.state.status.reservation_start, start + 2h);
  f.state.spec.scheduled->length = 1h;
  EXPECT_EQ(settle(), 1);
}

TEST_F(Scheduled, W14_AReapedOneIsNotMadeAgain) {
  f.state.spec.scheduled->flags = {"FORCE_START"};
  settle();
  f.now = start + 31min;
  f.state.slurm.reservation.reset();
  EXPECT_EQ(settle(), 0);
  EXPECT_EQ(f.state.status.reservation_done, start);
  ASSERT_TRUE(f.state.status.reservation_created);
  EXPECT_FALSE(f.state.status.reservation_created->is_true);
  EXPECT_EQ(f.state.status.reservation_created->reason, "NotExists");
  f.state.spec.scheduled->start = f.now + 1h;  // the user asks for another one
  EXPECT_EQ(settle(), 1);
}

TEST_F(Scheduled, W15_TheFinalizerIsThereExactlyWhileItIsNeeded) {
  settle();
  EXPECT_TRUE(f.state.spec.has_reservation_finalizer);
  f.state.spec.update = UpdateType::kRollingUpdate;
  settle();
  EXPECT_FALSE(f.state.slurm.reservation);
  EXPECT_FALSE(f.state.spec.has_reservation_finalizer);
  EXPECT_FALSE(f.state.status.reservation_created);
  EXPECT_TRUE(f.plan().at_rest());
}

TEST_F(Scheduled, RecurringOnesMoveForward) {
  f.state.spec.scheduled->flags = {"DAILY"};
  settle();
  f.now += 24h;
  f.state.slurm.reservation->start += 24h;
  f.state.slurm.reservation->end += 24h;
  EXPECT_EQ(settle(), 0);
  f.add(2);  // its nodes change: the start stays Slurm's
  f.state.spec.replicas = 3;
  f.rest();
  EXPECT_EQ(settle(), 1);
  EXPECT_EQ(f.state.slurm.reservation->start, start + 24h);
}

TEST_F(Scheduled, AnActiveOneOnlyGetsItsNodes) {
  settle();
  f.now = start + 10min;
  f.state.spec.scheduled->flags = {"PURGE_COMP"};
  EXPECT_EQ(settle(), 0);
  f.add(2);
  f.state.spec.replicas = 3;
  f.rest();
  EXPECT_EQ(settle(), 1);
  EXPECT_THAT(f.state.slurm.reservation->nodes, ElementsAre("foo-0", "foo-1", "foo-2"));
  EXPECT_EQ(f.state.slurm.reservation->start, start);
}

TEST_F(Scheduled, FinalizerTable) {
  settle();
  f.outage();
  EXPECT_TRUE(f.plan().at_rest()) << text_of(f.plan());
  f.state.controller = Presence::kGone;
  const auto removed = all_of<SetFinalizer>(f.plan());
  ASSERT_EQ(removed.size(), 1);
  EXPECT_EQ(removed[0].name, names::kReservationFinalizer);
  EXPECT_FALSE(removed[0].present);
}

}  // namespace
}  // namespace bascule::op::nodeset
