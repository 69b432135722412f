#include "bridge/unit_jobs.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "bridge/names.hpp"
#include "slurm/hostlist.hpp"

namespace bascule::bridge {

namespace {

bool names_pod(const JobView& view, const Uid& pod) {
  return std::ranges::find(view.record.uids, pod) != view.record.uids.end();
}

bool is_requeuing(const slurm::JobStates& states) {
  using slurm::JobFlag;
  return states.has(JobFlag::kRequeued) || states.has(JobFlag::kRequeueHold) || states.has(JobFlag::kSpecialExit);
}

class Assigner final {
 public:
  Assigner(const Config& config, const UnitView& unit, const NodeView& nodes, const UnitMemory& memory)
      : config_(config), unit_(unit), nodes_(nodes), memory_(memory) {}

  UnitJobs run() {
    rank_jobs();
    for (const PodPtr& pod : unit_.pods) {
      if (holds_node(*pod)) hold(pod, pod->node_name.str());
    }
    std::vector<PodPtr> waiting;
    for (const PodPtr& pod : unit_.pods) {
      if (wants_node(*pod)) waiting.push_back(pod);
    }
    sort_by_rank(waiting);
    for (const PodPtr& pod : waiting) place(pod);
    inherit();
    for (State& state : states_) share_hosts(state);
    refill();
    return finish();
  }

 private:
  struct State {
    HeldJob held;
    std::vector<std::string> taken;  // Kubernetes nodes of the pods it holds
    std::vector<std::string> free;   // running: Slurm names of hosts without a pod
  };

  void rank_jobs() {
    for (const JobView& view : unit_.jobs) {
      if (view.job->states.ended()) continue;
      State state;
      state.held.view = &view;
      states_.push_back(std::move(state));
    }
    struct Count {
      int bound = 0, labelled = 0;
    };
    std::map<JobId, Count> counts;
    for (const PodPtr& pod : unit_.pods) {
      if (pod->terminal()) continue;
      Count& count = counts[label_of(*pod)];
      ++count.labelled;
      if (pod->bound()) ++count.bound;
    }
    const auto rank = [&counts](const State& state) {
      const JobId id = state.held.view->job->id;
      const Count& count = counts[id];
      return std::tuple(-count.bound, -count.labelled, !runs(*state.held.view->job), id);
    };
    std::ranges::sort(states_, {}, rank);
    for (State& state : states_) {  // stay where they are from now on
      by_id_.emplace(state.held.view->job->id, &state);
      for (const Uid& pod : state.held.view->record.uids) by_pod_.emplace(pod, &state);
    }
  }

  State* find(JobId id) {
    const auto it = by_id_.find(id);
    return id && it != by_id_.end() ? it->second : nullptr;
  }

  State* owner_of(const kube::Pod& pod) {
    if (State* labelled = find(label_of(pod))) return labelled;
    const auto marked = memory_.marked.find(pod.meta.uid);
    if (State* known = marked == memory_.marked.end() ? nullptr : find(marked->second.job)) return known;
    const auto named = by_pod_.find(pod.meta.uid);
    return named == by_pod_.end() ? nullptr : named->second;
  }

  void hold(const PodPtr& pod, std::string node) {
    State* state = owner_of(*pod);
    if (state == nullptr || requeued_since(*state->held.view->job, *pod)) return;
    ++state->held.bound;
    if (pod->deleting()) ++state->held.going;
    state->taken.push_back(std::move(node));
  }

  void place(const PodPtr& pod) {
    State* state = owner_of(*pod);
    const auto binding = memory_.binding.find(pod->meta.uid);
    if (state == nullptr) {
      // One that was bound may have run and ended before the watch tells: it needs no other job.
      if (binding == memory_.binding.end()) out_.uncovered.push_back(pod);
      return;
    }
    if (binding == memory_.binding.end()) {
      state->held.pods.push_back(pod);
    } else {
      ++state->held.bound;
      state->taken.push_back(binding->second.node.str());
    }
  }

