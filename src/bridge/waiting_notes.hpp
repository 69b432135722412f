// Tells pods why they wait: the condition PodScheduled=False and an event, written when they say something new.
//
// Each costs the API server a write, and most pods are bound before anybody could read it: pods younger than `quiet`
// are not told, and what passes by itself is told ten times later. A pod is as old as it says, or as long as it is
// known to wait, whichever is more: the API server's clock may be ahead of ours. What Slurm says may go to and fro
// (Priority, Resources): a pod keeps what it was told for a second, then two, four, in the end for five minutes.
// They are written beside the units' own work (beside.hpp), as what is said of the pod when its turn comes. With the
// first words about a job that waits goes when it was submitted: by that the pod knows it whatever becomes of its
// record.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <unordered_map>
#include <vector>

#include "bridge/beside.hpp"
#include "bridge/pace.hpp"
#include "bridge/unit_plan.hpp"
#include "kube/client.hpp"
#include "kube/events.hpp"

namespace bascule::bridge {

class WaitingNotes final {
 public:
  struct Parts {
    kube::Client& kube;
    kube::EventRecorder& events;
    Beside& beside;
    std::function<PodPtr(const NamespacedName&)> pod;  // as it is now
    std::function<void(const kube::Pod&)> again;       // its note was not written: its unit is to be looked at later
  };
  // All outlive this, and this the work beside.
  WaitingNotes(Parts parts, Duration quiet) : parts_(std::move(parts)), loop_(parts_.kube.loop()), quiet_(quiet) {}

  void tell(const Waiting& waiting);
  // When the next of the waiting pods will be old enough to be told; nullopt: all are.
  std::optional<Duration> untold_for(const std::vector<Waiting>& all) const;
  void forget(const Uid& pod) { known_.erase(pod); }
  std::size_t size() const noexcept { return known_.size(); }  // pods of which something is remembered

 private:
  Task<> tell_one(NamespacedName key, Uid uid, std::stop_token stop);
  Task<> write(PodPtr pod, Waiting waiting, std::stop_token stop);
  // How long it is to be kept back still.
  Duration left_for(const kube::Pod& pod, const Waiting& waiting) const;

  Parts parts_;
  Loop& loop_;
  Duration quiet_;
  struct Known {
    TimePoint since;                   // first heard of
    TimePoint told = {};               // when the condition was last written
    Pace turns = {};                   // of writing something new
    std::optional<Waiting> next = {};  // to be told, of no pods
  };
  std::unordered_map<Uid, Known> known_;
};

}  // namespace bascule::bridge
