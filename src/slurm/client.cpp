#include "slurm/client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/log.hpp"
#include "base/utf8.hpp"
#include "json/error.hpp"
#include "json/hot.hpp"
#include "json/split.hpp"
#include "slurm/answer.hpp"
#include "slurm/decode.hpp"
#include "slurm/encode.hpp"

namespace bascule::slurm {

namespace {

// In the order of preference: 44 is the first with all we need, 45 renames things we do not read.
constexpr std::array<std::string_view, 5> kParsers = {"v0.0.44", "v0.0.45", "v0.0.43", "v0.0.42", "v0.0.41"};

// The first that serves conf/.
constexpr std::string_view kConfParser = "v0.0.45";

// A table may be far larger than all else a process keeps (5 to 8 kB a job, 100,000 and more of them): its rows are
// read while it arrives.
struct Rows {
  std::string list;                                // the key they stand under
  std::function<void()> restart;                   // the call is made once more: what was taken counts no more
  std::function<void(std::string_view row)> take;  // followed by json::kPadding readable bytes, in valid UTF-8
};

class RowReader final {
 public:
  RowReader(const Rows& rows, std::size_t limit)
      : rows_(rows), splitter_({.item_bytes = limit, .envelope_bytes = limit}, rows.list) {
    rows_.restart();
  }

  void feed(std::string_view piece) {
    if (begin_.empty()) begin_ = piece.substr(0, kBegin);
    if (!problem_.empty()) return;
    try {
      splitter_.feed(piece);
      while (const auto row = splitter_.next()) take(*row);
    } catch (const json::ParseError& error) {
      problem_ = error.what();
    } catch (const json::ShapeError& error) {
      problem_ = error.what();
    }
  }
  // The answer without its rows; where it makes no sense as it began, for the reader to say so.
  std::string frame() {
    try {
      if (problem_.empty()) return splitter_.frame();
    } catch (const json::ParseError& error) {
      problem_ = error.what();
    }
    return begin_;
  }
  const std::string& problem() const noexcept { return problem_; }

 private:
  static constexpr std::size_t kBegin = 1024;
  void take(std::string_view row) {
    if (json::hot::is_utf8(row)) return rows_.take(row);
    std::string valid = with_valid_utf8(row);
    valid.reserve(valid.size() + json::kPadding);
    rows_.take(valid);
  }

  const Rows& rows_;
  json::ListSplitter splitter_;
  std::string begin_, problem_;
};

// Each row is so small that many are read at a time.
class StateRows final {
 public:
  void take(std::string_view row) {
    batch_ += batch_.empty() ? kOpen : std::string_view(",");
    batch_ += row;
    if (batch_.size() >= kBatch) read_batch();
  }
  std::vector<JobBrief> finish() {
    if (!batch_.empty()) read_batch();
    return std::move(states_);
  }

