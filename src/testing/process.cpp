#include "testing/process.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.hpp"
#include "base/log.hpp"

namespace bascule::testing {

using net::Error;

// --- loop ------------------------------------------------------------------------------------------------------------

SimLoop::SimLoop(ManualLoop& world) : world_(world), self_(std::make_shared<SimLoop*>(this)) {}

SimLoop::~SimLoop() {
  *self_ = nullptr;
  for (const auto& [id, timer] : timers_) world_.cancel(timer.in_world);
}

TimePoint SimLoop::now() const {
  return dead_ ? time_ : world_.now();
}
WallTime SimLoop::wall() const {
  return dead_ ? wall_ : world_.wall();
}

void SimLoop::post(std::move_only_function<void()> fn) {
  ready_.push_back(std::move(fn));
  if (dead_) return;
  world_.post([self = self_] {
    if (*self) (*self)->run_front();
  });
}

Loop::TimerId SimLoop::call_at(TimePoint when, std::move_only_function<void()> fn) {
  const TimerId id = next_++;
  TimerId in_world = 0;
  if (!dead_) {
    in_world = world_.call_at(when, [self = self_, id] {
      if (*self) (*self)->fire(id);
    });
  }
  timers_.emplace(id, Timer{when, in_world, std::move(fn)});
  return id;
}

void SimLoop::cancel(TimerId id) noexcept {
  const auto at = timers_.find(id);
  if (at == timers_.end()) return;
  world_.cancel(at->second.in_world);
  timers_.erase(at);
}

void SimLoop::kill() {
  if (dead_) return;
  time_ = world_.now();
  wall_ = world_.wall();
  dead_ = true;
  for (const auto& [id, timer] : timers_) world_.cancel(timer.in_world);
  if (on_kill) on_kill();
}

bool SimLoop::effect() {
  if (!dead_ && effects_ >= die_at_) kill();
  ++effects_;
  return !dead_;
}

bool SimLoop::holds() {
  frozen_ = frozen_ || effects_ >= freeze_at_;
  return frozen_;
}

void SimLoop::thaw() {
  freeze_at_ = std::numeric_limits<std::uint64_t>::max();
  if (!std::exchange(frozen_, false)) return;
  const auto later = [this](auto what) {
    world_.post([self = self_, what] {
      if (*self) what(**self);
    });
  };
  for (; held_ > 0; --held_) later([](SimLoop& loop) { loop.run_front(); });
  for (const TimerId id : std::exchange(rung_, {})) later([id](SimLoop& loop) { loop.fire(id); });
}

void SimLoop::run_front() {
  if (holds()) {
    ++held_;
    return;
  }
  if (dead_ || ready_.empty() || !effect()) return;
  auto fn = std::move(ready_.front());
  ready_.pop_front();
  fn();
}

void SimLoop::fire(TimerId id) {
  if (holds()) return rung_.push_back(id);
  const auto at = timers_.find(id);
  if (dead_ || at == timers_.end() || !effect()) return;
  auto fn = std::move(at->second.fn);
  timers_.erase(at);
  fn();
}

bool SimLoop::run_cut_off(const std::function<bool()>& done, Duration limit) {
  const TimePoint end = time_ + limit;
  while (true) {
    while (!ready_.empty()) {
      auto fn = std::move(ready_.front());
      ready_.pop_front();
      fn();
    }
    if (done()) return true;
    const auto first = std::ranges::min_element(
        timers_, {}, [](const auto& timer) { return std::pair(timer.second.when, timer.first); });
    if (first == timers_.end() || first->second.when > end) return false;
    const Duration passes = std::max(Duration::zero(), first->second.when - time_);
    time_ += passes;
    wall_ += passes;
    auto fn = std::move(first->second.fn);
    timers_.erase(first);
    fn();
  }
}

// --- network ---------------------------------------------------------------------------------------------------------

namespace {
constexpr std::size_t kWindow = std::size_t{64} << 10;  // bytes of a body under way to a process that does not read
}

// One request and its answer. The process's side waits at `news`, the world's at `drained`.
struct SimNetwork::Call {
  Call(ManualLoop& world, SimLoop& l, net::Transport& f, net::Request r)
      : far(f), loop(&l), request(std::move(r)), news(l), drained(world) {}

  void tell() {
    if (!cut) news.notify();
  }

