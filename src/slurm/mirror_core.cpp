#include "slurm/mirror_core.hpp"

#include <algorithm>

namespace bascule::slurm {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kAtOnce = 8;  // direct questions in flight
constexpr std::uint32_t kTables = 2;
constexpr std::size_t kMaxGone = 4096;
constexpr Duration kFirstRetry = 100ms;
constexpr Duration kLastRetry = 5s;
constexpr Duration kForgiven = 10s;
// What looking may cost: a part of the time that slurmctld has.
constexpr int kStatesShare = 20;
constexpr int kFullShare = 20;
constexpr int kWantedFullShare = 3;
constexpr Duration kFullGap = 100ms;
constexpr Duration kSoon = 1s;
constexpr Duration kLongestNodesGap = 5s;
// Of regular tables. What no look tells of waits for them: two that came late must not put off the next for long.
constexpr Duration kLongestGap = 30s;
constexpr std::size_t kMaxStarts = 64;
// Of the jobs of a close look: each kind; and of them those of the highest priority.
constexpr std::size_t kClose = 64;
constexpr std::size_t kFirst = 32;
constexpr Duration kYoungFor = 10s;
// "Nothing is newer" is believed for so long, where no change of a job says otherwise: of a slurmctld whose clock was
// set back nothing is newer until its clock is where it was.
constexpr Duration kSameFor = 5min;
// Slurm tells a start by the second, and may be wrong for ever: guesses that nothing comes of cost less than twenty
// looks a minute.
constexpr Duration kStartHold = 1100ms;
constexpr Duration kGuessGap = 1min;

Duration regular_gap(Duration interval, Duration cost) {
  return std::max(interval, std::min(cost * kFullShare, kLongestGap));
}

}  // namespace

MirrorCore::MirrorCore(MirrorOptions options, TimePoint now)
    : options_(options), good_since_(now), retry_at_(now), count_from_(now), full_wanted_(now), nodes_wanted_(now) {
  look_.next = now;
}

// --- what to ask -----------------------------------------------------------------------------------------------------

MirrorCore::Ask MirrorCore::make(Kind kind, TimePoint now) {
  Ask ask;
  ask.kind = kind;
  ask.at = now;
  ask.serial = ++serial_;
  return ask;
}

MirrorCore::Ask MirrorCore::make_job(JobId id, TimePoint now) {
  Ask ask = make(Kind::kJob, now);
  ask.job = id;
  const auto* entry = jobs_.entry(id);
  if (entry && entry->lost && entry->lacking >= kTables) ask.epoch = entry->epoch;
  return ask;
}

// Fast right after a poke or a change, then ever slower: a quarter of the quiet time, so each wait is 1.25 times the
// one before. Where a start is only expected, less often and soon no more.
Duration MirrorCore::pace(TimePoint now) const {
  const Duration brisk = options_.fast_interval * 5 / 2;
  Duration wait = options_.rest_interval;
  const auto slower = [&](TimePoint since, Duration hold, Duration first, int part) {
    if (since == TimePoint::min()) return options_.rest_interval;
    const Duration quiet = now - since - hold;
    return std::max(first, std::min(quiet / part, options_.rest_interval));
  };
  wait = std::min(wait, slower(poked_at_, 10s, brisk, 4));
  wait = std::min(wait, slower(changed_at_, 2s, brisk, 4));
  wait = std::min(wait, slower(start_expected_at_, kStartHold, 2 * brisk, 1));
  if (poked_at_ != TimePoint::min() && now - poked_at_ < 2s) wait = options_.fast_interval;
  return wait;
}

// One slow answer must not slow the looks beyond rest.
void MirrorCore::Look::answered(const Ask& ask, TimePoint now, Duration rest) noexcept {
  cost = (cost + (now - ask.at)) / 2;
  free = now + std::min(cost * kStatesShare, rest);
}