 private:
  static constexpr std::string_view kOpen = R"({"jobs":[)";
  static constexpr std::size_t kBatch = std::size_t{64} << 10;
  void read_batch() {
    batch_ += "]}";
    const auto listed = decode_job_states(batch_);
    states_.insert(states_.end(), listed.list->begin(), listed.list->end());
    batch_.clear();
  }
  std::string batch_;
  std::vector<JobBrief> states_;
};

struct Ask {
  CallName name;
  std::string method = "GET";
  std::string path;  // behind /slurm/vX/
  std::string body = {};
  Duration timeout{};
  std::optional<Rows> rows = {};  // of a good answer; its body is then the rest of it
};

struct Answer {
  int status = 0;
  std::string body;
  std::string parser;        // the version it was asked with
  std::string problem = {};  // of its rows
};

// Its rows are taken: what is left of it.
void take_rest(RowReader& rows, Answer& answer) {
  answer.body = rows.frame();
  answer.problem = rows.problem();
}

bool looks_like_json(std::string_view body) noexcept {
  const std::size_t first = body.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && body[first] == '{';
}

std::string job_words(JobId id) {
  return "job " + id.str();
}

std::optional<Envelope> envelope_of(std::string_view body) {
  if (!looks_like_json(body)) return std::nullopt;
  try {
    return decode_envelope(body);
  } catch (const json::ParseError&) {
  } catch (const json::ShapeError&) {
  }
  return std::nullopt;
}

// Reads a good answer with `decode`; a senseless one becomes the error that fits the call.
template <class Decode>
auto read(const CallName& name, const Answer& answer, Decode decode) {
  std::string what = answer.problem;
  try {
    if (what.empty()) return decode(answer.body);
  } catch (const json::ParseError& e) {
    what = e.what();
  } catch (const json::ShapeError& e) {
    what = e.what();
  }
  throw_foreign(name, answer.status, answer.body, fmt::format("with an answer that makes no sense ({})", what));
}

// Did Slurm itself complain? A gateway may answer in JSON too.
bool has_words(const Envelope& envelope) noexcept {
  return !envelope.errors.empty() || !envelope.warnings.empty() || !envelope.status.empty();
}

// Throws for every answer that is not 2xx.
void require_good(const CallName& name, const Answer& answer) {
  if (answer.status >= 200 && answer.status < 300) return;
  const std::optional<Envelope> envelope = envelope_of(answer.body);
  if (!envelope || !has_words(*envelope)) throw_foreign(name, answer.status, answer.body, "without Slurm's words");
  throw_complaint(name, answer.status, envelope->errors, envelope->warnings);
}

// For answers that carry nothing but success.
void require_done(const CallName& name, const Answer& answer) {
  if (answer.status == 304) return;  // nothing to change
  require_good(name, answer);
  const Envelope envelope = read(name, answer, decode_envelope);
  for (const Complaint& error : envelope.errors) {
    if (error.number != 0) throw_complaint(name, answer.status, {error}, envelope.warnings);
  }
}

// The list of a good answer, or the error that its absence means.
template <class List>
List require_list(const CallName& name, const Answer& answer, Listed<List> listed) {
  if (listed.list) return std::move(*listed.list);
  if (!listed.envelope.errors.empty()) {
    throw_complaint(name, answer.status, listed.envelope.errors, listed.envelope.warnings);
  }
  throw Malformed(answer.status, 0, name.doing + ": the answer has no list");
}

}  // namespace

struct Client::Impl {
  Impl(Loop& l, net::Transport& t, ClientOptions o)
      : loop(l), transport(t), options(std::move(o)), discovering(loop, 1) {}

  Loop& loop;
  net::Transport& transport;
  ClientOptions options;
  std::optional<Versions> found;
  Semaphore discovering;

  net::Request request(const Ask& ask, std::string_view parser, const std::string& token) const {
    net::Request out;
    out.method = ask.method;
    out.target = fmt::format("{}/slurm/{}/{}", options.path_prefix, parser, ask.path);
    out.headers.add("Accept", "application/json");
    out.headers.add("X-SLURM-USER-TOKEN", token);
    if (!options.user_name.empty()) out.headers.add("X-SLURM-USER-NAME", options.user_name);
    if (!ask.body.empty()) out.headers.add("Content-Type", "application/json");
    out.body = ask.body;
    return out;
  }

  // slurmrestd was away. What answers next may be of another version, that serves the one in use still and better ones.
  void may_be_another() { found.reset(); }

  void report(const Ask& ask, int http, std::int32_t number, TimePoint begin) const {
    if (options.report) options.report(ask.name.operation, http, number, loop.now() - begin);
  }