  net::Transport& far;
  SimLoop* loop;
  net::Request request;
  bool late = false;  // done whoever waits for it
  bool delivered = false;
  bool lost = false;
  bool cut = false;  // nobody waits for the answer any more
  std::stop_source hang_up;
  std::stop_source end;  // of the world
  Bell news;
  Bell drained;
  std::optional<net::Response> head;
  std::deque<std::string> pieces;
  std::size_t waiting = 0;
  bool ended = false;
  std::optional<Error> error;
};

SimNetwork::SimNetwork(ManualLoop& world, Options options)
    : world_(world), options_(options), random_(options.seed), gate_(world) {}

SimNetwork::~SimNetwork() {
  for (const auto& weak : calls_) {
    const auto call = weak.lock();
    if (!call) continue;
    call->cut = true;
    call->hang_up.request_stop();
    call->end.request_stop();
  }
  world_.run_until([this] { return gate_.count() == 0; }, std::chrono::hours(1));
}

Duration SimNetwork::between(Duration least, Duration most) {
  const auto span = (most - least).count();
  return least + Duration(span > 0 ? static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(span)) : 0);
}

Task<> SimNetwork::carry(std::shared_ptr<Call> call) {
  const bool writes = call->request.method != "GET";
  call->late = writes && options_.late > Duration() && random_() % options_.late_one_in == 0;
  co_await sleep_for(world_, call->late ? between(latency(), options_.late) : latency(), call->end.get_token());
  if (call->lost) co_return;
  call->delivered = true;
  try {
    co_await carry_answer(*call);
    call->ended = true;
  } catch (const Error& e) {
    if (!call->error) call->error = e;
  }
  call->tell();
}

Task<> SimNetwork::carry_answer(Call& call) {
  // Far enough: the caller's own deadline is kept on its own side.
  const net::CallLimits limits{.deadline = world_.now() + std::chrono::hours(24),
                               .stop = call.late ? call.end.get_token() : call.hang_up.get_token()};
  net::StreamResponse answer = co_await call.far.open(call.request, limits);
  co_await sleep_for(world_, latency(), std::stop_token());
  if (call.cut) co_return;
  call.head.emplace(net::Response{answer.status, std::move(answer.headers), {}});
  call.tell();
  while (!call.cut) {
    std::string piece(co_await answer.body->read(TimePoint::max(), call.hang_up.get_token()));
    if (piece.empty()) co_return;
    co_await sleep_for(world_, latency(), std::stop_token());
    call.waiting += piece.size();
    call.pieces.push_back(std::move(piece));
    call.tell();
    while (call.waiting > kWindow && !call.cut) co_await call.drained.wait(call.hang_up.get_token());
  }
}

void SimNetwork::cut(SimLoop& loop) {
  for (const auto& weak : calls_) {
    const auto call = weak.lock();
    if (!call || call->loop != &loop || call->cut) continue;
    if (!call->error) call->error.emplace(Error::Kind::kBroken, "the process has been killed");
    call->tell();
    call->cut = true;
    if (call->delivered) {
      call->hang_up.request_stop();
    } else {
      call->lost = random_() % 2 == 0;
    }
  }
  std::erase_if(calls_, [](const auto& weak) { return weak.expired(); });
}

class SimNetwork::Stream final : public net::BodyStream {
 public:
  explicit Stream(std::shared_ptr<Call> call) : call_(std::move(call)) {}
  ~Stream() override {
    call_->cut = true;
    call_->hang_up.request_stop();
  }

  Task<std::string_view> read(TimePoint deadline, std::stop_token stop) override {
    Call& call = *call_;
    while (true) {
      if (stop.stop_requested()) throw Error(Error::Kind::kStopped, "stopped while reading a body");
      if (call.loop->dead()) throw Error(Error::Kind::kBroken, "the process has been killed");
      if (!call.pieces.empty()) break;
      if (call.error) throw Error(*call.error);
      if (call.ended) co_return std::string_view();
      const bool news = co_await call.news.wait(stop, deadline);
      if (news || stop.stop_requested()) continue;
      throw Error(Error::Kind::kDeadline, "no part of the body came in time");
    }
    current_ = std::move(call.pieces.front());
    call.pieces.pop_front();
    call.waiting -= current_.size();
    call.drained.notify();
    co_return std::string_view(current_);
  }

 private:
  std::shared_ptr<Call> call_;
  std::string current_;
};