TimePoint MirrorCore::full_due() const {
  if (full_done_ == TimePoint::min()) return full_wanted_;
  const TimePoint regular = full_done_ + regular_gap(options_.full_interval, full_cost_.usual);
  const TimePoint wanted = std::max(full_wanted_, full_done_ + std::max(kFullGap, full_cost_.usual * kWantedFullShare));
  return std::min(regular, wanted);
}

TimePoint MirrorCore::nodes_due() const {
  if (!options_.want_nodes) return TimePoint::max();
  if (nodes_done_ == TimePoint::min()) return nodes_wanted_;
  const TimePoint regular = nodes_done_ + regular_gap(options_.node_interval, nodes_cost_.usual);
  // Somebody waits for it. One slow answer, as the first one of a slurmrestd under load, must not make him wait long.
  const Duration gap = std::min(nodes_cost_.usual * kWantedFullShare, kLongestNodesGap);
  const TimePoint wanted = std::max(nodes_wanted_, nodes_done_ + std::max<Duration>(kSoon, gap));
  return std::min(regular, wanted);
}

bool MirrorCore::asking() const noexcept {
  return look_.asked || close_look_.asked || jobs_asked_ || nodes_asked_ || !asked_jobs_.empty() ||
         !asked_nodes_.empty();
}

std::vector<MirrorCore::Ask> MirrorCore::questions(TimePoint now) {
  std::vector<Ask> asks;
  if (failing_) {
    if (asking() || now < retry_at_) return asks;
    look_.asked = true;
    asks.push_back(make(Kind::kStates, now));
    return asks;
  }
  if (!jobs_asked_ && now >= full_due()) {
    jobs_asked_ = true;
    full_wanted_ = TimePoint::max();
    asks.push_back(make(Kind::kJobs, now));
    asks.back().since = now - jobs_whole_ < kSameFor ? jobs_since_ : 0;
    look_.next = close_look_.next = now + pace(now);
  } else if (!look_.asked && synced_ && now >= look_.due()) {
    look_.asked = true;
    close_look_.next = now + pace(now);
    unconfirmed_.clear();
    asks.push_back(make(Kind::kStates, now));
  } else if (now >= close_due()) {
    close_look_.next = now + pace(now);
    if (std::vector<JobId> ids = to_look_at(now); !ids.empty()) {
      close_look_.asked = true;
      asks.push_back(make(Kind::kStates, now));
      asks.back().jobs = std::move(ids);
    }
  }
  if (!nodes_asked_ && now >= nodes_due()) {
    nodes_asked_ = true;
    nodes_wanted_ = TimePoint::max();
    asks.push_back(make(Kind::kNodes, now));
    asks.back().since = now - nodes_whole_ < kSameFor ? nodes_since_ : 0;
  }
  while (asked_jobs_.size() < kAtOnce && !wanted_.empty()) {
    const JobId id = *wanted_.begin();
    wanted_.erase(wanted_.begin());
    if (asked_jobs_.insert(id).second) asks.push_back(make_job(id, now));
  }
  while (asked_nodes_.size() < kAtOnce && !wanted_nodes_.empty()) {
    const std::string name = *wanted_nodes_.begin();
    wanted_nodes_.erase(wanted_nodes_.begin());
    if (!asked_nodes_.insert(name).second) continue;
    asks.push_back(make(Kind::kNode, now));
    asks.back().node = name;
    const auto* entry = nodes_.entry(name);
    if (entry && entry->lost && entry->lacking >= kTables) asks.back().epoch = entry->epoch;
  }
  return asks;
}

// max: not before something happens.
TimePoint MirrorCore::close_due() const noexcept {
  if (!synced_ || close_look_.asked) return TimePoint::max();
  if (!unconfirmed_.empty()) return close_look_.free;
  return young_.empty() && first_.empty() ? TimePoint::max() : close_look_.due();
}

