#include "net/io_loop.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <csignal>
#include <map>
#include <optional>
#include <unordered_map>

#include "base/async.hpp"
#include "net/socket.hpp"

namespace bascule::net {

namespace asio = boost::asio;

// --- loop ------------------------------------------------------------------------------------------------------------

// Timers live in a map of our own, since a cancelled asio timer may still run its handler. One asio timer is armed for
// the earliest; cancelling does not re-arm it, it then wakes for nothing.
struct IoLoop::Impl {
  explicit Impl(IoLoop& loop) : door(std::make_shared<Door>(loop)) {}

  void arm() {
    if (timers.empty()) return;
    const TimePoint when = timers.begin()->first.first;
    if (armed && *armed <= when) return;
    armed = when;
    timer.expires_at(when);
    timer.async_wait([this](const boost::system::error_code& error) {
      if (!error) fire();
    });
  }

  // Timers set by the callbacks wait for the next round, so that sockets get their turn.
  void fire() {
    armed.reset();
    const TimePoint now = std::chrono::steady_clock::now();
    const TimerId first_new = next_id;
    while (!timers.empty()) {
      const auto first = timers.begin();
      if (first->first.first > now || first->first.second >= first_new) break;
      auto fn = std::move(first->second);
      due.erase(first->first.second);
      timers.erase(first);
      fn();
    }
    arm();
  }

  void wait_signal() {
    signals.async_wait([this](const boost::system::error_code& error, int) {
      if (error) return;
      on_terminate();
      wait_signal();
    });
  }

  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  asio::steady_timer timer{context};
  asio::signal_set signals{context};
  std::function<void()> on_terminate;
  std::optional<TimePoint> armed;
  std::map<std::pair<TimePoint, TimerId>, std::move_only_function<void()>> timers;
  std::unordered_map<TimerId, TimePoint> due;
  TimerId next_id = 1;
  std::shared_ptr<Door> door;
};

IoLoop::IoLoop() : impl_(std::make_unique<Impl>(*this)) {
  std::signal(SIGPIPE, SIG_IGN);
}

IoLoop::~IoLoop() {
  impl_->door->shut();
  // What the callbacks hold may cancel timers while it goes away.
  const auto timers = std::move(impl_->timers);
  impl_->timers.clear();
  impl_->due.clear();
}

TimePoint IoLoop::now() const {
  return std::chrono::steady_clock::now();
}

WallTime IoLoop::wall() const {
  return std::chrono::system_clock::now();
}

void IoLoop::post(std::move_only_function<void()> fn) {
  asio::post(impl_->context, std::move(fn));
}

Loop::TimerId IoLoop::call_at(TimePoint when, std::move_only_function<void()> fn) {
  const TimerId id = impl_->next_id++;
  impl_->timers.emplace(std::pair(when, id), std::move(fn));
  impl_->due.emplace(id, when);
  impl_->arm();
  return id;
}

void IoLoop::cancel(TimerId id) noexcept {
  const auto it = impl_->due.find(id);
  if (it == impl_->due.end()) return;
  const auto timer = impl_->timers.find({it->second, id});
  impl_->due.erase(it);
  if (timer == impl_->timers.end()) return;
  const auto fn = std::move(timer->second);  // destroyed last: it may own something that cancels another timer
  impl_->timers.erase(timer);
}

void IoLoop::run() {
  impl_->context.run();
  impl_->context.restart();
}

void IoLoop::quit() {
  impl_->context.stop();
}

void IoLoop::on_terminate(std::function<void()> fn) {
  const bool first = !impl_->on_terminate;
  impl_->on_terminate = std::move(fn);
  if (!first) return;
  impl_->signals.add(SIGTERM);
  impl_->signals.add(SIGINT);
  impl_->wait_signal();
}

// --- door ------------------------------------------------------------------------------------------------------------

void Door::post(std::move_only_function<void()> fn) {
  const std::scoped_lock lock(mutex_);
  if (loop_ != nullptr) loop_->post(std::move(fn));
}

void Door::shut() noexcept {
  const std::scoped_lock lock(mutex_);
  loop_ = nullptr;
}

std::shared_ptr<Door> door(IoLoop& loop) {
  return loop.impl().door;
}

// --- socket ----------------------------------------------------------------------------------------------------------

// A wait that nobody waits for any more (deadline, stop) stays with the kernel and is taken over by the next one.
struct Socket::Watch {
  struct Side {
    explicit Side(Loop& loop) : bell(loop) {}
    Bell bell;
    bool armed = false;
  };

  Watch(IoLoop& loop, int fd) : descriptor(loop.impl().context, fd), read(loop), write(loop) {}

  asio::posix::stream_descriptor descriptor;
  Side read;
  Side write;
};

Socket::Socket(IoLoop& loop, int fd) : watch_(std::make_shared<Watch>(loop, fd)) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    watch_ = std::move(other.watch_);
  }
  return *this;
}

int Socket::fd() const noexcept {
  return watch_ && watch_->descriptor.is_open() ? watch_->descriptor.native_handle() : -1;
}

void Socket::close() noexcept {
  if (!watch_) return;
  boost::system::error_code ignored;
  watch_->descriptor.close(ignored);
}

Task<bool> Socket::readable(TimePoint deadline, std::stop_token stop) {
  return wait(watch_, false, deadline, std::move(stop));
}

Task<bool> Socket::writable(TimePoint deadline, std::stop_token stop) {
  return wait(watch_, true, deadline, std::move(stop));
}

Task<bool> Socket::wait(std::shared_ptr<Watch> watch, bool write, TimePoint deadline, std::stop_token stop) {
  if (!watch || !watch->descriptor.is_open()) co_return true;
  Watch::Side& side = write ? watch->write : watch->read;
  if (!side.armed) {
    side.armed = true;
    const auto type = write ? asio::posix::descriptor_base::wait_write : asio::posix::descriptor_base::wait_read;
    watch->descriptor.async_wait(type, [watch, &side](const boost::system::error_code&) {
      side.armed = false;
      side.bell.notify();
    });
  }
  co_return co_await side.bell.wait(std::move(stop), deadline);
}

}  // namespace bascule::net