class SimNetwork::Transport final : public net::Transport {
 public:
  Transport(SimNetwork& network, SimLoop& loop, net::Transport& far) : network_(network), loop_(loop), far_(far) {}

  Task<net::Response> call(net::Request request, net::CallLimits limits) override {
    net::StreamResponse head = co_await open(std::move(request), limits);
    net::Response response{.status = head.status, .headers = std::move(head.headers), .body = {}};
    while (true) {
      const std::string_view piece = co_await head.body->read(limits.deadline, limits.stop);
      if (piece.empty()) co_return response;
      if (piece.size() > limits.max_body - response.body.size()) {
        throw Error(Error::Kind::kTooLarge, "a body of more than " + std::to_string(limits.max_body) + " bytes");
      }
      response.body += piece;
    }
  }

  Task<net::StreamResponse> open(net::Request request, net::CallLimits limits) override {
    if (limits.stop.stop_requested()) throw Error(Error::Kind::kStopped, "stopped before sending", Error::Sent::kNo);
    if (!loop_.effect()) {
      // What comes after this send must not happen in the world: go on only once cut off from it.
      co_await sleep_until(loop_, loop_.now(), std::stop_token());
      throw Error(Error::Kind::kUnreachable, "the process has been killed");
    }
    const auto call = std::make_shared<Call>(network_.world_, loop_, far_, std::move(request));
    auto body = std::make_unique<Stream>(call);
    std::erase_if(network_.calls_, [](const auto& weak) { return weak.expired(); });
    network_.calls_.push_back(call);
    spawn(network_.gate_, network_.carry(call));
    while (!call->head && !call->error && !call->ended) {
      const bool news = co_await call->news.wait(limits.stop, limits.deadline);
      if (news) continue;
      if (limits.stop.stop_requested()) throw Error(Error::Kind::kStopped, "stopped while waiting for an answer");
      throw Error(Error::Kind::kDeadline, "no answer came in time");
    }
    if (call->error) throw Error(*call->error);
    co_return net::StreamResponse{call->head->status, call->head->headers, std::move(body)};
  }

 private:
  SimNetwork& network_;
  SimLoop& loop_;
  net::Transport& far_;
};

std::unique_ptr<net::Transport> SimNetwork::connect(SimLoop& loop, net::Transport& far) {
  return std::make_unique<Transport>(*this, loop, far);
}

// --- process ---------------------------------------------------------------------------------------------------------

SimProcess::SimProcess(ManualLoop& world, SimNetwork& network, Main main)
    : world_(world), network_(network), main_(std::move(main)) {}

SimProcess::~SimProcess() {
  bury();
}

Task<> SimProcess::live(Main& main, Life& life) {
  try {
    co_await main(*life.environment, life.stop.get_token());
  } catch (const std::exception& e) {
    // As a real main that ends with an error; a dead one may, for its network is gone.
    if (!life.loop->dead()) log::warning("a simulated process ended with an error", {{"error", e}});
  }
  life.done = true;
}

void SimProcess::start() {
  BASCULE_CHECK(!running(), "a process is started once at a time");
  bury();
  life_ = std::make_unique<Life>();
  Life& life = *life_;
  life.loop = std::make_unique<SimLoop>(world_);
  life.loop->on_kill = [this, loop = life.loop.get()] { network_.cut(*loop); };
  life.environment = std::make_unique<SimEnvironment>(SimEnvironment{*life.loop, network_});
  life.gate = std::make_unique<Gate>(*life.loop);
  ++lives_;
  life.loop->post([this, &life] { spawn(*life.gate, live(main_, life)); });
}

void SimProcess::kill() {
  if (life_) life_->loop->kill();
}

void SimProcess::terminate() {
  if (life_ && !life_->loop->dead()) life_->stop.request_stop();
}

bool SimProcess::running() const noexcept {
  return life_ && !life_->done && !life_->loop->dead();
}

void SimProcess::bury() {
  if (!life_) return;
  Life& life = *life_;
  life.loop->kill();
  life.stop.request_stop();
  const bool ended = life.loop->run_cut_off(
      // A process killed before its first step has no main to wait for; posted it runs here, stopped from the start.
      [&life] { return life.done && life.gate->count() == 0; }, std::chrono::hours(1));
  BASCULE_CHECK(ended, "a process that is asked to stop ends, even without a network");
  life_.reset();
}

}  // namespace bascule::testing
