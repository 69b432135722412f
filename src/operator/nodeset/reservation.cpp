#include "operator/nodeset/reservation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "base/time.hpp"
#include "operator/api/names.hpp"

namespace bascule::op::nodeset {

namespace {

using Flags = std::set<std::string>;

constexpr std::string_view kUser = "slurm";
constexpr std::string_view kOutputOnly = "SPEC_NODES";

Flags wanted_flags(const ScheduledUpdate& update) {
  Flags flags{"MAINT", "IGNORE_JOBS"};
  for (std::string flag : update.flags) {
    std::ranges::transform(flag, flag.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    flags.insert(std::move(flag));
  }
  return flags;
}

Flags set_of(const std::vector<std::string>& flags) {
  Flags all(flags.begin(), flags.end());
  all.erase(std::string(kOutputOnly));
  return all;
}

bool recurs(const Flags& flags) {
  return std::ranges::any_of(std::initializer_list<std::string>{"HOURLY", "DAILY", "WEEKLY", "WEEKEND", "WEEKDAY"},
                             [&](const std::string& flag) { return flags.contains(flag); });
}

Duration whole_minutes(Duration length) {
  return std::chrono::duration_cast<std::chrono::minutes>(length);
}

class ReservationPlanner final {
 public:
  ReservationPlanner(Pass& pass, Status& status) : pass_(pass), status_(status) {}

  void run() {
    const bool wanted = pass_.spec().update == UpdateType::kScheduledUpdate && pass_.spec().scheduled &&
                        pass_.desired > 0 && !pass_.spec().deleted;
    if (!wanted) {
      status_.reservation_created.reset();
      status_.reservation_start.reset();
      status_.reservation_done.reset();
    }
    if (pass_.state.controller == Presence::kGone) return set_finalizer(false, "the Controller is gone");
    if (!pass_.state.slurm.known) return;
    if (!wanted) return take_away();
    flags_ = wanted_flags(*pass_.spec().scheduled);
    for (const PodFacts& facts : pass_.pods) {
      if (facts.node != nullptr) nodes_.insert(facts.slurm_name);
    }
    if (pass_.state.slurm.reservation) {
      set_finalizer(true, "a reservation exists in Slurm");
      keep(*pass_.state.slurm.reservation);
    } else {
      without();
    }
  }

 private:
  const ScheduledUpdate& update() const { return *pass_.spec().scheduled; }

  void set_finalizer(bool present, std::string why) {
    if (pass_.spec().has_reservation_finalizer == present) return;
    pass_.plan.act(SetFinalizer{std::string(names::kReservationFinalizer), present}, std::move(why));
  }
  void say(bool is_true, std::string reason, std::string message) {
    Condition condition{.type = "ReservationCreated",
                        .reason = std::move(reason),
                        .message = std::move(message),
                        .is_true = is_true,
                        .generation = pass_.spec().generation,
                        .since = pass_.now};
    const auto& old = status_.reservation_created;
    if (old && old->is_true == is_true) condition.since = old->since;
    status_.reservation_created = std::move(condition);
  }
  void write(bool create, WallTime start, std::string why) {
    WriteReservation what{reservation_name(pass_.spec()), create, start, whole_minutes(update().length), {}, {}};
    what.flags.assign(flags_.begin(), flags_.end());
    what.nodes.assign(nodes_.begin(), nodes_.end());
    pass_.plan.act(std::move(what), std::move(why));
  }

  void take_away() {
    if (pass_.state.slurm.reservation) {
      pass_.plan.act(DeleteReservation{reservation_name(pass_.spec())}, "no scheduled update is wanted");
    } else {
      set_finalizer(false, "Slurm has no reservation of this NodeSet");
    }
  }

  void keep(const ReservationView& has) {
    say(true, "Created", fmt::format("reservation {} exists", reservation_name(pass_.spec())));
    const Flags has_flags = set_of(has.flags);
    // Slurm moves recurring reservations forward, and refuses a start that is past.
    const bool moved = recurs(flags_) && recurs(has_flags) && has.start > update().start &&
                       status_.reservation_start.value_or(update().start) == update().start;
    const bool in_time = has.start == update().start || moved;
    if (in_time) status_.reservation_start = update().start;
    status_.reservation_done.reset();
    const std::set<std::string> has_nodes(has.nodes.begin(), has.nodes.end());
    if (has.start < pass_.now && pass_.now < has.end) {
      if (nodes_.empty() || has_nodes == nodes_) return;
      flags_ = has_flags;
      WriteReservation what{reservation_name(pass_.spec()), false, has.start, has.end - has.start, {}, {}};
      what.flags.assign(flags_.begin(), flags_.end());
      what.nodes.assign(nodes_.begin(), nodes_.end());
      pass_.plan.act(std::move(what), "the NodeSet's nodes have changed");
      return;
    }
    const bool same = in_time && has_flags == flags_ && (nodes_.empty() || has_nodes == nodes_) && has.users == kUser &&
                      has.end - has.start == whole_minutes(update().length);
    if (same) return;
    if (!moved && update().start < pass_.now && !flags_.contains("FORCE_START")) {
      pass_.plan.waits.push_back(
          fmt::format("the start of the scheduled update, {}, is past", print_rfc3339(update().start)));
      return;
    }
    if (nodes_.empty()) return;
    write(false, moved ? has.start : update().start, "the scheduled update or its nodes have changed");
  }

  void without() {
    const WallTime start = update().start;
    if (status_.reservation_start == start && pass_.now >= start && !recurs(flags_)) status_.reservation_done = start;
    if (status_.reservation_created) {
      say(false, "NotExists", fmt::format("Slurm has no reservation {}", reservation_name(pass_.spec())));
    }
    const bool done = status_.reservation_done == start;
    const bool can_start = start >= pass_.now || flags_.contains("FORCE_START");
    const bool works = pass_.state.status.slurm_allocated + pass_.state.status.slurm_idle > 0 && !nodes_.empty();
    if (done || !can_start || !works) {
      set_finalizer(false, "Slurm has no reservation of this NodeSet");
      return;
    }
    if (!pass_.spec().has_reservation_finalizer) return set_finalizer(true, "a reservation is about to be made");
    if (pass_.memory.unguarded) {  // what is seen of it is old
      pass_.plan.wake_at(pass_.now + kDrainLook);
      return;
    }
    write(true, start, "a scheduled update is wanted");
  }

  Pass& pass_;
  Status& status_;
  Flags flags_;
  std::set<std::string> nodes_;
};

}  // namespace

std::string reservation_name(const Spec& spec) {
  return fmt::format("{}{}", names::kReservationPrefix, spec.name);
}

void plan_reservation(Pass& pass, Status& status) {
  ReservationPlanner(pass, status).run();
}

}  // namespace bascule::op::nodeset