// Those whose state somebody wants confirmed, and those that may start next; of these, what does not wait any more is
// forgotten on the way.
std::vector<JobId> MirrorCore::to_look_at(TimePoint now) {
  const auto waits = [this](JobId id) {
    const auto job = jobs_.find(id);
    return job && job->states.base == JobState::kPending;
  };
  std::erase_if(first_, [&](JobId id) { return !waits(id) || young_.contains(id); });
  std::vector<JobId> ids = first_;
  for (std::size_t i = 0; i < kClose && !unconfirmed_.empty(); ++i) {
    ids.push_back(*unconfirmed_.begin());
    unconfirmed_.erase(unconfirmed_.begin());
  }
  const std::size_t most = ids.size() + kClose - kFirst;
  for (auto it = young_.begin(); it != young_.end() && ids.size() < most;) {
    const auto [id, since] = *it;
    if (now - since < kYoungFor && waits(id)) {
      ids.push_back(id);
      ++it;
    } else {
      it = young_.erase(it);
    }
  }
  return ids;
}

std::vector<MirrorCore::Ask> MirrorCore::next(TimePoint now) {
  start_is_due(now);
  std::vector<Ask> asks = questions(now);
  for (const Ask& ask : asks) open_.emplace(ask.serial, ask.at);
  return asks;
}

// The answer to an open question wakes by itself.
TimePoint MirrorCore::wake(TimePoint now) const {
  if (failing_) return asking() && retry_at_ <= now ? TimePoint::max() : retry_at_;
  TimePoint when = TimePoint::max();
  if (!jobs_asked_) when = std::min(when, full_due());
  if (!look_.asked && synced_) when = std::min(when, look_.due());
  when = std::min(when, close_due());
  if (!starts_.empty()) when = std::min(when, *starts_.begin());
  if (!nodes_asked_) when = std::min(when, nodes_due());
  return when;
}

// When jobs that somebody waits for may start, as Slurm guesses, and which are first.
void MirrorCore::foresee(TimePoint now) {
  starts_.clear();
  if (!options_.expect_starts) return;
  std::vector<std::pair<std::int64_t, JobId>> waiting;  // the first ones are the smallest
  for (const auto& [id, job] : jobs_.records()) {
    if (!job->external || job->hold || job->states.base != JobState::kPending) continue;
    waiting.emplace_back(-std::int64_t{job->priority.value_or(0)}, id);
    const TimePoint at{std::chrono::seconds(job->start_time) - clock_ahead_};
    if (job->start_time <= 0 || at <= now || at > now + 24h) continue;
    starts_.insert(at);
    if (starts_.size() > kMaxStarts) starts_.erase(std::prev(starts_.end()));
  }
  const auto end = waiting.begin() + static_cast<std::ptrdiff_t>(std::min(kFirst, waiting.size()));
  std::partial_sort(waiting.begin(), end, waiting.end());
  first_.clear();
  for (auto it = waiting.begin(); it != end; ++it) first_.push_back(it->second);
}

void MirrorCore::start_is_due(TimePoint now) {
  if (starts_.empty() || *starts_.begin() > now) return;
  starts_.erase(starts_.begin(), starts_.upper_bound(now));
  const TimePoint last = start_expected_at_;
  if (last == TimePoint::min() || changed_at_ > last || now - last >= kGuessGap) expect_start(now);
}

// Serials grow with time: the first open question is the oldest.
bool MirrorCore::counts(const Ask& ask) const noexcept {
  const bool pause = !open_.empty() && open_.begin()->second + kSoon < ask.at;
  return ask.at >= count_from_ && !pause;
}

// --- what an answer means --------------------------------------------------------------------------------------------

void MirrorCore::good(TimePoint now) {
  if (reachable_) return;
  reachable_ = true;
  failing_ = false;
  good_since_ = now;
  // The pause ends here: it may have come up just now, without its state yet.
  count_from_ = now + options_.settle;
  why_.clear();
  full_wanted_ = std::min(full_wanted_, now);
  nodes_wanted_ = std::min(nodes_wanted_, now);
  look_.next = now;
  changed_at_ = now;
}

