// The scheduler process: gives every pod of ours a Slurm job and binds it where Slurm says. This is the driver; what to
// do is decided by unit_plan.hpp for one unit at a time. All state that must outlive the process is in pods and in the
// jobs' records.
#pragma once

#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "base/async.hpp"
#include "bridge/config.hpp"
#include "kube/client.hpp"
#include "runtime/metrics.hpp"
#include "slurm/client.hpp"
#include "slurm/mirror.hpp"

namespace bascule::bridge {

struct SchedulerOptions {
  Config config;
  std::string instance;      // name of this process in events
  std::size_t workers = 32;  // units worked on at once
  slurm::MirrorOptions mirror = {.expect_starts = true};
  Duration quiet = std::chrono::seconds(1);  // a younger pod is not told why it waits
  // Asked before anything is done outside: a process that was stopped for a while must not act on a lease that is over,
  // before its timers tell it so. nullptr: always.
  std::function<bool()> may_act = nullptr;
};

class Scheduler final {
 public:
  // All outlive this; `metrics` may be nullptr.
  Scheduler(kube::Client& kube, slurm::Client& slurm, SchedulerOptions options, runtime::Metrics* metrics);
  ~Scheduler();

  // Works until `stop`, then ends what is under way and returns. Run only while leading.
  Task<> run(std::stop_token stop);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The uid of namespace kube-system, which names the cluster in job records. Tries until it answers; empty when stopped.
Task<std::string> cluster_uid(kube::Client& kube, std::stop_token stop);

}  // namespace bascule::bridge
