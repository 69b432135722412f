// Whole processes in simulated time, killed at any point and started again.
//
// What kill -9 means here: from that instant nothing the process does has an effect. Its callbacks and timers no longer
// run in the world, requests it has not yet sent are never sent, answers to it are dropped, its watches hang up. A
// request already on the wire may or may not arrive (the network's dice), as between real machines; with Options::late
// also seconds later, when another life has long begun. So may one that its sender waits for no longer.
//
// How: a process sees the world through two things only. SimLoop, its event loop, hands callbacks to the world's
// ManualLoop one by one; SimTransport, its network, copies requests onto the wire and answers off it. kill() cuts both.
// Code that is running when it is killed (from within one of its own sends) runs on to its next suspension, but what it
// posts and sends goes nowhere, so no effect comes after the kill.
// The dead process's memory still has to go, and its coroutine frames cannot simply be destroyed: owners check that
// their background work has ended. So it is buried: on a loop of its own, cut off from the world, with a clock of its
// own and a network that is unreachable, it is asked to stop and runs to its end. Nothing is leaked, and the shutdown
// is tested from every state on the way; a main that does not end within an hour of that clock aborts the test.
//
// freeze_after() is SIGSTOP: nothing of the process runs, its requests on the wire are done and their answers wait.
// After thaw() it goes on where it was, in the time that it is then.
//
// A kill may come before the n-th effect (kill_after): effects are callbacks begun and requests sent, which is every
// point at which a kill can make a difference to the outside.
#pragma once

#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/async.hpp"
#include "base/manual_loop.hpp"
#include "net/http.hpp"

namespace bascule::testing {

// The loop of one life of a process. Single thread: post() too is for the loop's thread only.
class SimLoop final : public Loop {
 public:
  explicit SimLoop(ManualLoop& world);
  ~SimLoop() override;

  TimePoint now() const override;
  WallTime wall() const override;
  void post(std::move_only_function<void()> fn) override;
  TimerId call_at(TimePoint when, std::move_only_function<void()> fn) override;
  void cancel(TimerId id) noexcept override;

  bool dead() const noexcept { return dead_; }
  void kill();
  std::function<void()> on_kill = nullptr;
  // Freezes before the callback after the next `effects`.
  void freeze_after(std::uint64_t effects) noexcept { freeze_at_ = effects_ + effects; }
  void thaw();
  bool frozen() const noexcept { return frozen_; }
  // Counts an effect; kills first when it is the one to die before. False when dead.
  bool effect();
  // Kills before the effect after the next `effects`.
  void kill_after(std::uint64_t effects) noexcept { die_at_ = effects_ + effects; }
  std::uint64_t effects() const noexcept { return effects_; }
  // After kill(): runs what is posted and every timer, on a clock of its own, until `done`; false at `limit`.
  bool run_cut_off(const std::function<bool()>& done, Duration limit);

 private:
  bool holds();  // is frozen, perhaps from now on
  void run_front();
  void fire(TimerId id);

  ManualLoop& world_;
  std::shared_ptr<SimLoop*> self_;  // what the world's callbacks hold; null once this has gone
  std::deque<std::move_only_function<void()>> ready_;
  struct Timer {
    TimePoint when;
    TimerId in_world;
    std::move_only_function<void()> fn;
  };
  std::map<TimerId, Timer> timers_;
  TimerId next_ = 1;
  bool frozen_ = false;
  std::uint64_t freeze_at_ = std::numeric_limits<std::uint64_t>::max();
  std::size_t held_ = 0;       // turns of `ready_` that came while it was frozen
  std::vector<TimerId> rung_;  // timers likewise
  bool dead_ = false;
  TimePoint time_{};  // once dead
  WallTime wall_{};
  std::uint64_t effects_ = 0;
  std::uint64_t die_at_ = std::numeric_limits<std::uint64_t>::max();
};

// The wire between processes and far sides. Outlives all processes' lives; far sides outlive it.
class SimNetwork final {
 public:
  struct Options {
    // One way, per message, uniformly between the two.
    Duration min_latency = std::chrono::microseconds(200);
    Duration max_latency = std::chrono::milliseconds(2);
    std::uint64_t seed = 1;
    // Some requests to write stay on the way for up to so long, whether or not their sender still waits; 0: none.
    Duration late{};
    unsigned late_one_in = 20;
  };
  SimNetwork(ManualLoop& world, Options options);
  explicit SimNetwork(ManualLoop& world) : SimNetwork(world, Options()) {}
  ~SimNetwork();

  // What a process with `loop` uses to reach `far` (a loopback over a fake, as a rule).
  std::unique_ptr<net::Transport> connect(SimLoop& loop, net::Transport& far);
  // Cuts off everything of that loop: requests on the wire arrive or are lost, each by the dice.
  void cut(SimLoop& loop);

 private:
  struct Call;
  class Transport;
  class Stream;

  Duration latency() { return between(options_.min_latency, options_.max_latency); }
  Duration between(Duration least, Duration most);
  Task<> carry(std::shared_ptr<Call> call);
  Task<> carry_answer(Call& call);

  ManualLoop& world_;
  Options options_;
  std::mt19937_64 random_;
  std::vector<std::weak_ptr<Call>> calls_;
  Gate gate_;
};

// What a main is given.
struct SimEnvironment {
  SimLoop& loop;
  SimNetwork& network;
};

// A program and its lives. `main` builds what the program is made of, runs until `stop` and takes it down again, as the
// real main does.
class SimProcess final {
 public:
  using Main = std::function<Task<>(SimEnvironment&, std::stop_token stop)>;

  SimProcess(ManualLoop& world, SimNetwork& network, Main main);
  ~SimProcess();  // kills what still runs

  // Begins a new life; after a kill, buries the last one first. Not while it runs.
  void start();
  // kill -9, now; also from inside the process.
  void kill();
  void freeze_after(std::uint64_t effects) { life_->loop->freeze_after(effects); }
  void thaw() { life_->loop->thaw(); }
  bool frozen() const noexcept { return running() && life_->loop->frozen(); }
  // SIGTERM: asks it to stop; running() tells when it has.
  void terminate();
  // It has not been killed and its main has not returned.
  bool running() const noexcept;
  // Of this life.
  SimLoop& loop() noexcept { return *life_->loop; }
  void kill_after(std::uint64_t effects) { life_->loop->kill_after(effects); }
  int lives() const noexcept { return lives_; }

 private:
  struct Life {
    std::unique_ptr<SimLoop> loop;
    std::unique_ptr<SimEnvironment> environment;
    std::unique_ptr<Gate> gate;
    std::stop_source stop;
    bool done = false;
  };
  static Task<> live(Main& main, Life& life);
  void bury();

  ManualLoop& world_;
  SimNetwork& network_;
  Main main_;
  std::unique_ptr<Life> life_;
  int lives_ = 0;
};

}  // namespace bascule::testing