// Whatever was absent before proves nothing any more.
void MirrorCore::disturb(TimePoint now) {
  ++epoch_;
  count_from_ = now + options_.settle;
  counted_tables_ = 0;
  jobs_since_ = 0;
  nodes_since_ = 0;
  gone_.clear();
  gone_order_.clear();
  started_.clear();
}

void MirrorCore::failed(const Ask& ask, TimePoint now, std::string why) {
  abandoned(ask);
  if (ask.kind == Kind::kJob) wanted_.insert(ask.job);
  disturb(now);
  const bool reachable_was = std::exchange(reachable_, false);
  failing_ = true;
  why_ = std::move(why);
  // One kind of question that fails for ever, while others are answered, must not make a storm of them.
  if (reachable_was) away_at_ = now;
  if (reachable_was && now - good_since_ > kForgiven) back_off_ = {};
  back_off_ = back_off_ == Duration{} ? kFirstRetry : std::min(kLastRetry, back_off_ * 2);
  retry_at_ = now + back_off_;
}

void MirrorCore::abandoned(const Ask& ask) {
  open_.erase(ask.serial);
  switch (ask.kind) {
    case Kind::kStates:
      look_of(ask).asked = false;
      break;
    case Kind::kJobs:
      jobs_asked_ = false;
      break;
    case Kind::kJob:
      asked_jobs_.erase(ask.job);
      break;
    case Kind::kNodes:
      nodes_asked_ = false;
      break;
    case Kind::kNode:
      asked_nodes_.erase(ask.node);
      break;
  }
}

void MirrorCore::answered(const Ask& ask, TimePoint now, const std::vector<JobBrief>& states) {
  abandoned(ask);
  good(now);
  look_of(ask).answered(ask, now, options_.rest_interval);
  std::vector<JobId> differ;
  jobs_.begin_look();
  for (const JobBrief& brief : states) {
    const auto* entry = jobs_.in_look(brief.id);
    if (entry && entry->known_at > ask.at) continue;
    if (entry && entry->record->states == brief.states && !entry->lost) {
      jobs_.confirm(brief.id, ask.at);
      asked_about_.erase(brief.id);
      continue;
    }
    const auto [it, fresh] = asked_about_.try_emplace(brief.id, brief.states);
    if (!fresh && it->second == brief.states) continue;
    it->second = brief.states;
    changed_at_ = now;
    note_start(brief, entry, now);
    note_change(ask, now);
    if (!take_state(brief, jobs_.find(brief.id), ask, now)) differ.push_back(brief.id);
  }
  want_jobs(differ, now);
  close_look_.next = now + pace(now);
  if (!ask.jobs.empty()) return take_unnamed(ask, now);
  look_.next = close_look_.next;
  forget_unlisted(states);
  // A live job that is not in the list any more: the full table says more.
  if (jobs_.look_lacks_any(ask.at)) full_wanted_ = std::min(full_wanted_, now);
}

// Those that were asked about and are not named: the same.
void MirrorCore::take_unnamed(const Ask& ask, TimePoint now) {
  for (const JobId id : ask.jobs) {
    if (!jobs_.look_lacks(id, ask.at)) continue;
    young_.erase(id);
    std::erase(first_, id);
    full_wanted_ = std::min(full_wanted_, now);
  }
}

// What was asked about jobs that are listed no more.
void MirrorCore::forget_unlisted(const std::vector<JobBrief>& states) {
  if (asked_about_.empty()) return;
  std::unordered_map<JobId, JobStates> listed;
  for (const JobBrief& brief : states) listed.insert(asked_about_.extract(brief.id));
  asked_about_ = std::move(listed);
}

