// For benchmarks that need several processes: one of them, what it costs, and a question to a fake server of bench/.
// Blocking; each benchmark has one thread.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/async.hpp"
#include "base/log.hpp"
#include "json/value.hpp"
#include "kube/config.hpp"
#include "net/client.hpp"
#include "net/io_loop.hpp"

namespace bascule::testing {

using SteadyClock = std::chrono::steady_clock;

struct Failure final : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline double seconds_since(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

inline std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A process whose output goes to a file; ended with this.
class Child final {
 public:
  Child(std::string output, const std::function<int()>& body) : output_(std::move(output)), pid_(begin(output_)) {
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // where this process is killed, too
    const int file = open(output_.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    dup2(file, 1);
    dup2(file, 2);
    _exit(body());
  }
  ~Child() {
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
    std::filesystem::remove(output_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // The rest of the line in which `words` stand.
  std::string wait_for(const std::string& words) const {
    for (const auto start = SteadyClock::now(); seconds_since(start) < 120;) {
      const std::string text = text_of(output_);
      const auto at = text.find(words);
      const auto end = at == std::string::npos ? at : text.find('\n', at);
      if (end != std::string::npos) return text.substr(at + words.size(), end - at - words.size());
      if (waitpid(pid_, nullptr, WNOHANG) != 0) throw Failure("a process ended by itself: " + text.substr(0, 500));
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    throw Failure("no \"" + words + "\" in " + output_);
  }
  // VmRSS, or the most it has been (VmHWM), in 1,000,000 bytes.
  double resident(const std::string& which = "VmRSS:") const {
    const std::string status = text_of("/proc/" + std::to_string(pid_) + "/status");
    const auto at = status.find(which);
    if (at == std::string::npos) throw Failure("a process has ended");
    return std::strtod(&status[at + which.size()], nullptr) * 1024 / 1e6;
  }
  double processor_seconds() const {
    return std::strtod(text_of("/proc/" + std::to_string(pid_) + "/schedstat").c_str(), nullptr) / 1e9;
  }

 private:
  static pid_t begin(const std::string& output) {
    std::ofstream(output, std::ios::trunc).flush();
    return fork();
  }

  std::string output_;
  pid_t pid_;
};

// Bodies of children: another program, or `work` until SIGTERM.
inline int exec(std::vector<std::string> words) {
  signal(SIGPIPE, SIG_DFL);
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  return 127;
}

inline int work_until_terminated(net::IoLoop& loop, const std::function<Task<>(std::stop_token)>& work) {
  std::stop_source stop;
  loop.on_terminate([&stop] { stop.request_stop(); });
  Gate gate(loop);
  spawn(gate, [](net::IoLoop& l, const std::function<Task<>(std::stop_token)>& w, std::stop_token s) -> Task<> {
    co_await w(std::move(s));
    l.quit();
  }(loop, work, stop.get_token()));
  loop.run();
  return 0;
}

// What the server that `kubeconfig` leads to answers.
// Fakes that print a table of tens of thousands of jobs shake no hands meanwhile.
inline json::Value ask(const std::string& kubeconfig, const std::string& path) {
  std::string body;
  for (int tries = 0; body.empty() && tries < 5; ++tries) {
    net::IoLoop loop;
    const auto transport = net::make_client(loop, kube::load_config({kubeconfig, {}}).http);
    Gate gate(loop);
    spawn(gate, [](net::IoLoop& l, net::Transport& t, std::string target, std::string& out) -> Task<> {
      try {
        net::Response response =
            co_await t.call({.target = std::move(target)}, {.deadline = l.now() + std::chrono::seconds(100)});
        out = std::move(response.body);
      } catch (const net::Error& error) {
        log::error("the fakes do not answer", {{"why", error}});
      }
      l.quit();
    }(loop, *transport, path, body));
    loop.run();
  }
  if (body.empty()) throw Failure("the fakes do not answer");
  return json::parse(body);
}

}  // namespace bascule::testing
