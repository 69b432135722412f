#include "base/check.hpp"

#include <execinfo.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace bascule {

void check_failed(const char* expression, std::string_view message, const char* file, int line) noexcept {
  std::fprintf(stderr, "bascule: broken promise at %s:%d: %s: %.*s\n", file, line, expression,
               static_cast<int>(message.size()), message.data());
  void* frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
  std::abort();
}

}  // namespace bascule