void MirrorCore::note_start(const JobBrief& brief, const JobTable::Entry* entry, TimePoint now) {
  const bool waited = entry != nullptr && !entry->lost && entry->record->states.base == JobState::kPending;
  if (waited && brief.states.base == JobState::kRunning) {
    started_.insert_or_assign(brief.id, Started{now, entry->record->restart_count});
  } else {
    started_.erase(brief.id);
  }
}

// What a look said of the job's start holds for the run that the record speaks of, or for none.
void MirrorCore::check_start(const Job& job) {
  const auto it = started_.find(job.id);
  if (it == started_.end()) return;
  const auto before = jobs_.find(job.id);
  const bool same_run = job.states.base == JobState::kRunning && job.restart_count == it->second.restarts && before &&
                        same_one(*before, job);
  if (!same_run) started_.erase(it);
}

std::optional<TimePoint> MirrorCore::started_by(JobId id) const noexcept {
  const auto it = started_.find(id);
  const auto job = jobs_.find(id);
  if (it == started_.end() || !job || job->states.base != JobState::kRunning) return std::nullopt;
  return it->second.by;
}

// False: this job is worth a question of its own.
bool MirrorCore::take_state(const JobBrief& brief, const std::shared_ptr<const Job>& known, const Ask& ask,
                            TimePoint now) {
  if (!wants_detail_ || wants_detail_(brief.id, known.get(), brief.states)) return false;
  if (!known) return true;
  // Its id may have been given anew: a new state with the record of before would make another's job ours.
  if (jobs_.entry(brief.id)->lost || (known->states.ended() && !brief.states.ended())) return false;
  Job changed = *known;
  changed.states = brief.states;
  jobs_.learn(brief.id, std::move(changed), ask.at, now);
  return true;
}

// One by one, or by the full table when that is cheaper.
void MirrorCore::want_jobs(const std::vector<JobId>& ids, TimePoint now) {
  const auto count = static_cast<int>(std::min<std::size_t>(ids.size() + wanted_.size(), 1'000'000));
  // So many at once, each of which waits for the others.
  const Duration one_by_one = job_cost_ * count / kAtOnce;
  if (count > static_cast<int>(kAtOnce) && one_by_one > std::max<Duration>(full_cost_.usual, 20ms)) {
    // The table brings them all. One that is on its way may be too old: the next look will tell.
    if (!jobs_asked_) full_wanted_ = std::min(full_wanted_, now);
    for (const JobId id : ids) asked_about_.erase(id);
    return;
  }
  for (const JobId id : ids) wanted_.insert(id);
}

// Is this the table as it is now? An older one than we had is a stale answer or a clock set back; which of them, time
// tells.
bool MirrorCore::believe(const Ask& ask, TimePoint now, const JobList& table) {
  const bool stale = table.last_update != 0 && table.last_update < jobs_newest_;
  if (!stale || (doubted_ && counts(ask))) return true;
  if (!std::exchange(doubted_, true)) disturb(now);
  full_wanted_ = std::max(count_from_, now + kSoon);
  return false;
}

