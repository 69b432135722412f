#include "app/process.hpp"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <random>

#include "base/log.hpp"
#include "kube/lease.hpp"
#include "net/certificates.hpp"
#include "runtime/client_metrics.hpp"
#include "runtime/guarded.hpp"
#include "runtime/process_metrics.hpp"

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

constexpr std::string_view kSlurmSeconds = "bascule_slurm_request_duration_seconds";

double seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}

Task<> listen(net::IoLoop& loop, net::ServerOptions options, net::Handler handler,
              std::unique_ptr<net::Server>& server) {
  server = net::serve(loop, std::move(options), std::move(handler));
  co_return;
}

Task<> hang_up(net::IoLoop& loop, std::unique_ptr<net::Server>& server) {
  if (server) co_await server->drain(loop.now() + 1s);
}

// Whether it is this process that works.
struct Turn {
  explicit Turn(Loop& loop) : bell(loop) {}
  Bell bell;
  bool leading = false;
};

Task<> wait_for(Turn& turn, std::stop_token stop) {
  while (!turn.leading && !stop.stop_requested()) co_await turn.bell.wait(stop);
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
    : options_(options),
      name_(std::move(name)),
      instance_(environment("POD_NAME", host_name())),
      process_metrics_(runtime::process_metrics(metrics_)) {
  log::configure(level_of(options_.log_level), format_of(options_.log_format));
  parse_address(options_.metrics_address, "--metrics-bind-address");
  parse_address(options_.health_address, "--health-probe-bind-address");
  log::info("starting", {{"process", name_}, {"version", BASCULE_VERSION}});
  for (const std::string& flag : options_.idle_flags) {
    log::warning("a flag of the original that has no effect here", {{"flag", flag}});
  }
}

Process::~Process() = default;

std::string Process::user_agent() const {
  return "bascule-" + name_ + "/" BASCULE_VERSION;
}

kube::Config Process::kube_config() const {
  return kube::load_config({options_.kubeconfig, {}});
}

kube::Client& Process::kube() {
  if (!connection_) {
    kube::ClientOptions client;
    client.user_agent = user_agent();
    kube::Config config = kube_config();
    client.report = runtime::client_metrics(metrics_, config.http.url.host + ":" + config.http.url.port);
    client.report_cache = runtime::cache_metrics(metrics_);
    connection_ = std::make_unique<kube::Connection>(loop_, std::move(config), std::move(client));
    ns_ = environment("POD_NAMESPACE", connection_->default_namespace());
  }
  return connection_->client();
}

slurm::Client& Process::slurm(const std::string& url) {
  const std::string file = environment("SLURM_JWT_FILE", "");
  if (file.empty()) throw UsageError("SLURM_JWT_FILE is not set: expected the path of a file with a Slurm token");
  slurm::ClientOptions client;
  token_metrics_ = std::make_unique<runtime::TokenMetrics>(metrics_, loop_, runtime::Labels{});
  client.token = slurm::watched(slurm::file_token(file), [this](const slurm::TokenTimes& times) {
    token_metrics_->set(times.issued, times.expires);
  });
  client.report = [this](std::string_view operation, int http_code, std::int32_t, Duration took) {
    metrics_.observe(kSlurmSeconds, "Latency of requests to slurmrestd",
                     {{"operation", std::string(operation)}, {"code", code_text(http_code)}}, seconds(took),
                     runtime::latency_buckets());
  };
  slurm_ = std::make_unique<SlurmConnection>(loop_, url, "slurmRestApi", std::move(client));
  return slurm_->client();
}

std::unique_ptr<kube::Connection> Process::own_connection() {
  kube::ClientOptions client;
  client.user_agent = user_agent();
  return std::make_unique<kube::Connection>(loop_, kube_config(), std::move(client));
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
  runtime::Manager parts(loop_, {.overdue = [](const std::string&) { std::_Exit(1); }});
  ready.push_back({"process", [&parts] { return parts.unready(); }});
  add_server(parts, "health server", parse_address(options_.health_address, "--health-probe-bind-address"),
             runtime::health_handler({}, std::move(ready)));
  auto metrics_address = parse_address(options_.metrics_address, "--metrics-bind-address");
  net::Handler metrics = runtime::metrics_handler(metrics_);
  if (options_.metrics_secure && metrics_address) {
    // For clients that encrypt without knowing who answers.
    const WallTime now = loop_.wall();
    net::IssuedCertificate made = net::issue_certificate({"localhost"}, now - 24h, now + std::chrono::years(10));
    metrics_address->certificate.text = std::move(made.certificate);
    metrics_address->key.text = std::move(made.key);
    guard_connection_ = own_connection();
    metrics = runtime::guarded(guard_connection_->client(), std::move(metrics));
  }
  add_server(parts, "metrics server", std::move(metrics_address), std::move(metrics));
  if (elect) add_lease(parts, lease);
  parts.add({.name = name_, .run = std::move(work)});
  co_await parts.run(stop_.get_token());
}

void Process::add_server(runtime::Manager& parts, std::string name, std::optional<net::ServerOptions> address,
                         net::Handler handler) {
  if (!address) return;
  // Whoever reaches the pod may ask here, and nobody has much to say: strangers get no memory and little time.
  address->max_body = 0;
  address->header_timeout = address->body_timeout = address->write_timeout = 5s;
  const auto server = std::make_shared<std::unique_ptr<net::Server>>();
  parts.add({.name = std::move(name),
             .start = [this, server, options = *address, handler = std::move(handler)](
                          std::stop_token) { return listen(loop_, options, handler, *server); },
             .stop = [this, server] { return hang_up(loop_, *server); }});
}

void Process::add_lease(runtime::Manager& parts, const std::string& lease) {
  const std::string identity = instance_ + "_" + std::to_string(std::random_device{}());
  const auto turn = std::make_shared<Turn>(loop_);
  const auto changed = [this, &parts, turn, identity, metric = runtime::leader_metric(metrics_, lease)](bool now) {
    metric.set(now ? 1 : 0);
    log::info(now ? "leading" : "no longer leading", {{"identity", identity}});
    turn->leading = now;
    if (now) turn->bell.notify();
    if (now || parts.ending()) return;
    // Another may lead already: what this process believes is old. Kubernetes starts it anew.
    status_ = 1;
    parts.end();
  };
  // A renewal must not stand in line behind a thousand bindings.
  lease_connection_ = own_connection();
  const auto elector = std::make_shared<kube::LeaderElector>(
      lease_connection_->client(),
      kube::LeaseOptions{.key = {options_.lease_namespace.empty() ? ns_ : options_.lease_namespace, lease},
                         .identity = identity},
      changed);
  elector_ = elector;
  parts.add({.name = "lease",
             .start =
                 [elector, turn](std::stop_token stop) {
                   elector->start();
                   return wait_for(*turn, std::move(stop));
                 },
             .stop = [elector] { return elector->stop(); },
             .standby = true});
}

}  // namespace bascule::app
