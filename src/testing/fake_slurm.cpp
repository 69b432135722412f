#include "testing/fake_slurm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "testing/fake_slurm_json.hpp"

namespace bascule::testing {

struct FakeSlurm::Route {
  std::string endpoint;  // "GET job"
  std::string version;
  std::string id;  // job id or node name
  std::int64_t since = 0;
  std::uint32_t job = 0;         // id as a number, 0 if it is none
  std::vector<JobId> jobs = {};  // job_id of the query
};

namespace {

net::ServerResponse text(int status, std::string body, std::string type = "text/plain") {
  net::ServerResponse response;
  response.status = status;
  response.headers.add("Content-Type", std::move(type));
  response.body = std::move(body);
  return response;
}

net::ServerResponse json(int status, std::string body) {
  return text(status, std::move(body), "application/json");
}

// HTTP status of a refusal, as 26.05 gives it.
int status_of(const SlurmNo& no) {
  switch (no.number) {
    case 2017:
      return 404;
    case 9202:
    case 9207:
    case 9209:
    case 2189:
    case -1:
      return 500;
    default:
      return 422;
  }
}

net::ServerResponse refuse(const SlurmModelOptions& about, const SlurmNo& no) {
  return json(status_of(no), "{" + slurm_envelope(about, {no}) + "}");
}

}  // namespace

FakeSlurm::FakeSlurm(Loop& loop, FakeSlurmOptions options)
    : loop_(loop), options_(std::move(options)), model_(loop.wall(), options_.model) {
  model_.add_partition("main", true);
}

net::Handler FakeSlurm::handler() {
  return [this](const net::ServerRequest& request, std::stop_token stop) { return serve(request, std::move(stop)); };
}

SlurmModel& FakeSlurm::model() {
  model_.catch_up(now());
  return model_;
}

JobId FakeSlurm::submit(slurm::JobDescription job, std::optional<Duration> runs_for, bool external) {
  return model_.submit(now(), std::move(job), external, runs_for, "ada").value();
}

void FakeSlurm::add_nodes(std::string_view conf) {
  model_.add_node(now(), conf, false).value();
}

void FakeSlurm::remember() {
  old_["GET jobs"] = list_jobs(0).body;
  old_["GET jobs/state"] = act({.endpoint = "GET jobs/state", .version = {}, .id = {}}, "").body;
  old_["GET nodes"] = list_nodes(0).body;
}

std::size_t FakeSlurm::calls(std::string_view endpoint) const {
  const auto it = calls_.find(endpoint);
  return it == calls_.end() ? 0 : it->second;
}

void FakeSlurm::forget_calls() {
  calls_.clear();
  all_calls_ = 0;
}

// --- one request -----------------------------------------------------------------------------------------------------

Task<net::ServerResponse> FakeSlurm::serve(const net::ServerRequest& request, std::stop_token stop) {
  using Kind = FakeSlurmFault::Kind;
  constexpr Duration kForEver = std::chrono::hours(24);
  const FakeSlurmFault fault = plan_ ? plan_(request) : FakeSlurmFault{};
  const net::Target target = net::parse_target(request.target);
  ++all_calls_;
  if (fault.before > Duration{}) (void)co_await sleep_for(loop_, fault.before, stop);
  if (fault.kind == Kind::kRefuseConnection) co_return text(502, "<html>Bad Gateway</html>", "text/html");
  if (fault.kind == Kind::kHtml404) co_return text(404, "<html>not here</html>", "text/html");
  if (fault.kind == Kind::kSilence) (void)co_await sleep_for(loop_, kForEver, stop);

  Route route;
  std::string_view path = target.path;
  const std::string_view prefix = "/slurm/";
  if (!path.starts_with(prefix)) co_return text(404, "Unable find requested URL.");
  path.remove_prefix(prefix.size());
  const std::size_t slash = path.find('/');
  route.version = path.substr(0, slash);
  path.remove_prefix(slash == std::string_view::npos ? path.size() : slash + 1);
  if (path.ends_with('/')) path.remove_suffix(1);
  if (std::ranges::find(options_.versions, route.version) == options_.versions.end()) {
    co_return text(404, "Unable find requested URL.");
  }
  for (const std::string_view with_id : {"job/", "node/", "resources/", "partition/"}) {
    if (!path.starts_with(with_id) || path == "job/submit") continue;
    route.id = net::percent_decode(path.substr(with_id.size()));
    path = with_id.substr(0, with_id.size() - 1);
  }
  route.endpoint = request.method + " " + std::string(path);
  std::from_chars(route.id.data(), route.id.data() + route.id.size(), route.job);
  const std::string_view since = target.get("update_time");
  std::from_chars(since.data(), since.data() + since.size(), route.since);
  for (const auto& [key, value] : target.query) {
    if (key == "job_id") std::from_chars(value.data(), value.data() + value.size(), route.jobs.emplace_back().value);
  }
  ++calls_[route.endpoint];

  const std::string_view token = request.headers.get("X-SLURM-USER-TOKEN");
  if (token.empty()) co_return text(401, "Authentication failure");
  if (route.endpoint == "GET ping") co_return act(route, "");
  if (options_.accepts && !options_.accepts(token)) {
    co_return json(511, "{" + slurm_envelope(options_.model, {{1007, "Protocol authentication error"}}) + "}");
  }
  if (!controller_up_) {
    (void)co_await sleep_for(loop_, options_.message_timeout, stop);
    if (!controller_up_) co_return controller_down(route);
  }
  if (fault.kind == Kind::kRefused) {
    const SlurmNo refused{2036, "Requested topology configuration is not available"};
    co_return json(500, "{" + slurm_envelope(options_.model, {refused}) + "}");
  }
  if (fault.kind == Kind::kControllerHung) {
    (void)co_await sleep_for(loop_, options_.message_timeout, stop);
    const SlurmNo hung{5004, "Socket timed out on send/recv operation"};
    co_return json(500, "{" + slurm_envelope(options_.model, {hung}) + "}");
  }
  if (!request.body.empty() && request.headers.get("Content-Type") != "application/json") {
    co_return text(415, "Unsupported Media Type");
  }
  net::ServerResponse response = act(route, request.body);
  if (fault.kind == Kind::kOldData && old_.contains(route.endpoint)) response = json(200, old_[route.endpoint]);
  if (fault.after > Duration{}) (void)co_await sleep_for(loop_, fault.after, stop);
  switch (fault.kind) {
    case Kind::kDoneThen502:
      co_return text(502, "<html>Bad Gateway</html>", "text/html");
    case Kind::kDoneThenSilence:
      (void)co_await sleep_for(loop_, kForEver, stop);
      break;
    case Kind::kDoneThenEmpty:
      response.body.clear();
      break;
    case Kind::kDoneThenHalf:
      response.body.resize(response.body.size() / 2);
      break;
    default:
      break;
  }
  co_return response;
}

net::ServerResponse FakeSlurm::controller_down(const Route& route) const {
  const SlurmModelOptions& about = options_.model;
  if (route.endpoint == "DELETE job")
    return json(403, "{" + slurm_envelope(about, {{1, "Operation not permitted"}}) + "}");
  if (route.endpoint == "GET job" || route.endpoint == "GET jobs/state") {
    return json(500, "{" + slurm_envelope(about, {{-1, "Unspecified error"}}) + "}");
  }
  return json(502, "{" + slurm_envelope(about, {{1800, "Unable to contact slurm controller (connect failure)"}}) + "}");
}

net::ServerResponse FakeSlurm::list_jobs(std::int64_t since) {
  // As slurmctld compares: one second of grace for changes within the second of the last answer.
  if (since > 0 && since - 1 >= model_.last_job_update()) {
    return json(200, "{\"jobs\":[],\"last_update\":" + write_number(0) + "," +
                         slurm_envelope(options_.model, {}, {"Nothing changed since last update"}) + "}");
  }
  std::string body = "{\"jobs\":[";
  for (const auto& [id, job] : model_.jobs()) {
    if (!body.ends_with('[')) body += ',';
    write_job(body, job, true);
    if (!options_.unread.empty()) body.insert(body.size() - 1, options_.unread);
  }
  body += "],\"last_update\":" + write_number(model_.last_job_update()) + "," + slurm_envelope(options_.model) + "}";
  return json(200, std::move(body));
}

net::ServerResponse FakeSlurm::list_nodes(std::int64_t since) {
  if (since > 0 && since - 1 >= model_.last_node_update()) return text(304, "");
  std::string body = "{\"nodes\":[";
  for (const auto& [name, node] : model_.nodes()) {
    if (!body.ends_with('[')) body += ',';
    write_node(body, node, true);
  }
  body += "],\"last_update\":" + write_number(model_.last_node_update()) + "," + slurm_envelope(options_.model) + "}";
  return json(200, std::move(body));
}

net::ServerResponse FakeSlurm::act(const Route& route, const std::string& body) {
  const SlurmModelOptions& about = options_.model;
  model_.catch_up(now());
  if (route.endpoint == "GET ping") {
    const char* up = controller_up_ ? "UP" : "DOWN";
    return json(200, fmt::format(R"({{"pings":[{{"hostname":"c","pinged":"{}","responding":{},"latency":100,)"
                                 R"("mode":"primary","primary":true}}],{}}})",
                                 up, controller_up_, slurm_envelope(about)));
  }
  if (route.endpoint == "GET jobs") return list_jobs(route.since);
  if (route.endpoint == "GET nodes") return list_nodes(route.since);
  if (route.endpoint == "GET jobs/state") {
    std::string out = "{\"jobs\":[";
    const auto tell = [&out](JobId id, const SlurmModel::JobRecord& job) {
      if (!out.ends_with('[')) out += ',';
      out += fmt::format(R"({{"job_id":"{}","state":{}}})", id.value, write_states(job.view.states));
    };
    if (route.jobs.empty()) {
      for (const auto& [id, job] : model_.jobs()) tell(JobId{id}, job);
    }
    for (const JobId id : route.jobs) {
      if (const SlurmModel::JobRecord* job = model_.job(id)) tell(id, *job);
    }
    return json(200, out + "]," + slurm_envelope(about) + "}");
  }
  if (route.endpoint == "GET partitions") {
    if (route.since > 0 && route.since - 1 >= model_.last_partition_update()) return text(304, "");
    std::string out = "{\"partitions\":[";
    for (const slurm::Partition& partition : model_.partitions()) {
      if (!out.ends_with('[')) out += ',';
      write_partition(out, model_, partition);
    }
    return json(200, out + "]," + slurm_envelope(about, {}, {"Slurm accounting storage is disabled"}) + "}");
  }
  if (route.endpoint == "GET conf" && slurmctld_parameters_) {
    std::string words;
    for (const std::string& word : *slurmctld_parameters_)
      words += fmt::format("{}\"{}\"", words.empty() ? "" : ",", word);
    return json(200,
                fmt::format(R"({{"slurm_conf":{{"SlurmctldParameters":[{}]}},{}}})", words, slurm_envelope(about)));
  }
  if (route.endpoint == "GET conf") return text(404, "Not found");
  if (route.endpoint.ends_with(" node") || route.endpoint == "POST new/node") return act_on_node(route, body);
  return act_on_job(route, body);
}

net::ServerResponse FakeSlurm::act_on_job(const Route& route, const std::string& body) {
  const SlurmModelOptions& about = options_.model;
  const SlurmNo unknown{2017, "Invalid job id specified"};
  const SlurmModel::JobRecord* job = model_.job(JobId{route.job});
  if (route.endpoint == "POST job/submit") {
    const auto read = read_submit(body);
    if (!read) return refuse(about, read.error());
    if (!read->external && !read->script)
      return json(422, "{" + slurm_envelope(about, {{9000, "Invalid query"}}) + "}");
    if (read->external && read->script) return refuse(about, {2189, "Invalid external job"});
    const auto made = model_.submit(now(), read->job, read->external);
    if (!made) return refuse(about, made.error());
    const std::vector<SlurmNo> errors =
        read->unknown_flag ? std::vector<SlurmNo>{{9207, "Unable to parse flag"}} : std::vector<SlurmNo>{};
    return json(read->unknown_flag ? 500 : 200,
                fmt::format(R"({{"job_id":{},"step_id":"batch","job_submit_user_msg":"",{}}})", made->value,
                            slurm_envelope(about, errors, read->warnings)));
  }
  if (route.endpoint == "GET job") {
    if (!job) return refuse(about, unknown);
    std::string out = "{\"jobs\":[";
    write_job(out, *job, route.version > "v0.0.42");
    return json(
        200, out + "],\"last_update\":" + write_number(model_.last_job_update()) + "," + slurm_envelope(about) + "}");
  }
  if (route.endpoint == "POST job") {
    const auto read = read_description(body);
    if (!read) return refuse(about, read.error());
    if (auto done = model_.update_job(now(), JobId{route.job}, read->job); !done) return refuse(about, done.error());
    return json(200, "{\"results\":null," + slurm_envelope(about, {}, read->warnings) + "}");
  }
  if (route.endpoint == "DELETE job") {
    const auto done = model_.cancel(now(), JobId{route.job});
    std::string status;
    if (!done) {
      status = fmt::format(
          R"({{"error":{{"string":{},"code":{},"message":""}},"step_id":"{}","job_id":{},"federation":{{"sibling":""}}}})",
          json_string(done.error().name), done.error().number, route.id, write_number(std::nullopt));
    }
    return json(200, "{\"status\":[" + status + "]," + slurm_envelope(about) + "}");
  }
  if (route.endpoint == "GET resources") {
    if (!job) return refuse(about, unknown);
    std::string out = "{\"nodes\":[";
    for (const SlurmModel::Share& share : job->shares) {
      if (job->view.states.ended()) break;
      const SlurmModel::NodeRecord& node = *model_.node(share.node);
      // Bit 0, core 0, is the lowest of the last digit.
      std::vector<unsigned> digits(std::max<std::size_t>(1, (node.view.cpus + 3) / 4));
      for (const std::uint32_t core : share.cores) digits[core / 4] |= 1u << (core % 4);
      std::string bitmap = "0x";
      for (std::size_t i = digits.size(); i-- > 0;) bitmap += "0123456789ABCDEF"[digits[i]];
      if (!out.ends_with('[')) out += ',';
      out += fmt::format(
          R"({{"node":{},"sockets_per_node":{},"cores_per_socket":{},"mem_alloc":{},"core_bitmap":"{}","channel":{},"gres":[)",
          json_string(share.node), node.view.sockets, node.view.cores, share.memory, bitmap,
          write_number(std::nullopt));
      if (!share.gpus.empty()) {
        out += fmt::format(R"({{"name":"gpu","type":{},"count":{},"index":"{}"}})", json_string(node.gpus.type),
                           share.gpus.size(), print_ranges(share.gpus));
      }
      out += "]}";
    }
    return json(200, out + "]," + slurm_envelope(about) + "}");
  }
  return text(404, "Unable find requested URL.");
}

net::ServerResponse FakeSlurm::act_on_node(const Route& route, const std::string& body) {
  const SlurmModelOptions& about = options_.model;
  const auto done = [&about](const std::expected<void, SlurmNo>& result) {
    return result ? json(200, "{" + slurm_envelope(about) + "}") : refuse(about, result.error());
  };
  if (route.endpoint == "GET node") {
    const SlurmModel::NodeRecord* node = model_.node(route.id);
    // No list at all, and an error that is none.
    if (!node) return json(200, "{" + slurm_envelope(about, {{0, "No error"}}) + "}");
    std::string out = "{\"nodes\":[";
    write_node(out, *node, false);
    return json(
        200, out + "],\"last_update\":" + write_number(model_.last_node_update()) + "," + slurm_envelope(about) + "}");
  }
  if (route.endpoint == "POST node") {
    const auto read = read_node_update(body);
    return read ? done(model_.update_node(now(), route.id, *read)) : refuse(about, read.error());
  }
  if (route.endpoint == "DELETE node") return done(model_.delete_node(now(), route.id));
  if (route.endpoint == "POST new/node" && route.version >= "v0.0.44") {
    const auto conf = read_node_conf(body);
    return conf ? done(model_.add_node(now(), *conf, true)) : refuse(about, conf.error());
  }
  return text(404, "Unable find requested URL.");
}

}  // namespace bascule::testing