  // The pods a requeued job stopped are gone or going; those without a job are their successors.
  void inherit() {
    for (State& state : states_) {
      if (out_.uncovered.empty()) return;
      const slurm::Job& job = *state.held.view->job;
      if (requeued(job) && !launch_failed(job) && state.held.members() == 0) {
        for (const PodPtr& pod : std::exchange(out_.uncovered, {})) {
          (has_room(state, pod) ? state.held.pods : out_.uncovered).push_back(pod);
        }
      }
    }
  }

  // Where Slurm gives whole cores a task may hold more CPUs than it asked for: all tasks alike.
  static std::uint32_t cpus_of_a_task(const slurm::Job& job, const JobRecord& record) {
    const auto tasks = static_cast<std::uint32_t>(record.uids.size());
    std::uint32_t all = 0;
    for (const std::uint32_t cpus : job.node_cpus) all += cpus;
    const std::uint32_t each = tasks > 0 && all > 0 && all % tasks == 0 ? all / tasks : record.cpus;
    const bool even = std::ranges::all_of(job.node_cpus, [each](std::uint32_t cpus) { return cpus % each == 0; });
    return even ? std::max(each, record.cpus) : record.cpus;
  }

  // How many tasks of a job that shares its nodes are on each of them. Once it is known which devices it holds these
  // tell exactly, as far as there are enough: cores may be more than their tasks, devices are not.
  std::vector<std::uint32_t> tasks_on(const std::vector<std::string>& hosts, const JobView& view) const {
    const slurm::Job& job = *view.job;
    const std::uint32_t each = cpus_of_a_task(job, view.record);
    std::vector<std::uint32_t> by_cpus, by_devices;
    for (const std::uint32_t cpus : job.node_cpus) by_cpus.push_back(cpus / each);
    const auto layout = memory_.layouts.find(job.id);
    if (layout == memory_.layouts.end() || layout->second.start_time != job.start_time) return by_cpus;
    std::size_t all = 0;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      const auto enough_for = tasks_with_devices(view.record.task.value_or(TaskSize{}), layout->second, hosts[i]);
      if (!enough_for) return by_cpus;
      by_devices.push_back(std::min(job.node_cpus[i] / view.record.cpus, *enough_for));
      all += by_devices.back();
    }
    return all >= view.record.uids.size() ? by_devices : by_cpus;
  }

  // A running job's free hosts, in Slurm's order, to its pods in order of rank.
  void share_hosts(State& state) {
    const slurm::Job& job = *state.held.view->job;
    if (!runs(job) || job.nodes.empty()) return;
    const auto hosts = slurm::expand_hostlist(job.nodes);
    if (!hosts) {
      state.held.unreadable = hosts.error();
      return;
    }
    std::multiset<std::string> taken(state.taken.begin(), state.taken.end());
    const std::uint32_t cpus = state.held.view->record.cpus;
    if (cpus > 0 && job.node_cpus.size() != hosts->size()) {
      state.held.unreadable = "how many CPUs it holds on each is not said";
      return;
    }
    const std::vector<std::uint32_t> tasks =
        cpus > 0 ? tasks_on(*hosts, *state.held.view) : std::vector<std::uint32_t>(hosts->size(), 1);
    for (std::size_t i = 0; i < hosts->size(); ++i) {
      const std::string& host = (*hosts)[i];
      if (memory_.given_up.contains({job.id, host})) continue;
      const NodePtr node = nodes_.by_slurm_name(host);
      for (std::uint32_t places = tasks[i]; places > 0; --places) {
        const auto used = node ? taken.find(node->meta.key.name) : taken.end();
        if (used != taken.end()) {
          taken.erase(used);
        } else {
          state.free.push_back(host);
        }
      }
    }
    std::vector<std::string> seats = claimed_hosts(state);
    if (cpus > 0) {  // never more than tasks
      const std::size_t all = state.held.view->record.uids.size();
      const auto claimed =
          static_cast<std::size_t>(std::ranges::count_if(seats, [](const auto& s) { return !s.empty(); }));
      state.free.resize(std::min(state.free.size(), all - std::min(all, state.taken.size() + claimed)));
    }
    seat(state, std::move(seats));
  }