void MirrorCore::answered(const Ask& ask, TimePoint now, JobList table) {
  abandoned(ask);
  good(now);
  full_done_ = now;
  const bool missed = changed_since_table_ <= ask.at;
  if (missed || !table.unchanged) changed_since_table_ = TimePoint::max();
  if (table.unchanged) {
    // Nor is it believed while states change: slurmctld's clock was set back, and nothing is newer by its own word.
    if (missed) jobs_since_ = 0;
    if (ask.since == 0 || ask.since != jobs_since_) {  // unchanged since something that is no longer believed
      full_wanted_ = now;
      return;
    }
    jobs_.take_same_table(ask.at, epoch_, counts(ask));
    return trusted_table(ask, now, highest_);
  }
  jobs_whole_ = now;
  full_cost_.take(now - ask.at);
  if (!believe(ask, now, table)) return;

  std::vector<std::pair<JobId, Job>> rows;
  rows.reserve(table.jobs.size());
  std::uint32_t highest = 0;
  for (Job& job : table.jobs) {
    highest = std::max(highest, job.id.value);
    const auto known = jobs_.find(job.id);
    if (!known || known->states != job.states) changed_at_ = now;
    gone_.erase(job.id);
    check_start(job);
    rows.emplace_back(job.id, std::move(job));
  }
  for (const JobId id : table.same) {
    highest = std::max(highest, id.value);
    gone_.erase(id);
  }
  const bool plausible = jobs_.take_table(std::move(rows), ask.at, now, epoch_, counts(ask), table.same);
  if (!plausible) {
    doubted_ = true;
    disturb(now);
    full_wanted_ = std::max(count_from_, now + kSoon);
    return;
  }
  if (doubted_ && !counts(ask)) {
    full_wanted_ = std::max(count_from_, now + kSoon);
    return;
  }
  jobs_newest_ = table.last_update;
  // Not the mark of a controller that may not have read its state yet: what it has later may be older.
  jobs_since_ = counts(ask) ? table.last_update : 0;
  trusted_table(ask, now, highest);
}

void MirrorCore::trusted_table(const Ask& ask, TimePoint now, std::uint32_t highest) {
  doubted_ = false;
  synced_ = true;
  full_as_of_ = ask.at;
  full_serial_ = ask.serial;
  foresee(now);
  look_.next = std::min(look_.next, now + pace(now));
  bool live_job_lost = false;
  for (const JobId id : jobs_.lost()) live_job_lost |= !jobs_.find(id)->states.ended();
  if (live_job_lost) full_wanted_ = std::min(full_wanted_, std::max(count_from_, now + kSoon));
  if (!counts(ask)) return;
  highest_before_ = highest_;
  highest_ = highest;
  ++counted_tables_;
  for (const JobId id : jobs_.lacking(epoch_, kTables)) {
    if (jobs_.find(id)->states.ended()) {
      forget_job(id);
    } else {
      wanted_.insert(id);
    }
  }
}

void MirrorCore::forget_job(JobId id) {
  jobs_.forget(id);
  asked_about_.erase(id);
  started_.erase(id);
  remember_gone(id);
}

void MirrorCore::answered(const Ask& ask, TimePoint now, std::optional<Job> job) {
  abandoned(ask);
  good(now);
  // One that waited behind a table would else have the next ones read by a table too.
  job_cost_ = std::min(now - ask.at, job_cost_ * 9 / 8);
  if (job) {
    const auto before = jobs_.find(ask.job);
    if (!before || before->states != job->states) note_change(ask, now);
    const auto* known = jobs_.entry(ask.job);
    if (known && known->lost) {  // the table was wrong: the next one must be whole
      jobs_since_ = 0;
      full_wanted_ = std::min(full_wanted_, now + kSoon);
    }
    gone_.erase(ask.job);
    check_start(*job);
    // Overlapped by another answer: the next look may ask again.
    if (!jobs_.learn(ask.job, std::move(*job), ask.at, now)) asked_about_.erase(ask.job);
    return;
  }
  const auto* entry = jobs_.entry(ask.job);
  const bool absent = entry && entry->lost && entry->lacking >= kTables;
  if (!absent || entry->epoch != epoch_ || ask.epoch != epoch_ || !counts(ask)) return;
  forget_job(ask.job);
}

