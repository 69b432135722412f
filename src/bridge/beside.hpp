// What is only told, beside the units' own work: whoever makes such a call wait, as a webhook of somebody else's on
// pods/status may, holds up no node. Few at a time, fewer of one namespace so that it holds up no other's words either,
// and in each namespace in the order they come.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <stop_token>
#include <string>

#include "base/async.hpp"
#include "base/strong.hpp"

namespace bascule::bridge {

class Beside final {
 public:
  // Begins in its turn, and not at all after stop(). What it throws is logged.
  using Work = std::function<Task<>(std::stop_token)>;

  explicit Beside(Loop& loop) : loop_(loop), all_(loop, kAtOnce), gate_(loop) {}
  // False, and nothing is begun: earlier work about the same pod or group stands in line or is under way.
  bool start(const std::string& ns, const Uid& about, Work work);
  Task<> stop();  // gives up what is under way

 private:
  static constexpr std::size_t kAtOnce = 8;
  static constexpr std::size_t kOfANamespace = 2;
  struct Line {
    explicit Line(Loop& loop) : turns(loop, kOfANamespace) {}
    Semaphore turns;
    std::size_t work = 0;
  };
  Task<> run(std::string ns, Uid about, Work work);

  Loop& loop_;
  std::map<std::string, Line> lines_;
  std::set<Uid> told_of_;
  Semaphore all_;
  std::stop_source stopping_;
  Gate gate_;
};

}  // namespace bascule::bridge
