#include "base/file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace bascule {

namespace {

constexpr std::size_t kPiece = std::size_t{16} << 10;

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

std::expected<std::string, FileFault> read_file(const std::string& path, std::size_t limit) {
  const auto failed = [] { return std::unexpected(FileFault{.too_large = false, .why = std::strerror(errno)}); };
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (file.fd < 0) return failed();
  std::string text;
  std::array<char, kPiece> piece{};
  while (true) {
    const ssize_t count = ::read(file.fd, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed();
    if (count == 0) return text;
    if (static_cast<std::size_t>(count) > limit - text.size()) {
      return std::unexpected(FileFault{.too_large = true, .why = fmt::format("has more than {} bytes", limit)});
    }
    text.append(piece.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace bascule
