#include "app/process.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <random>

#include "base/log.hpp"
#include "kube/lease.hpp"
#include "net/client.hpp"

namespace bascule::app {

namespace {

using namespace std::chrono_literals;

std::string environment(const char* name, std::string fallback) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? std::string(value) : std::move(fallback);
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? std::string(name) : std::string("bascule");
}

// zap's names and its numbers, where more is chattier.
log::Level level_of(const std::string& text) {
  if (const auto level = log::parse_level(text)) return *level;
  int verbosity = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), verbosity);
  if (error != std::errc{} || end != text.data() + text.size() || verbosity < 0) {
    throw UsageError("--zap-log-level: expected debug, info, warning, error or a number, not \"" + text + "\"");
  }
  return verbosity > 0 ? log::Level::kDebug : log::Level::kInfo;
}

log::Format format_of(const std::string& text) {
  if (text == "console") return log::Format::kText;
  if (const auto format = log::parse_format(text)) return *format;
  throw UsageError("--zap-encoder: expected json or console, not \"" + text + "\"");
}

constexpr std::string_view kRequests = "rest_client_requests_total";
constexpr std::string_view kRequestSeconds = "rest_client_request_duration_seconds";
constexpr std::string_view kSlurmSeconds = "bascule_slurm_request_duration_seconds";

double seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}

std::string code_text(int code) {
  return code == 0 ? "<error>" : std::to_string(code);
}

}  // namespace

std::optional<net::ServerOptions> parse_address(const std::string& text, const std::string& flag) {
  if (text == "0") return std::nullopt;
  const std::size_t colon = text.rfind(':');
  unsigned port = 0;
  const char* begin = text.data() + (colon == std::string::npos ? 0 : colon + 1);
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, port);
  if (colon == std::string::npos || error != std::errc{} || stop != end || port > 65535) {
    throw UsageError(flag + ": expected HOST:PORT, :PORT or 0 for none, not \"" + text + "\"");
  }
  net::ServerOptions options;
  options.address = text.substr(0, colon);
  if (options.address.starts_with('[') && options.address.ends_with(']')) {
    options.address = options.address.substr(1, options.address.size() - 2);
  }
  options.port = static_cast<std::uint16_t>(port);
  return options;
}

void run_to_end(net::IoLoop& loop, Task<> task) {
  Gate gate(loop);
  std::exception_ptr error;
  spawn(gate, [](net::IoLoop& l, Task<> work, std::exception_ptr& failure) -> Task<> {
    try {
      co_await std::move(work);
    } catch (...) {
      failure = std::current_exception();
    }
    l.quit();
  }(loop, std::move(task), error));
  loop.run();
  if (error) std::rethrow_exception(error);
}

Process::Process(const ServeOptions& options, std::string name)
    : options_(options), name_(std::move(name)), instance_(environment("POD_NAME", host_name())) {
  log::configure(level_of(options_.log_level), format_of(options_.log_format));
  parse_address(options_.metrics_address, "--metrics-bind-address");
  parse_address(options_.health_address, "--health-probe-bind-address");
  log::info("starting", {{"process", name_}, {"version", BASCULE_VERSION}});
}

Process::~Process() = default;

kube::Client& Process::kube() {
  if (!connection_) {
    kube::ClientOptions client;
    client.user_agent = "bascule-" + name_ + "/" BASCULE_VERSION;
    client.report = [this](const kube::CallReport& call) {
      metrics_.add(kRequests, "Requests to the API server, by code and method",
                   {{"code", code_text(call.code)}, {"method", std::string(call.verb)}});
      metrics_.observe(kRequestSeconds, "Latency of requests to the API server", {{"verb", std::string(call.verb)}},
                       seconds(call.took), runtime::latency_buckets());
    };
    connection_ =
        std::make_unique<kube::Connection>(loop_, kube::load_config({options_.kubeconfig, {}}), std::move(client));
    ns_ = environment("POD_NAMESPACE", connection_->default_namespace());
  }
  return connection_->client();
}

