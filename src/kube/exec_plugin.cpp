#include "kube/exec_plugin.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/time.hpp"
#include "base/utf8.hpp"
#include "json/value.hpp"

extern char** environ;

namespace bascule::kube {

namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr const char* kTooLong = "did not end in time";

class Descriptor final {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { close(); }
  void close() noexcept {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  int get() const noexcept { return fd_; }

 private:
  int fd_ = -1;
};

struct Pipe {
  Descriptor read, write;
  bool open() {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) return false;
    read = Descriptor(fds[0]);
    write = Descriptor(fds[1]);
    return true;
  }
};

// The environment of this process with `more` in place of what has the same name.
std::vector<std::string> environment(const std::vector<std::pair<std::string, std::string>>& more) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool replaced = std::ranges::any_of(more, [&](const auto& pair) {
      return text.starts_with(pair.first) && text.substr(pair.first.size()).starts_with('=');
    });
    if (!replaced) out.emplace_back(text);
  }
  for (const auto& [name, value] : more) out.push_back(fmt::format("{}={}", name, value));
  return out;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// 0, or the error.
int spawn_program(const std::string& command, const std::vector<std::string>& args, std::vector<std::string> env,
                  int out, int err, pid_t& pid) {
  std::vector<std::string> words{command};
  words.insert(words.end(), args.begin(), args.end());
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_adddup2(&actions, err, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // The loop ignores SIGPIPE, which a child would inherit.
  sigset_t none, defaults;
  sigemptyset(&none);
  sigemptyset(&defaults);
  for (const int number : {SIGPIPE, SIGTERM, SIGINT}) sigaddset(&defaults, number);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  const int error =
      posix_spawnp(&pid, command.c_str(), &actions, &attributes, pointers(words).data(), pointers(env).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

// Reads both streams to their end. Empty, or which limit was met.
std::string read_both(Pipe& out, Pipe& err, ProgramResult& result, SteadyClock::time_point deadline, std::size_t most) {
  pollfd polls[2] = {{out.read.get(), POLLIN, 0}, {err.read.get(), POLLIN, 0}};
  std::string* const texts[2] = {&result.out, &result.err};
  while (polls[0].fd >= 0 || polls[1].fd >= 0) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - SteadyClock::now()).count();
    if (left <= 0) return kTooLong;
    if (::poll(polls, 2, static_cast<int>(left)) < 0 && errno != EINTR) return "cannot be read";
    for (int i = 0; i < 2; ++i) {
      if (polls[i].fd < 0 || polls[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t n = ::read(polls[i].fd, buffer, sizeof buffer);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        polls[i].fd = -1;
        continue;
      }
      texts[i]->append(buffer, static_cast<std::size_t>(n));
      if (texts[i]->size() > most) return "printed too much";
    }
  }
  return {};
}

// False: it still runs at `deadline`, though it has nothing more to say.
bool ends_by(SteadyClock::time_point deadline, pid_t pid, int& status) {
  constexpr auto kLongestPause = std::chrono::milliseconds(50);
  for (auto pause = std::chrono::milliseconds(1);; pause = std::min(pause * 2, kLongestPause)) {
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended > 0 || (ended < 0 && errno != EINTR)) return true;
    if (SteadyClock::now() >= deadline) return false;
    std::this_thread::sleep_for(pause);
  }
}

// With whatever it left behind.
void end_now(pid_t pid) {
  ::kill(-pid, SIGKILL);
  ::kill(pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

ProgramResult run_program(const std::string& command, const std::vector<std::string>& args,
                          const std::vector<std::pair<std::string, std::string>>& env, ProgramLimits limits) {
  ProgramResult result;
  Pipe out, err;
  if (!out.open() || !err.open()) {
    result.fault = std::string("no pipe: ") + std::strerror(errno);
    return result;
  }
  pid_t pid = 0;
  const int error = spawn_program(command, args, environment(env), out.write.get(), err.write.get(), pid);
  out.write.close();
  err.write.close();
  if (error != 0) {
    result.fault = std::string("cannot be started: ") + std::strerror(error);
    result.not_found = error == ENOENT;
    return result;
  }
  const auto deadline = SteadyClock::now() + limits.timeout;
  result.fault = read_both(out, err, result, deadline, limits.output);
  int status = 0;
  if (result.fault.empty() && !ends_by(deadline, pid, status)) result.fault = kTooLong;
  if (!result.fault.empty()) {
    end_now(pid);
    return result;
  }
  if (WIFEXITED(status)) {
    result.exit_code = WEXITSTATUS(status);
  } else {
    result.fault = fmt::format("ended by signal {}", WTERMSIG(status));
  }
  return result;
}

std::string exec_info(const Config::Exec& exec) {
  json::Object spec{{"interactive", false}};
  if (!exec.cluster_info.empty()) spec["cluster"] = json::parse(exec.cluster_info);
  return json::dump(
      json::Object{{"apiVersion", exec.api_version}, {"kind", "ExecCredential"}, {"spec", std::move(spec)}});
}

ExecToken read_exec_result(const Config::Exec& exec, const ProgramResult& result) {
  const auto refuse = [&](const std::string& what) {
    throw Unauthorized(0, "", fmt::format("credential plug-in {}: {}", exec.command, what));
  };
  if (result.not_found) {
    refuse("is not there" +
           (exec.install_hint.empty() ? std::string("; install it or put it in PATH") : "; " + exec.install_hint));
  }
  if (result.exit_code != 0) {
    const std::string what =
        result.exit_code < 0 ? result.fault : fmt::format("ended with exit code {}", result.exit_code);
    refuse(result.err.empty() ? what : fmt::format("{}: {}", what, with_valid_utf8(cut_utf8(result.err, 500))));
  }
  json::Value value;
  try {
    value = json::parse(result.out);
  } catch (const json::ParseError& error) {
    refuse(std::string("what it printed is not JSON: ") + error.what());
  }
  if (json::string_at(value, {"kind"}) != "ExecCredential" ||
      json::string_at(value, {"apiVersion"}) != exec.api_version) {
    refuse(fmt::format("what it printed is no ExecCredential of {}", exec.api_version));
  }
  ExecToken out;
  out.token = json::string_at(value, {"status", "token"});
  if (out.token.empty()) {
    refuse(json::find(value, {"status", "clientCertificateData"}) != nullptr
               ? "gives a client certificate, which is not supported; one that gives a token is needed"
               : "gives no token");
  }
  if (const std::string_view text = json::string_at(value, {"status", "expirationTimestamp"}); !text.empty()) {
    out.expires = parse_rfc3339(text);
    if (!out.expires) refuse(fmt::format("expirationTimestamp \"{}\" is no time", text));
  }
  return out;
}

}  // namespace bascule::kube
