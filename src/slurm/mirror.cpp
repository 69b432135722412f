#include "slurm/mirror.hpp"

#include <map>
#include <set>

#include "slurm/hostlist.hpp"
#include "slurm/mirror_core.hpp"

namespace bascule::slurm {

struct ClusterMirror::Impl {
  using Ask = MirrorCore::Ask;
  using Kind = MirrorCore::Kind;

  Impl(Loop& l, Client& c, MirrorOptions o) : loop(l), client(c), core(o, l.now()), gate(l), bell(l), news(l) {}

  Loop& loop;
  Client& client;
  MirrorCore core;
  Gate gate;
  Bell bell;  // there may be something to ask
  Bell news;  // an answer came in
  std::stop_source stop;
  std::vector<std::function<void(const JobChange&)>> on_job;
  std::map<SharedText, std::set<JobId>> required;  // jobs that have not ended, by the hostlist they require
  std::vector<std::function<void(const NodeChange&)>> on_node;
  std::vector<std::function<void(bool)>> on_health;
  bool started = false;
  bool told = false;  // reachable, as last told
  bool telling = false;

  // Handlers may learn() and poke(): what that changes is told after what is being told, in order.
  void tell() {
    if (std::exchange(telling, true)) return;
    while (true) {
      const auto jobs = core.take_job_changes();
      const auto nodes = core.take_node_changes();
      const bool health = told != core.reachable();
      if (jobs.empty() && nodes.empty() && !health) break;
      if (health) {
        told = core.reachable();
        for (const auto& handler : on_health) handler(told);
      }
      for (const auto& change : nodes) {
        for (const auto& handler : on_node) handler({change.before, change.after});
      }
      for (const auto& change : jobs) {
        note_required(change.before.get(), change.after.get());
        for (const auto& handler : on_job) handler({change.before, change.after});
      }
    }
    telling = false;
  }

  void note_required(const Job* before, const Job* after) {
    const auto requires_some = [](const Job* job) {
      return job != nullptr && !job->required_nodes.empty() && !job->states.ended();
    };
    if (requires_some(before)) {
      const auto known = required.find(before->required_nodes);
      if (known != required.end()) known->second.erase(before->id);
      if (known != required.end() && known->second.empty()) required.erase(known);
    }
    if (requires_some(after)) required[after->required_nodes].insert(after->id);
  }

  void heard() {
    tell();
    bell.notify();
    news.notify();
  }

  Task<> put(const Ask& ask) {
    switch (ask.kind) {
      case Kind::kStates: {
        const auto states = co_await client.job_states(ask.jobs, stop.get_token());
        core.answered(ask, loop.now(), states);
        break;
      }
      case Kind::kJobs: {
        JobList table =
            co_await client.list_jobs(ask.since, stop.get_token(), [this](JobId id) { return core.jobs().find(id); });
        core.answered(ask, loop.now(), std::move(table));
        break;
      }
      case Kind::kJob: {
        std::optional<Job> job = co_await client.get_job(ask.job, stop.get_token());
        core.answered(ask, loop.now(), std::move(job));
        break;
      }
      case Kind::kNodes: {
        NodeList table = co_await client.list_nodes(ask.since, stop.get_token());
        core.answered(ask, loop.now(), std::move(table));
        break;
      }
      case Kind::kNode: {
        std::optional<Node> node = co_await client.get_node(ask.node, stop.get_token());
        core.answered(ask, loop.now(), std::move(node));
        break;
      }
    }
  }

  Task<> perform(Ask ask) {
    try {
      co_await put(ask);
    } catch (const Error& e) {
      core.failed(ask, loop.now(), e.what());
    } catch (const net::Error& e) {
      if (e.kind() == net::Error::Kind::kStopped) {
        core.abandoned(ask);
      } else {
        core.failed(ask, loop.now(), e.what());
      }
    }
    if (!stop.stop_requested()) heard();
  }