void MirrorCore::answered(const Ask& ask, TimePoint now, NodeList table) {
  abandoned(ask);
  good(now);
  nodes_done_ = now;
  if (table.unchanged) {
    if (ask.since == 0 || ask.since != nodes_since_) {
      nodes_wanted_ = now;
      return;
    }
    nodes_.take_same_table(ask.at, epoch_, counts(ask));
  } else {
    nodes_whole_ = now;
    nodes_cost_.take(now - ask.at);
    std::vector<std::pair<std::string, Node>> rows;
    rows.reserve(table.nodes.size());
    for (Node& node : table.nodes) {
      std::string name = node.name;
      rows.emplace_back(std::move(name), std::move(node));
    }
    if (!nodes_.take_table(std::move(rows), ask.at, now, epoch_, counts(ask))) {
      disturb(now);
      nodes_wanted_ = count_from_;
      return;
    }
    // Not the mark of a controller that may not have read its state yet: what it has later may be older.
    nodes_since_ = counts(ask) ? table.last_update : 0;
  }
  nodes_synced_ = true;
  nodes_as_of_ = std::max(nodes_as_of_, ask.at);
  if (!nodes_.lost().empty()) nodes_wanted_ = std::min(nodes_wanted_, std::max(count_from_, now + kSoon));
  if (counts(ask)) {
    for (const std::string& name : nodes_.lacking(epoch_, kTables)) wanted_nodes_.insert(name);
  }
}

void MirrorCore::answered(const Ask& ask, TimePoint now, std::optional<Node> node) {
  abandoned(ask);
  good(now);
  // One node's own answer does not know what is allocated on it: the table says that.
  if (node) {
    const auto* known = nodes_.entry(ask.node);
    if (known && known->lost) nodes_since_ = 0;  // the table was wrong: the next one must be whole
    nodes_wanted_ = std::min(nodes_wanted_, now);
    return;
  }
  const auto* entry = nodes_.entry(ask.node);
  const bool absent = entry && entry->lost && entry->lacking >= kTables;
  if (absent && entry->epoch == epoch_ && ask.epoch == epoch_ && counts(ask)) nodes_.forget(ask.node);
}

// --- what the owner says ---------------------------------------------------------------------------------------------

MirrorCore::Ask MirrorCore::direct(JobId id, TimePoint now) {
  return make_job(id, now);
}

void MirrorCore::learn(Job job, TimePoint now) {
  const JobId id = job.id;
  gone_.erase(id);
  check_start(job);
  while (!young_.empty() && now - young_.begin()->second > kYoungFor) young_.erase(young_.begin());
  if (options_.expect_starts) young_.insert_or_assign(id, now);
  jobs_.learn(id, std::move(job), now, now);
  poke(now);
}

void MirrorCore::look_soon(TimePoint now) {
  look_.next = std::min(look_.next, now + options_.fast_interval);
  close_look_.next = std::min(close_look_.next, look_.next);
}

void MirrorCore::poke(TimePoint now) {
  poked_at_ = now;
  look_soon(now);
}

void MirrorCore::look_at(const std::vector<JobId>& ids) {
  for (const JobId id : ids) {
    if (jobs_.find(id)) unconfirmed_.insert(id);
  }
}

void MirrorCore::expect_start(TimePoint now) {
  start_expected_at_ = now;
  look_soon(now);
}

void MirrorCore::want_full(TimePoint now) {
  full_wanted_ = std::min(full_wanted_, now);
}

// --- ids that are gone
// ------------------------------------------------------------------------------------------------

void MirrorCore::remember_gone(JobId id) {
  if (!gone_.insert(id).second) return;
  gone_order_.push_back(id);
  if (gone_order_.size() <= kMaxGone) return;
  gone_.erase(gone_order_.front());
  gone_order_.pop_front();
}

Knowledge MirrorCore::knowledge(JobId id) const noexcept {
  if (!reachable_ || !synced_) return Knowledge::kUnknown;
  if (jobs_.find(id)) return Knowledge::kPresent;
  if (asked_about_.contains(id)) return Knowledge::kUnknown;  // a look named it: the id was given anew
  if (gone_.contains(id)) return Knowledge::kGone;
  const bool below = id.value <= std::min(highest_, highest_before_);
  return below && counted_tables_ >= kTables ? Knowledge::kGone : Knowledge::kUnknown;
}

JobId MirrorCore::highest() const noexcept {
  return counted_tables_ >= kTables ? JobId{std::min(highest_, highest_before_)} : JobId{};
}

}  // namespace bascule::slurm
