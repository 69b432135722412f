#include <fmt/format.h>

#include <thread>
#include <utility>

#include "base/base64.hpp"
#include "base/file.hpp"
#include "base/log.hpp"
#include "kube/config.hpp"
#include "kube/exec_plugin.hpp"

namespace bascule::kube {

namespace {

constexpr Duration kFileAge = std::chrono::minutes(1);      // of a token file's text
constexpr Duration kExpirySkew = std::chrono::seconds(10);  // a plug-in's token is renewed so long before its end
constexpr Duration kLeastRuns = std::chrono::seconds(5);    // between runs of a plug-in whose tokens are refused
constexpr std::size_t kMaxToken = std::size_t{64} << 10;

// Without white space at its ends; empty when it cannot be read or is no token by its size.
std::string read_token(const std::string& path) {
  const std::string text = read_file(path, kMaxToken).value_or("");
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

class FileToken final {
 public:
  FileToken(const Loop& loop, std::string path, std::string fallback)
      : loop_(loop), path_(std::move(path)), token_(std::move(fallback)) {}

  Task<std::string> get(bool refresh) {
    const TimePoint now = loop_.now();
    if (!refresh && read_ && now - read_at_ < kFileAge) co_return token_;
    read_ = true;
    read_at_ = now;
    if (std::string fresh = read_token(path_); !fresh.empty()) {
      token_ = std::move(fresh);
    } else if (token_.empty()) {
      throw Unauthorized(0, "", fmt::format("token file {} is empty or cannot be read", path_));
    } else {
      log::limited(log::Level::kWarning, std::chrono::minutes(5), "token file cannot be read; the last token is used",
                   {{"file", path_}});
    }
    co_return token_;
  }

 private:
  const Loop& loop_;
  const std::string path_;
  std::string token_;
  bool read_ = false;
  TimePoint read_at_{};
};

class ExecSource final {
 public:
  ExecSource(Loop& loop, Config::Exec exec) : loop_(loop), exec_(std::move(exec)), one_(loop, 1) {}
  ExecSource(const ExecSource&) = delete;
  ExecSource& operator=(const ExecSource&) = delete;
  ~ExecSource() {
    if (worker_.joinable()) worker_.join();
  }

  Task<std::string> get(bool refresh) {
    const std::uint64_t runs = runs_;
    const Semaphore::Permit permit = co_await one_.acquire({});
    // Somebody else has just got a new one, or the last is new: a plug-in is not run for each refused call.
    const bool new_enough = runs != runs_ || (have_ && loop_.now() - ran_at_ < kLeastRuns);
    const bool expired = have_ && current_.expires && loop_.wall() + kExpirySkew >= *current_.expires;
    if (have_ && (new_enough || (!expired && !refresh))) co_return current_.token;
    const ProgramResult result = co_await run();
    current_ = read_exec_result(exec_, result);
    have_ = true;
    ++runs_;
    ran_at_ = loop_.now();
    co_return current_.token;
  }

 private:
  // What the worker thread and the waiting coroutine share, whichever lives longer.
  struct Run {
    explicit Run(Loop& loop) : bell(loop) {}
    Bell bell;
    ProgramResult result;
    bool done = false;
  };

  Task<ProgramResult> run() {
    if (worker_.joinable()) worker_.join();
    const auto run = std::make_shared<Run>(loop_);
    auto env = exec_.env;
    env.emplace_back("KUBERNETES_EXEC_INFO", exec_info(exec_));
    worker_ = std::thread([run, exec = exec_, env = std::move(env), &loop = loop_] {
      ProgramResult result = run_program(exec.command, exec.args, env);
      loop.post([run, result = std::move(result)]() mutable {
        run->result = std::move(result);
        run->done = true;
        run->bell.notify();
      });
    });
    while (!run->done) co_await run->bell.wait({});
    co_return std::move(run->result);
  }

  Loop& loop_;
  const Config::Exec exec_;
  Semaphore one_;
  std::thread worker_;
  ExecToken current_;
  bool have_ = false;
  std::uint64_t runs_ = 0;
  TimePoint ran_at_{};
};

Task<std::string> constant(std::string token) {
  co_return token;
}

void set_credentials(Loop& loop, const Config& config, ClientOptions& options) {
  if (config.exec) {
    options.token = [source = std::make_shared<ExecSource>(loop, *config.exec)](bool refresh) {
      return source->get(refresh);
    };
  } else if (!config.token_file.empty()) {
    options.token = [source = std::make_shared<FileToken>(loop, config.token_file, config.token)](bool refresh) {
      return source->get(refresh);
    };
  } else if (!config.token.empty()) {
    options.token = [token = config.token](bool) { return constant(token); };
  } else if (!config.user.empty()) {
    options.authorization = "Basic " + base64_encode(config.user + ":" + config.password);
  }
}

std::unique_ptr<net::Transport> transport_of(net::IoLoop& loop, const net::ClientOptions& options) {
  try {
    return net::make_client(loop, options);
  } catch (const std::invalid_argument& error) {
    throw ConfigError(error.what());
  }
}

}  // namespace

struct Connection::Impl {
  Impl(net::IoLoop& loop, const Config& config, ClientOptions options)
      : ns(config.ns), transport(transport_of(loop, config.http)), client(loop, *transport, std::move(options)) {}

  std::string ns;
  std::unique_ptr<net::Transport> transport;
  Client client;
};

Connection::Connection(net::IoLoop& loop, Config config, ClientOptions options) {
  set_credentials(loop, config, options);
  impl_ = std::make_unique<Impl>(loop, config, std::move(options));
}
Connection::~Connection() = default;

Client& Connection::client() noexcept {
  return impl_->client;
}
const std::string& Connection::default_namespace() const noexcept {
  return impl_->ns;
}

}  // namespace bascule::kube