slurm::Client& Process::slurm(const std::string& url) {
  const std::string file = environment("SLURM_JWT_FILE", "");
  if (file.empty()) throw UsageError("SLURM_JWT_FILE is not set: expected the path of a file with a Slurm token");
  net::ClientOptions http;
  try {
    http.url = net::parse_url(url);
  } catch (const std::invalid_argument& error) {
    throw UsageError("slurmRestApi: " + std::string(error.what()));
  }
  // slurmrestd serves a request a thread, and has four by default.
  http.max_connections = 8;
  slurm::ClientOptions client;
  client.token = slurm::file_token(file);
  client.path_prefix = http.url.path;
  client.report = [this](std::string_view operation, int http_code, std::int32_t, Duration took) {
    metrics_.observe(kSlurmSeconds, "Latency of requests to slurmrestd",
                     {{"operation", std::string(operation)}, {"code", code_text(http_code)}}, seconds(took),
                     runtime::latency_buckets());
  };
  slurm_transport_ = net::make_client(loop_, std::move(http));
  slurm_ = std::make_unique<slurm::Client>(loop_, *slurm_transport_, std::move(client));
  return *slurm_;
}

int Process::run(const std::string& lease, bool elect, std::vector<runtime::NamedCheck> ready,
                 std::function<Task<>(std::stop_token)> work) {
  kube();
  loop_.on_terminate([this] {
    log::info("stopping", {{"process", name_}});
    stop_.request_stop();
  });
  run_to_end(loop_, main(lease, elect, std::move(ready), std::move(work)));
  log::info("stopped", {{"process", name_}, {"status", status_}});
  return status_;
}

Task<> Process::main(std::string lease, bool elect, std::vector<runtime::NamedCheck> ready,
                     std::function<Task<>(std::stop_token)> work) {
  std::vector<std::unique_ptr<net::Server>> servers;
  if (auto address = parse_address(options_.health_address, "--health-probe-bind-address")) {
    servers.push_back(net::serve(loop_, *address, runtime::health_handler({}, std::move(ready))));
  }
  if (auto address = parse_address(options_.metrics_address, "--metrics-bind-address")) {
    servers.push_back(net::serve(loop_, *address, runtime::metrics_handler(metrics_)));
  }
  std::exception_ptr failure;
  try {
    if (elect) {
      co_await lead(std::move(lease), std::move(work));
    } else {
      co_await work(stop_.get_token());
    }
  } catch (...) {
    failure = std::current_exception();
  }
  for (const auto& server : servers) co_await server->drain(loop_.now() + 1s);
  if (failure) std::rethrow_exception(failure);
}

Task<> Process::lead(std::string lease, std::function<Task<>(std::stop_token)> work) {
  const std::string identity = instance_ + "_" + std::to_string(std::random_device{}());
  Bell leads(loop_);
  bool leading = false;
  std::stop_source lost;
  kube::LeaderElector elector(kube(), {.key = {ns_, std::move(lease)}, .identity = identity}, [&](bool now) {
    metrics_.set("leader_election_master_status", "1 while this process leads", {{"name", name_}}, now ? 1 : 0);
    log::info(now ? "leading" : "no longer leading", {{"identity", identity}});
    leading = now;
    if (now) {
      leads.notify();
    } else {
      lost.request_stop();
    }
  });
  const std::stop_callback forward(stop_.get_token(), [&lost] { lost.request_stop(); });
  elector.start();
  while (!leading && !lost.stop_requested()) co_await leads.wait(lost.get_token());
  if (leading) {
    co_await work(lost.get_token());
    // Another may lead already: what this process believes is old. Kubernetes starts it anew.
    if (!stop_.stop_requested()) status_ = 1;
  }
  co_await elector.stop();
}

}  // namespace bascule::app
