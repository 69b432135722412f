// A non-blocking descriptor on the loop; the only way other files of this room wait for the kernel.
#pragma once

#include <memory>
#include <mutex>
#include <stop_token>

#include "base/task.hpp"
#include "net/io_loop.hpp"

namespace bascule::net {

class Socket final {
 public:
  Socket() noexcept = default;
  // Takes `fd`, which must be non-blocking.
  Socket(IoLoop& loop, int fd);
  Socket(Socket&&) noexcept = default;
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }

  // -1 when closed.
  int fd() const noexcept;
  // Wakes whoever waits; their next operation fails.
  void close() noexcept;
  // True when the descriptor may be ready (try, and wait again if it is not); false when stopped or at the deadline.
  Task<bool> readable(TimePoint deadline, std::stop_token stop);
  Task<bool> writable(TimePoint deadline, std::stop_token stop);

 private:
  struct Watch;
  static Task<bool> wait(std::shared_ptr<Watch> watch, bool write, TimePoint deadline, std::stop_token stop);
  std::shared_ptr<Watch> watch_;
};

// A way to post from threads that may outlive the loop: what comes after the loop's end is dropped.
class Door final {
 public:
  explicit Door(Loop& loop) noexcept : loop_(&loop) {}
  void post(std::move_only_function<void()> fn);
  void shut() noexcept;

 private:
  std::mutex mutex_;
  Loop* loop_;
};
std::shared_ptr<Door> door(IoLoop& loop);

}  // namespace bascule::net