  // One HTTP exchange.
  Task<Answer> send(const Ask& ask, std::string parser, std::string token, std::stop_token stop) {
    const TimePoint begin = loop.now();
    std::optional<net::Error> failure;
    Answer answer;
    try {
      net::CallLimits limits{.deadline = begin + ask.timeout, .max_body = options.max_answer, .stop = stop};
      if (ask.rows) {
        answer = co_await read_rows(request(ask, parser, token), std::move(limits), ask);
      } else {
        net::Response response = co_await transport.call(request(ask, parser, token), std::move(limits));
        answer = {response.status, std::move(response.body), {}};
      }
      answer.parser = std::move(parser);
      // slurmrestd passes on what users wrote: one byte of a job's name must not hide all other jobs.
      if (!json::hot::is_utf8(answer.body)) answer.body = with_valid_utf8(answer.body);
    } catch (const net::Error& e) {
      failure = e;
    }
    if (failure) {
      using Kind = net::Error::Kind;
      if (failure->kind() == Kind::kUnreachable || failure->kind() == Kind::kBroken) may_be_another();
      report(ask, 0, 0, begin);
      throw_transport(ask.name, *failure);
    }
    if (answer.status >= 500 && !looks_like_json(answer.body)) may_be_another();  // a proxy's word
    std::int32_t number = 0;
    if (answer.status >= 300) {
      const std::optional<Envelope> envelope = envelope_of(answer.body);
      if (envelope && !envelope->errors.empty()) number = envelope->errors.front().number;
    }
    report(ask, answer.status, number, begin);
    co_return answer;
  }

  Task<Answer> read_rows(net::Request request, net::CallLimits limits, const Ask& ask) {
    const TimePoint deadline = limits.deadline;
    const std::stop_token stop = limits.stop;
    const net::StreamResponse response = co_await transport.open(std::move(request), std::move(limits));
    Answer answer{response.status, {}, {}};
    RowReader rows(*ask.rows, options.max_answer);
    const bool good = response.status >= 200 && response.status < 300;
    while (true) {
      const std::string_view piece = co_await response.body->read(deadline, stop);
      if (piece.empty()) break;
      if (good) {
        rows.feed(piece);
      } else if (answer.body.size() + piece.size() <= options.max_answer) {
        answer.body += piece;
      } else {
        throw net::Error(net::Error::Kind::kTooLarge, "the answer is too large");
      }
    }
    if (good) take_rest(rows, answer);
    co_return answer;
  }

  static bool unauthorized(const Answer& answer) {
    if (answer.status < 300) return false;
    const std::optional<Envelope> envelope = envelope_of(answer.body);
    return says_unauthorized(answer.status, envelope ? envelope->errors : std::vector<Complaint>{});
  }

  // A refused token is asked for anew once: nothing was done with it.
  Task<Answer> send_authorized(const Ask& ask, std::string parser, std::stop_token stop) {
    std::string token = co_await options.token(false);
    Answer answer = co_await send(ask, parser, std::move(token), stop);
    if (!unauthorized(answer)) co_return answer;
    std::string fresh = co_await options.token(true);
    Answer again = co_await send(ask, std::move(parser), std::move(fresh), stop);
    co_return again;
  }

  static bool not_served(const Answer& answer) { return answer.status == 404 && !looks_like_json(answer.body); }

  // When the version asked with is gone, finds the one served now and asks once more.
  Task<Answer> call(Ask ask, std::stop_token stop) {
    const Versions versions = co_await discover(stop);
    Answer answer = co_await send_authorized(ask, versions.parser, stop);
    if (!not_served(answer)) co_return answer;
    if (found && found->parser == versions.parser) found.reset();
    const Versions now = co_await discover(stop);
    if (now.parser == versions.parser) {
      throw_foreign(ask.name, answer.status, answer.body, "without Slurm's words");
    }
    Answer again = co_await send_authorized(ask, now.parser, stop);
    co_return again;
  }

