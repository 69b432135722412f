// Tells pods why they wait: the condition PodScheduled=False and an event, written when they say something new.
#pragma once

#include <stop_token>
#include <unordered_map>
#include <vector>

#include "bridge/unit_plan.hpp"
#include "kube/client.hpp"
#include "kube/events.hpp"

namespace bascule::bridge {

class WaitingNotes final {
 public:
  // Both outlive this. A pod younger than `quiet` is not told yet.
  WaitingNotes(kube::Client& kube, kube::EventRecorder& events, Duration quiet)
      : kube_(kube), events_(events), quiet_(quiet) {}

  Task<> tell(Waiting waiting, std::stop_token stop);
  // Whether every waiting pod is old enough to have been told.
  bool told_all(const std::vector<Waiting>& all) const;
  void forget(const Uid& pod) { told_.erase(pod); }

 private:
  bool young(const kube::Pod& pod) const;

  kube::Client& kube_;
  kube::EventRecorder& events_;
  Duration quiet_;
  std::unordered_map<Uid, TimePoint> told_;  // when the condition was last written
};

}  // namespace bascule::bridge
