#include "bridge/beside.hpp"

#include "base/log.hpp"

namespace bascule::bridge {

bool Beside::start(const std::string& ns, const Uid& about, Work work) {
  if (!told_of_.insert(about).second) return false;
  spawn(gate_, run(ns, about, std::move(work)));
  return true;
}

Task<> Beside::run(std::string ns, Uid about, Work work) {
  Line& line = lines_.try_emplace(ns, loop_).first->second;
  ++line.work;
  {
    const std::stop_token stop = stopping_.get_token();
    const Semaphore::Permit turn = co_await line.turns.acquire(stop);
    const Semaphore::Permit any = co_await all_.acquire(stop);
    try {
      if (turn && any && !stop.stop_requested()) co_await work(stop);
    } catch (const std::exception& error) {  // nobody waits for it
      if (!stop.stop_requested()) {
        log::limited(log::Level::kWarning, std::chrono::seconds(10), "something was not told", {{"why", error}});
      }
    }
  }
  told_of_.erase(about);
  if (--line.work == 0) lines_.erase(ns);
}

Task<> Beside::stop() {
  stopping_.request_stop();
  co_await gate_.close();
}

}  // namespace bascule::bridge