  Task<Versions> discover(std::stop_token stop) {
    if (found) co_return *found;
    const Semaphore::Permit permit = co_await discovering.acquire(stop);
    if (!permit) throw net::Error(net::Error::Kind::kStopped, "stopped while finding slurmrestd's version");
    if (found) co_return *found;
    for (const std::string_view parser : kParsers) {
      const Ask ask{
          .name = {"find_version", "finding slurmrestd's version"}, .path = "ping/", .timeout = options.timeout};
      const Answer answer = co_await send_authorized(ask, std::string(parser), stop);
      if (not_served(answer)) continue;
      require_good(ask.name, answer);
      const Envelope envelope = read(ask.name, answer, decode_envelope);
      Versions versions;
      versions.parser = parser;
      versions.slurm = envelope.release;
      versions.cluster = envelope.cluster;
      versions.external_jobs = parser >= "v0.0.43";
      versions.external_nodes = parser >= "v0.0.44";
      found = versions;
      co_return versions;
    }
    throw Malformed(404, 0,
                    "slurmrestd serves none of v0.0.41 to v0.0.45, or the address is not slurmrestd's: every "
                    "version was answered with HTTP 404");
  }

  Ask ask(std::string operation, std::string doing, std::string path) const {
    return {.name = {std::move(operation), std::move(doing)}, .path = std::move(path), .timeout = options.timeout};
  }
  Ask write(std::string operation, std::string doing, std::string method, std::string path, std::string body) const {
    Ask out = ask(std::move(operation), std::move(doing), std::move(path));
    out.name.writes = true;
    out.method = std::move(method);
    out.body = std::move(body);
    return out;
  }
  Ask list(std::string operation, std::string doing, std::string path, std::int64_t since) const {
    Ask out = ask(std::move(operation), std::move(doing), std::move(path));
    if (since > 0) out.path += fmt::format("?update_time={}", since);
    out.timeout = options.list_timeout;
    return out;
  }
};

Client::Client(Loop& loop, net::Transport& transport, ClientOptions options)
    : impl_(std::make_unique<Impl>(loop, transport, std::move(options))) {}
Client::~Client() = default;

Task<Versions> Client::versions(std::stop_token stop) {
  return impl_->discover(std::move(stop));
}

Task<bool> Client::ping(std::stop_token stop) {
  const Ask ask = impl_->ask("ping", "asking whether slurmctld is up", "ping/");
  const Answer answer = co_await impl_->call(ask, stop);
  require_good(ask.name, answer);
  const Ping ping = require_list(ask.name, answer, read(ask.name, answer, decode_ping));
  // slurmrestd does not look at tokens itself: slurmctld's refusal comes as a controller that is down.
  if (!ping.up && ping.status.find("uthentication") != std::string::npos) {
    throw Unauthorized(
        answer.status, 0,
        ask.name.doing + ": Slurm says: " + ping.status + "; is the token expired, or signed with another key?");
  }
  co_return ping.up;
}

Task<std::vector<std::string>> Client::answering(std::stop_token stop) {
  const Ask ask = impl_->ask("ping", "asking which slurmctlds answer", "ping/");
  const Answer answer = co_await impl_->call(ask, stop);
  require_good(ask.name, answer);
  co_return require_list(ask.name, answer, read(ask.name, answer, decode_ping)).answering;
}

Task<JobId> Client::submit_external(JobDescription job, std::stop_token stop) {
  const Versions versions = co_await impl_->discover(stop);
  const Ask ask = impl_->write("submit_job", fmt::format("submitting job \"{}\"", job.name.value_or("")), "POST",
                               "job/submit", versions.external_jobs ? encode_submit(job) : encode_placeholder(job));
  // slurmrestd 24.11.5 dies of a group's name.
  if (!versions.external_jobs &&
      !std::ranges::all_of(job.group_id.value_or(""), [](char c) { return c >= '0' && c <= '9'; })) {
    throw Refused(0, 0,
                  fmt::format("{}: Slurm {} takes a group only by its number, not \"{}\"", ask.name.doing,
                              versions.slurm, *job.group_id));
  }
  const Answer answer = co_await impl_->call(ask, stop);
  if (answer.status >= 300 && !looks_like_json(answer.body)) require_good(ask.name, answer);
  const Envelope envelope = read(ask.name, answer, decode_envelope);
  if (envelope.job_id != 0) {
    // Slurm may complain and submit all the same: the id decides.
    if (!envelope.errors.empty()) {
      log::warning("Slurm complained about a job that it took", {{"job", JobId{envelope.job_id}},
                                                                 {"name", job.name.value_or("")},
                                                                 {"http", answer.status},
                                                                 {"number", envelope.errors.front().number},
                                                                 {"error", envelope.errors.front().name}});
    }
    co_return JobId{envelope.job_id};
  }
  if (answer.status < 300 && envelope.errors.empty() && envelope.warnings.empty()) {
    throw Unreachable(answer.status, 0, ask.name.doing + ": the answer has neither a job id nor a reason", false);
  }
  if (!has_words(envelope)) throw_foreign(ask.name, answer.status, answer.body, "without Slurm's words");
  throw_complaint(ask.name, answer.status, envelope.errors, envelope.warnings);
}

Task<> Client::update_job(JobId id, JobDescription change, std::stop_token stop) {
  const Ask ask =
      impl_->write("update_job", "updating " + job_words(id), "POST", "job/" + id.str(), encode_update(change));
  const Answer answer = co_await impl_->call(ask, stop);
  require_done(ask.name, answer);
}

Task<> Client::cancel_job(JobId id, std::stop_token stop) {
  const Ask ask = impl_->write("cancel_job", "cancelling " + job_words(id), "DELETE", "job/" + id.str(), "");
  const Answer answer = co_await impl_->call(ask, stop);
  require_good(ask.name, answer);
  const Envelope envelope = read(ask.name, answer, decode_envelope);
  constexpr std::int32_t kAlreadyDone = 2021;
  std::vector<Complaint> complaints = envelope.status;
  complaints.insert(complaints.end(), envelope.errors.begin(), envelope.errors.end());
  std::erase_if(complaints, [](const Complaint& c) { return c.number == 0 || c.number == kAlreadyDone; });
  if (!complaints.empty()) throw_complaint(ask.name, answer.status, complaints, envelope.warnings);
}

Task<std::optional<Job>> Client::get_job(JobId id, std::stop_token stop) {
  const Ask ask = impl_->ask("get_job", "reading " + job_words(id), "job/" + id.str());
  const Answer answer = co_await impl_->call(ask, stop);
  if (answer.status >= 300) {
    const std::optional<Envelope> envelope = envelope_of(answer.body);
    const auto unknown = [](const Complaint& c) { return c.number == 2017; };
    if (envelope && std::ranges::any_of(envelope->errors, unknown)) co_return std::nullopt;
  }
  require_good(ask.name, answer);
  JobList list = require_list(ask.name, answer, read(ask.name, answer, decode_jobs));
  for (Job& job : list.jobs) {
    if (job.id == id) co_return std::move(job);
  }
  throw Malformed(answer.status, 0, ask.name.doing + ": the answer is about another job or none");
}

Task<JobList> Client::list_jobs(std::int64_t since, std::stop_token stop, KnownJob known) {
  std::vector<Job> jobs;
  std::vector<JobId> same;
  Ask ask = impl_->list("list_jobs", "listing jobs", "jobs/", since);
  const auto restart = [&jobs, &same] {
    jobs.clear();
    same.clear();
  };
  const auto take = [&jobs, &same, &known](std::string_view row) {
    Job job = decode_job(row);
    const auto before = known ? known(job.id) : nullptr;
    before && *before == job ? same.push_back(job.id) : jobs.push_back(std::move(job));
  };
  ask.rows = {"jobs", restart, take};
  const Answer answer = co_await impl_->call(ask, stop);
  JobList unchanged;
  unchanged.unchanged = true;
  unchanged.last_update = since;
  if (answer.status == 304 && since > 0) co_return unchanged;
  require_good(ask.name, answer);
  JobList list = require_list(ask.name, answer, read(ask.name, answer, decode_jobs));
  list.jobs = std::move(jobs);
  list.same = std::move(same);
  if (!list.unchanged || !list.jobs.empty() || !list.same.empty()) {
    list.unchanged = false;
    co_return list;
  }
  if (since > 0) co_return unchanged;
  throw Malformed(answer.status, 0, "listing jobs: an empty list that slurmctld never made (last_update is 0)");
}

// It comes several times a second, so by a connection that is kept, as a whole; what reads it all at once would keep
// six times as much.
Task<std::vector<JobBrief>> Client::job_states(std::vector<JobId> ids, std::stop_token stop) {
  Ask ask = impl_->list("job_states", "listing the states of jobs", "jobs/state/", 0);
  for (const JobId id : ids) ask.path += (ask.path.ends_with('/') ? "?job_id=" : "&job_id=") + id.str();
  Answer answer = co_await impl_->call(ask, stop);
  require_good(ask.name, answer);
  StateRows states;
  const Rows rows{"jobs", [] {}, [&states](std::string_view row) { states.take(row); }};
  RowReader reader(rows, impl_->options.max_answer);
  reader.feed(answer.body);
  take_rest(reader, answer);
  require_list(ask.name, answer, read(ask.name, answer, decode_job_states));
  co_return read(ask.name, answer, [&states](const std::string&) { return states.finish(); });
}

Task<std::vector<NodeAllocation>> Client::allocation(JobId id, std::stop_token stop) {
  const Ask ask = impl_->ask("get_allocation", "reading the resources of " + job_words(id), "resources/" + id.str());
  const Answer answer = co_await impl_->call(ask, stop);
  require_good(ask.name, answer);
  co_return require_list(ask.name, answer, read(ask.name, answer, decode_allocation));
}

Task<NodeList> Client::list_nodes(std::int64_t since, std::stop_token stop) {
  std::vector<Node> nodes;
  Ask ask = impl_->list("list_nodes", "listing nodes", "nodes/", since);
  ask.rows = {"nodes", [&nodes] { nodes.clear(); },
              [&nodes](std::string_view row) { nodes.push_back(decode_node(row)); }};
  const Answer answer = co_await impl_->call(ask, stop);
  NodeList same;
  same.unchanged = true;
  same.last_update = since;
  if (answer.status == 304 && since > 0) co_return same;
  require_good(ask.name, answer);
  NodeList list = require_list(ask.name, answer, read(ask.name, answer, decode_nodes));
  list.nodes = std::move(nodes);
  co_return list;
}

Task<std::optional<Node>> Client::get_node(std::string name, std::stop_token stop) {
  const Ask ask = impl_->ask("get_node", fmt::format("reading node \"{}\"", name), "node/" + net::percent_encode(name));
  const Answer answer = co_await impl_->call(ask, stop);
  require_good(ask.name, answer);
  Listed<NodeList> listed = read(ask.name, answer, decode_nodes);
  if (!listed.list) {
    // "No error" and no list: that is how an unknown node is told.
    const auto& errors = listed.envelope.errors;
    const bool unknown = !errors.empty() && (errors.front().number == 0 || errors.front().number == 2018);
    if (unknown) co_return std::nullopt;
  }
  NodeList list = require_list(ask.name, answer, std::move(listed));
  for (Node& node : list.nodes) {
    if (node.name == name) co_return std::move(node);
  }
  throw Malformed(answer.status, 0, ask.name.doing + ": the answer is about another node or none");
}

Task<> Client::add_node(std::string conf, std::stop_token stop) {
  const Ask ask = impl_->write("add_node", fmt::format("adding node \"{}\"", conf.substr(0, conf.find(' '))), "POST",
                               "new/node/", encode_new_node(conf));
  const Versions versions = co_await impl_->discover(stop);
  if (!versions.external_nodes) {
    throw Refused(0, 0,
                  fmt::format("{}: Slurm {} serves {} at best; nodes can be added from v0.0.44 (Slurm 25.11) on",
                              ask.name.doing, versions.slurm, versions.parser));
  }
  const Answer answer = co_await impl_->call(ask, stop);
  require_done(ask.name, answer);
}

Task<> Client::update_node(std::string name, NodeUpdate change, std::stop_token stop) {
  const Ask ask = impl_->write("update_node", fmt::format("updating node \"{}\"", name), "POST",
                               "node/" + net::percent_encode(name), encode_node_update(change));
  const Answer answer = co_await impl_->call(ask, stop);
  require_done(ask.name, answer);
}

Task<> Client::delete_node(std::string name, std::stop_token stop) {
  const Ask ask = impl_->write("delete_node", fmt::format("deleting node \"{}\"", name), "DELETE",
                               "node/" + net::percent_encode(name), "");
  const Answer answer = co_await impl_->call(ask, stop);
  require_done(ask.name, answer);
}

Task<std::optional<Reservation>> Client::get_reservation(std::string name, std::stop_token stop) {
  const Ask ask = impl_->ask("get_reservation", fmt::format("reading reservation \"{}\"", name),
                             "reservation/" + net::percent_encode(name));
  const Answer answer = co_await impl_->call(ask, stop);
  require_good(ask.name, answer);
  auto listed = read(ask.name, answer, decode_reservations);
  if (!listed.list) {
    // As with nodes: "no error" and no list.
    const auto& errors = listed.envelope.errors;
    if (!errors.empty() && errors.front().number == 0) co_return std::nullopt;
  }
  for (Reservation& reservation : require_list(ask.name, answer, std::move(listed))) {
    if (reservation.name == name) co_return std::move(reservation);
  }
  co_return std::nullopt;
}

Task<> Client::write_reservation(ReservationUpdate change, std::stop_token stop) {
  const Ask ask = impl_->write("write_reservation", fmt::format("writing reservation \"{}\"", change.name), "POST",
                               "reservation", encode_reservation(change));
  const Answer answer = co_await impl_->call(ask, stop);
  require_done(ask.name, answer);
}

Task<> Client::delete_reservation(std::string name, std::stop_token stop) {
  const Ask ask = impl_->write("delete_reservation", fmt::format("deleting reservation \"{}\"", name), "DELETE",
                               "reservation/" + net::percent_encode(name), "");
  const Answer answer = co_await impl_->call(ask, stop);
  require_done(ask.name, answer);
}

Task<std::vector<Partition>> Client::list_partitions(std::stop_token stop) {
  const Ask ask = impl_->list("list_partitions", "listing partitions", "partitions/", 0);
  const Answer answer = co_await impl_->call(ask, stop);
  require_good(ask.name, answer);
  co_return require_list(ask.name, answer, read(ask.name, answer, decode_partitions));
}

Task<bool> Client::partitions_unchanged(std::int64_t since, std::stop_token stop) {
  const Ask ask = impl_->list("list_partitions", "asking since when partitions are as they are", "partitions/", since);
  const Answer answer = co_await impl_->call(ask, stop);
  if (answer.status == 304 && since > 0) co_return true;
  require_good(ask.name, answer);
  co_return false;
}

Task<std::optional<std::vector<std::string>>> Client::slurmctld_parameters(std::stop_token stop) {
  const Ask ask = impl_->ask("get_conf", "asking which configuration slurmctld runs", "conf/");
  const Answer answer = co_await impl_->send_authorized(ask, std::string(kConfParser), stop);
  if (Impl::not_served(answer)) co_return std::nullopt;
  require_good(ask.name, answer);
  co_return require_list(ask.name, answer, read(ask.name, answer, decode_slurmctld_parameters));
}

}  // namespace bascule::slurm