  Task<> run() {
    while (!stop.stop_requested()) {
      const TimePoint now = loop.now();
      core.set_clock(now, loop.wall());
      for (Ask& ask : core.next(now)) spawn(gate, perform(std::move(ask)));
      (void)co_await bell.wait(stop.get_token(), core.wake(now));
    }
  }
};

ClusterMirror::ClusterMirror(Loop& loop, Client& client, MirrorOptions options)
    : impl_(std::make_unique<Impl>(loop, client, options)) {}
ClusterMirror::~ClusterMirror() = default;

void ClusterMirror::on_job(std::function<void(const JobChange&)> handler) {
  BASCULE_CHECK(!impl_->started, "handlers are given before start()");
  impl_->on_job.push_back(std::move(handler));
}
void ClusterMirror::on_node(std::function<void(const NodeChange&)> handler) {
  BASCULE_CHECK(!impl_->started, "handlers are given before start()");
  impl_->on_node.push_back(std::move(handler));
}
void ClusterMirror::on_health(std::function<void(bool)> handler) {
  BASCULE_CHECK(!impl_->started, "handlers are given before start()");
  impl_->on_health.push_back(std::move(handler));
}
void ClusterMirror::set_wants_detail(WantsDetail wants) {
  BASCULE_CHECK(!impl_->started, "what is worth a question is said before start()");
  impl_->core.set_wants_detail(std::move(wants));
}

void ClusterMirror::start() {
  BASCULE_CHECK(!impl_->started, "a mirror is started once");
  impl_->started = true;
  spawn(impl_->gate, impl_->run());
}

Task<> ClusterMirror::stop() {
  impl_->stop.request_stop();
  impl_->bell.notify();
  impl_->news.notify();
  co_await impl_->gate.close();
}

void ClusterMirror::poke() {
  impl_->core.poke(impl_->loop.now());
  impl_->bell.notify();
}

void ClusterMirror::poke_nodes() {
  impl_->core.poke_nodes(impl_->loop.now());
  impl_->bell.notify();
}

void ClusterMirror::expect_start() {
  impl_->core.expect_start(impl_->loop.now());
  impl_->bell.notify();
}

void ClusterMirror::look_at(const std::vector<JobId>& ids) {
  impl_->core.look_at(ids);
  impl_->bell.notify();
}

void ClusterMirror::want(JobId id) {
  impl_->core.want(id);
  impl_->bell.notify();
}

bool ClusterMirror::synced() const noexcept {
  return impl_->core.synced();
}
bool ClusterMirror::reachable() const noexcept {
  return impl_->core.reachable();
}
std::string ClusterMirror::why_unreachable() const {
  return impl_->core.why_unreachable();
}
TimePoint ClusterMirror::full_as_of() const noexcept {
  return impl_->core.full_as_of();
}
bool ClusterMirror::listed_since_away() const noexcept {
  return impl_->core.listed_since_away();
}
bool ClusterMirror::may_be_lost(JobId id) const noexcept {
  return impl_->core.may_be_lost(id, impl_->loop.now());
}
TimePoint ClusterMirror::nodes_as_of() const noexcept {
  return impl_->core.nodes_as_of();
}
TimePoint ClusterMirror::confirmed_at(JobId id) const noexcept {
  const auto* entry = impl_->core.jobs().entry(id);
  return entry ? entry->confirmed_at : TimePoint::min();
}
std::optional<TimePoint> ClusterMirror::started_by(JobId id) const noexcept {
  return impl_->core.started_by(id);
}
Knowledge ClusterMirror::knowledge(JobId id) const noexcept {
  return impl_->core.knowledge(id);
}
JobId ClusterMirror::highest() const noexcept {
  return impl_->core.highest();
}
std::shared_ptr<const Job> ClusterMirror::job(JobId id) const noexcept {
  return impl_->core.jobs().find(id);
}
std::shared_ptr<const Node> ClusterMirror::node(const std::string& name) const noexcept {
  return impl_->core.nodes().find(name);
}
std::optional<JobId> ClusterMirror::job_that_requires(const std::string& node) const {
  for (const auto& [text, jobs] : impl_->required) {
    if (hostlist_contains(text, node).value_or(true)) return *jobs.begin();
  }
  return std::nullopt;
}
bool ClusterMirror::listed_lately() {
  constexpr Duration kServes = std::chrono::seconds(60);
  if (full_as_of() >= impl_->loop.now() - kServes) return true;
  want_full();
  return false;
}
bool ClusterMirror::nodes_synced() const noexcept {
  return impl_->core.nodes_synced();
}
const std::unordered_map<JobId, std::shared_ptr<const Job>>& ClusterMirror::jobs() const noexcept {
  return impl_->core.jobs().records();
}
const std::unordered_map<std::string, std::shared_ptr<const Node>>& ClusterMirror::nodes() const noexcept {
  return impl_->core.nodes().records();
}

void ClusterMirror::learn(Job job) {
  impl_->core.learn(std::move(job), impl_->loop.now());
  impl_->heard();
}

Task<std::optional<Job>> ClusterMirror::ask(JobId id, std::stop_token stop) {
  const MirrorCore::Ask ask = impl_->core.direct(id, impl_->loop.now());
  std::optional<Job> job;
  try {
    job = co_await impl_->client.get_job(id, stop);
  } catch (const Error& e) {
    impl_->core.failed(ask, impl_->loop.now(), e.what());
    impl_->heard();
    throw;
  }
  impl_->core.answered(ask, impl_->loop.now(), job);
  impl_->heard();
  co_return job;
}

void ClusterMirror::want_full() {
  impl_->core.want_full(impl_->loop.now());
  impl_->bell.notify();
}

Task<bool> ClusterMirror::next_full(std::stop_token stop, TimePoint deadline) {
  const std::uint64_t after = impl_->core.last_serial();
  want_full();
  while (impl_->core.full_serial() <= after) {
    if (impl_->stop.stop_requested()) co_return false;
    const bool heard = co_await impl_->news.wait(stop, deadline);
    if (!heard) co_return false;
  }
  co_return true;
}

}  // namespace bascule::slurm