  // For each waiting pod the free host where its claim stands, which is taken; empty: none. Its devices are nobody
  // else's, whatever the ranks are by now.
  std::vector<std::string> claimed_hosts(State& state) {
    std::vector<std::string> hosts(state.held.pods.size());
    const DeviceLedger* devices = nodes_.devices();
    if (devices == nullptr) return hosts;
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      const kube::Pod& pod = *state.held.pods[i];
      const ClaimPtr claim = needs_claim(pod) ? devices->claim_of(pod) : nullptr;
      if (!claim || job_of(*claim) != state.held.view->job->id) continue;
      const std::string_view on = kube::value_or(claim->meta.annotations, names::kSlurmNode);
      const auto host = std::ranges::find_if(state.free, [&](const std::string& name) {
        const NodePtr node = nodes_.by_slurm_name(name);
        return node && node->meta.key.name == on;
      });
      if (host == state.free.end()) continue;
      hosts[i] = std::move(*host);
      state.free.erase(host);
    }
    return hosts;
  }

  // Those that have no host yet, in order of rank, to the free ones.
  void seat(State& state, std::vector<std::string> hosts) {
    auto next = state.free.begin();
    std::vector<PodPtr> pods = std::exchange(state.held.pods, {});
    for (std::size_t i = 0; i < pods.size(); ++i) {
      if (hosts[i].empty() && next != state.free.end()) hosts[i] = std::move(*next++);
      if (hosts[i].empty()) {
        overflow(state, pods[i]);
        continue;
      }
      state.held.pods.push_back(std::move(pods[i]));
      state.held.hosts.push_back(std::move(hosts[i]));
    }
    state.free.erase(state.free.begin(), next);
  }

  // The job its label names has no node for it: it counts on the next one that was submitted for it.
  void overflow(const State& full, const PodPtr& pod) {
    const auto next = std::find_if(states_.begin() + (&full - states_.data()) + 1, states_.end(),
                                   [&](const State& s) { return names_pod(*s.held.view, pod->meta.uid); });
    if (next != states_.end()) {
      next->held.pods.push_back(pod);
      sort_by_rank(next->held.pods);
    } else {
      out_.uncovered.push_back(pod);
    }
  }

  // Hosts that a living gang has free go to those who have no job, then to those whose job still waits. It need not
  // have been bound yet: a member may be made anew while the others wait for their volumes.
  void refill() {
    for (State& state : states_) {
      if (state.held.members() == 0 || state.free.empty()) continue;
      take(state, out_.uncovered);
      for (State& other : states_) {
        if (other.held.view->job->states.base == slurm::JobState::kPending) take(state, other.held.pods);
      }
    }
  }
  void take(State& state, std::vector<PodPtr>& from) {
    for (std::size_t i = 0; !state.free.empty() && i < from.size();) {
      if (!has_room(state, from[i])) {
        ++i;
        continue;
      }
      state.held.pods.push_back(from[i]);
      state.held.hosts.push_back(state.free.front());
      from.erase(from.begin() + static_cast<std::ptrdiff_t>(i));
      state.free.erase(state.free.begin());
    }
  }
  // Slurm gives others what its job does not hold of a node.
  bool has_room(const State& state, const PodPtr& pod) const {
    const JobRecord& record = state.held.view->record;
    if (!record.task && record.cpus == 0) return true;
    return unit_.root && has_room_for(record, config_, *unit_.root, pod);
  }

