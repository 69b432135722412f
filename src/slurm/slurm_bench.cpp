// What the Slurm room costs: hostlists of 100,000 names, the table of 5,000 jobs, one refresh of the mirror's table.
#include <benchmark/benchmark.h>

#include <fmt/format.h>

#include "slurm/decode.hpp"
#include "slurm/hostlist.hpp"
#include "slurm/mirror_core.hpp"
#include "testing/fake_slurm_json.hpp"

namespace bascule::slurm {
namespace {

constexpr std::size_t kJobs = 5000;

void hostlist_expand(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(expand_hostlist("rack[001-100]-gpu[0001-1000]"));
  state.SetItemsProcessed(state.iterations() * 100'000);
}
BENCHMARK(hostlist_expand)->Unit(benchmark::kMillisecond);

void hostlist_format(benchmark::State& state) {
  const auto names = expand_hostlist("rack[001-100]-gpu[0001-1000]").value();
  for (auto _ : state) benchmark::DoNotOptimize(format_hostlist(names));
  state.SetItemsProcessed(state.iterations() * 100'000);
}
BENCHMARK(hostlist_format)->Unit(benchmark::kMillisecond);

void hostlist_contains(benchmark::State& state) {
  const Hostlist list = Hostlist::parse("rack[001-100]-gpu[0001-1000]");
  for (auto _ : state) benchmark::DoNotOptimize(list.contains("rack077-gpu0998"));
}
BENCHMARK(hostlist_contains);

bascule::testing::SlurmModel::JobRecord job(std::uint32_t id) {
  bascule::testing::SlurmModel::JobRecord record;
  Job& view = record.view;
  view.id = JobId{id};
  view.states.base = id % 3 == 0 ? JobState::kPending : JobState::kRunning;
  view.name = "train-" + std::to_string(id);
  view.user = "ada";
  view.partition = "main";
  view.nodes = "rack1-gpu[008-012]";
  view.state_reason = "None";
  view.admin_comment = R"({"pods":["ns/pod"],"bascule":{"v":1,"bridge":"b","cluster":"c","unit":"u","uids":["x"]}})";
  view.gres_detail = {"gpu:h100:2(IDX:0-1)"};
  view.time_limit = 60;
  view.priority = id;
  view.submit_time = view.start_time = 1'800'000'000;
  return record;
}

std::string table() {
  std::string body = "{\"jobs\":[";
  for (std::uint32_t id = 1; id <= kJobs; ++id) {
    if (id > 1) body += ',';
    bascule::testing::write_job(body, job(id), true);
    // Fields of slurmrestd that are not read: the answer has about 4.9 kB a job.
    body.pop_back();
    for (int i = 0; i < 80; ++i) {
      body += fmt::format(R"(,"unread_{}":{{"set":true,"infinite":false,"number":{}}})", i, i);
    }
    body += '}';
  }
  return body + "],\"last_update\":{\"set\":true,\"infinite\":false,\"number\":5},\"errors\":[],\"warnings\":[]}";
}

void decode_job_table(benchmark::State& state) {
  const std::string body = table();
  for (auto _ : state) benchmark::DoNotOptimize(decode_jobs(body));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(body.size()));
  state.counters["jobs"] = kJobs;
}
BENCHMARK(decode_job_table)->Unit(benchmark::kMillisecond);

std::vector<Job> jobs() {
  std::vector<Job> out;
  for (std::uint32_t id = 1; id <= kJobs; ++id) out.push_back(job(id).view);
  return out;
}

// A full table in which nothing changed, and a look at the states.
void mirror_refresh(benchmark::State& state) {
  TimePoint now{std::chrono::hours(1)};
  MirrorCore core({}, now);
  const JobList list{false, jobs(), 5};
  std::vector<JobBrief> states;
  for (const Job& known : list.jobs) states.push_back({known.id, known.states});
  core.answered(core.next(now).front(), now, list);
  for (auto _ : state) {
    now += std::chrono::seconds(60);
    for (const MirrorCore::Ask& ask : core.next(now)) {
      if (ask.kind == MirrorCore::Kind::kJobs) core.answered(ask, now, list);
      if (ask.kind == MirrorCore::Kind::kNodes) core.abandoned(ask);
    }
    MirrorCore::Ask look;
    look.at = now;
    core.answered(look, now, states);
  }
  state.counters["jobs"] = kJobs;
}
BENCHMARK(mirror_refresh)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace bascule::slurm
