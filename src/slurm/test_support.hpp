// Shared by the tests of this room: a client on a fake slurmrestd with time under control.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include "base/async.hpp"
#include "base/manual_loop.hpp"
#include "net/loopback.hpp"
#include "slurm/client.hpp"
#include "testing/fake_slurm.hpp"

namespace bascule::slurm::test {

template <class T>
Task<> store(Task<T> task, std::optional<T>& to, std::exception_ptr& error) {
  try {
    T value = co_await std::move(task);
    to.emplace(std::move(value));
  } catch (...) {
    error = std::current_exception();
  }
}

inline Task<> store(Task<> task, std::optional<bool>& to, std::exception_ptr& error) {
  try {
    co_await std::move(task);
    to = true;
  } catch (...) {
    error = std::current_exception();
  }
}

// Runs a task to its end, letting time pass as far as it needs; rethrows.
template <class T>
T run(ManualLoop& loop, Task<T> task, Duration limit = std::chrono::minutes(10)) {
  std::optional<std::conditional_t<std::is_void_v<T>, bool, T>> value;
  std::exception_ptr error;
  Gate gate(loop);
  spawn(gate, store(std::move(task), value, error));
  loop.run_until([&] { return value.has_value() || error; }, limit);
  loop.run_ready();
  if (error) std::rethrow_exception(error);
  if (!value) throw std::runtime_error("the task did not end in time");
  if constexpr (!std::is_void_v<T>) return std::move(*value);
}

struct World {
  explicit World(testing::FakeSlurmOptions options = {}) : fake(loop, std::move(options)) {
    transport = net::make_loopback(loop, fake.handler(),
                                   [this](const net::Request& request) { return line ? line(request) : net::Fault{}; });
    ClientOptions client_options;
    client_options.token = fixed_token("token");
    client = std::make_unique<Client>(loop, *transport, client_options);
  }
  template <class T>
  T run(Task<T> task) {
    return test::run(loop, std::move(task));
  }

  ManualLoop loop;
  testing::FakeSlurm fake;
  std::function<net::Fault(const net::Request&)> line;
  std::unique_ptr<net::Transport> transport;
  std::unique_ptr<Client> client;
};

inline constexpr const char* kNodes =
    "NodeName=x[1-4] NodeAddr=127.0.0.1 State=EXTERNAL Sockets=2 CoresPerSocket=4 ThreadsPerCore=1 RealMemory=16000 "
    "Gres=gpu:h100:4 Feature=a,b";

inline JobDescription small_job() {
  JobDescription job;
  job.name = "small";
  job.nodes = 1;
  job.tasks_per_node = 1;
  job.cpus_per_task = 2;
  job.memory_per_node = 1000;
  return job;
}

}  // namespace bascule::slurm::test