  UnitJobs finish() {
    sort_by_rank(out_.uncovered);
    std::unordered_map<Uid, const kube::Pod*> live;
    std::unordered_map<JobId, std::vector<const kube::Pod*>> labelled;
    for (const PodPtr& pod : unit_.pods) {
      if (pod->terminal() || pod->deleting()) continue;
      live.emplace(pod->meta.uid, pod.get());
      labelled[label_of(*pod)].push_back(pod.get());
    }
    for (State& state : states_) {
      const JobView& view = *state.held.view;
      const auto needs = [&view](const kube::Pod& pod) { return !(pod.bound() && requeued_since(*view.job, pod)); };
      const auto named = [&](const Uid& uid) {
        const auto pod = live.find(uid);
        return pod != live.end() && needs(*pod->second);
      };
      if (state.held.members() > 0) {
        out_.jobs.push_back(std::move(state.held));
      } else if (std::ranges::any_of(view.record.uids, named) ||
                 std::ranges::any_of(labelled[view.job->id], [&](const kube::Pod* pod) { return needs(*pod); })) {
        out_.surplus.push_back(&view);
      }
    }
    return std::move(out_);
  }

  const Config& config_;
  const UnitView& unit_;
  const NodeView& nodes_;
  const UnitMemory& memory_;
  std::vector<State> states_;
  std::unordered_map<JobId, State*> by_id_;
  std::unordered_map<Uid, State*> by_pod_;  // the best whose record names it
  UnitJobs out_;
};

}  // namespace

bool wants_node(const kube::Pod& pod) {
  return !pod.terminal() && !pod.deleting() && !pod.bound() && pod.scheduling_gates.empty();
}

bool holds_node(const kube::Pod& pod) {
  return pod.bound() && !pod.terminal();
}

bool runs(const slurm::Job& job) {
  return job.states.base == slurm::JobState::kRunning && !job.states.has(slurm::JobFlag::kCompleting);
}

bool is_configuring(const slurm::Job& job) {
  return runs(job) && job.states.has(slurm::JobFlag::kConfiguring);
}

bool confirms(const slurm::Job& answer, const slurm::Job* known) {
  return known != nullptr && runs(answer) && runs(*known) && answer.restart_count == known->restart_count &&
         answer.submit_time == known->submit_time && answer.nodes == known->nodes;
}

bool requeued(const slurm::Job& job) {
  return job.restart_count > 0 || is_requeuing(job.states);
}

bool hides_requeue(const slurm::Job& known, const slurm::JobStates& now) {
  if (known.restart_count > 0 || now.ended()) return false;
  const bool waited = known.states.base == slurm::JobState::kPending;
  return waited ? requeued(known) : now.base == slurm::JobState::kPending;
}

bool launch_failed(const slurm::Job& job) {
  // Slurm's own programs write it with underscores.
  const std::string_view said = job.state_description;
  return job.hold && (said.contains("launch failed requeued held") || said.contains("launch_failed_requeued_held"));
}

bool requeued_since(const slurm::Job& job, std::uint32_t restarts) {
  if (job.restart_count > restarts) return true;
  // Slurm counts when it starts the job again; until then a flag says so.
  return job.restart_count == restarts && !runs(job) && is_requeuing(job.states);
}

bool is_another(const slurm::Job& job, const kube::Pod& pod) {
  const std::int64_t submitted = submitted_of(pod);
  return submitted > 0 && job.submit_time > 0 && job.submit_time != submitted;
}

bool stands_for(const JobRecord& record, const kube::Pod& pod, const Uid& unit) {
  if (record.legacy) return std::ranges::find(record.pods, pod.meta.key) != record.pods.end();
  if (record.unit == unit) return true;
  // Its group was changed after it had the job.
  if (std::ranges::find(record.uids, pod.meta.uid) != record.uids.end()) return true;
  // Or being handed on between two pods of one controller.
  const kube::OwnerReference* owner = pod.meta.controller();
  return owner != nullptr && owner->uid == record.owner && !record.pods.empty() &&
         record.pods.front().ns == pod.meta.key.ns;
}

bool has_successors(const JobRecord& record) {
  const bool single = record.uids.size() == 1 && record.uids.front() == record.unit;
  return !record.legacy && (!single || !record.owner.empty());
}

UnitJobs assign_pods(const Config& config, const UnitView& unit, const NodeView& nodes, const UnitMemory& memory) {
  return Assigner(config, unit, nodes, memory).run();
}

}  // namespace bascule::bridge
