// The parts of a process: started in the order they were added, each once the one before stands, and stopped in the
// reverse order, whatever happened on the way. Says what it waits for, and which part does not end in time.
// The order of controller-runtime's manager: health and metrics servers, webhook server, caches, lease, controllers.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/async.hpp"

namespace bascule::runtime {

class Manager final {
 public:
  // What is not given is skipped.
  struct Part {
    std::string name;  // in logs and in unready()
    // Returns once the parts that come after may rely on this one: it listens, has its first list, leads. Its token is
    // stopped when the process is to end. Throws when the process cannot work.
    std::function<Task<>(std::stop_token)> start = nullptr;
    // Works until its token is stopped, which is when its turn to stop has come. The process ends when it returns
    // earlier or throws.
    std::function<Task<>(std::stop_token)> run = nullptr;
    // Returns when nothing of the part goes on. Called if start() was, even when that threw or was cut short.
    std::function<Task<>()> stop = nullptr;
    // A process that waits for this part's start() is ready all the same: it stands by.
    bool standby = false;
  };
  struct Options {
    Duration grace = std::chrono::seconds(25);                       // for stopping, all together; a pod has 30 s
    std::function<void(const std::string& part)> overdue = nullptr;  // when it is over; the part that still stops
  };

  Manager(Loop& loop, Options options) : loop_(loop), options_(std::move(options)) {}
  explicit Manager(Loop& loop) : Manager(loop, Options()) {}
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;
  ~Manager();  // after run() has completed, if it was called

  void add(Part part);  // before run()
  // Starts everything, waits until `stop` or end(), and stops everything. Once. Rethrows the first exception of a
  // start() or run().
  Task<> run(std::stop_token stop);
  // Makes run() stop everything and return; from any part.
  void end() { ending_.request_stop(); }
  bool ending() const noexcept { return ending_.stop_requested(); }
  // A readiness check (runtime/health.hpp): nullopt when every part stands.
  std::optional<std::string> unready() const;

 private:
  struct Entry {
    Part part;
    std::stop_source stop = {};
    std::unique_ptr<Gate> gate = nullptr;  // of run()
  };
  Task<> start_all();
  Task<> start_one(Entry& entry);
  Task<> run_one(Entry& entry);
  Task<> stop_all();
  Task<> stop_one(Entry& entry);
  void fail(const Entry& entry, const char* doing);

  Loop& loop_;
  const Options options_;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::stop_source ending_;
  std::exception_ptr failure_;
  std::size_t begun_ = 0;  // parts whose start() was called
  bool all_started_ = false;
};

}  // namespace bascule::runtime
