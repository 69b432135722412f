#include "slurm/token.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/base64.hpp"
#include "base/file.hpp"
#include "base/time.hpp"
#include "json/value.hpp"
#include "slurm/error.hpp"

namespace bascule::slurm {

namespace {

// One that was refused may have been over when it came, by the clock of a slurmctld ahead of ours: the next is good for
// so much longer.
constexpr Duration kClockBehind = std::chrono::hours(24);
constexpr std::size_t kMaxToken = std::size_t{64} * 1024;

[[noreturn]] void fail(const std::string& sentence) {
  throw Unauthorized(0, 0, sentence);
}

// What stands in the file, without SLURM_JWT= and white space. Says nothing of the content in errors.
std::string read_token(const std::string& path) {
  const auto text = read_file(path, kMaxToken);
  if (!text && text.error().too_large) fail(fmt::format("the Slurm token file {} has more than 64 KiB", path));
  if (!text) {
    fail(fmt::format("the Slurm token file {} cannot be read: {}; write a token of \"scontrol token\" there", path,
                     text.error().why));
  }
  std::string_view token = *text;
  const auto trim = [&token] {
    constexpr std::string_view kSpace = " \t\r\n";
    token.remove_prefix(std::min(token.find_first_not_of(kSpace), token.size()));
    token = token.substr(0, token.find_last_not_of(kSpace) + 1);
  };
  trim();
  constexpr std::string_view kPrefix = "SLURM_JWT=";
  if (token.starts_with(kPrefix)) token.remove_prefix(kPrefix.size());
  trim();
  if (token.empty())
    fail(fmt::format("the Slurm token file {} is empty; write a token of \"scontrol token\" there", path));
  // It becomes a header field: nothing but visible characters may be in it.
  if (!std::ranges::all_of(token, [](char c) { return c > ' ' && c < 127; })) {
    fail(fmt::format("the Slurm token file {} holds more than one word", path));
  }
  return std::string(token);
}

// Changes whenever the file is written or replaced.
struct Stamp {
  std::int64_t seconds = 0;
  std::int64_t nanoseconds = 0;
  std::uint64_t inode = 0;
  std::int64_t size = -1;
  friend bool operator==(const Stamp&, const Stamp&) = default;
};

std::optional<Stamp> stamp_of(const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return Stamp{info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_ino, info.st_size};
}

struct FileState {
  std::string path;
  Stamp stamp;
  std::string token;
};

Task<std::string> from_file(std::shared_ptr<FileState> state, bool refresh) {
  const std::optional<Stamp> stamp = stamp_of(state->path);
  if (refresh || state->token.empty() || !stamp || *stamp != state->stamp) {
    state->token.clear();
    state->token = read_token(state->path);
    state->stamp = stamp.value_or(Stamp{});
  }
  co_return state->token;
}

struct KeyState {
  const Clock& clock;
  std::string key;
  std::string user;
  Duration lifetime;
  WallTime issued{};
  std::string token;
};

Task<std::string> from_key(std::shared_ptr<KeyState> state, bool refresh) {
  const WallTime now = state->clock.wall();
  // Also when civil time was set back before the issue: the token would be good for longer than it should.
  const bool old = now < state->issued || now - state->issued >= state->lifetime / 2;
  if (refresh || state->token.empty() || old) {
    const Duration spare = refresh ? kClockBehind : Duration{};
    state->token = sign_token(state->key, state->user, now, state->lifetime + spare);
    state->issued = now;
  }
  co_return state->token;
}

std::optional<WallTime> time_at(const json::Value& claims, std::string_view claim) {
  constexpr std::int64_t kLast = 9'000'000'000;  // WallTime ends in 2262
  const std::optional<std::int64_t> seconds = json::int_at(claims, {claim});
  if (!seconds || *seconds < 0 || *seconds > kLast) return std::nullopt;
  return WallTime(std::chrono::seconds(*seconds));
}

struct WatchedState {
  TokenSource source;
  std::function<void(const TokenTimes&)> tell;
  std::string token;
};

Task<std::string> and_tell(std::shared_ptr<WatchedState> state, bool refresh) {
  std::string token = co_await state->source(refresh);
  if (token != state->token) {
    state->token = token;
    state->tell(times_of(token));
  }
  co_return token;
}

Task<std::string> always(std::shared_ptr<const std::string> token) {
  if (token->empty()) fail("the Slurm token is empty");
  co_return *token;
}

}  // namespace

TokenSource fixed_token(std::string token) {
  return [shared = std::make_shared<const std::string>(std::move(token))](bool) { return always(shared); };
}

TokenSource file_token(std::string path) {
  auto state = std::make_shared<FileState>();
  state->path = std::move(path);
  return [state](bool refresh) { return from_file(state, refresh); };
}

TokenSource key_token(const Clock& clock, std::string key, std::string user, Duration lifetime) {
  auto state = std::make_shared<KeyState>(KeyState{clock, std::move(key), std::move(user), lifetime, {}, {}});
  return [state](bool refresh) { return from_key(state, refresh); };
}

TokenTimes times_of(std::string_view token) {
  const std::size_t first = token.find('.');
  const std::size_t last = token.rfind('.');
  if (first == std::string_view::npos || first == last) return {};
  const std::optional<std::string> claims = base64url_decode(token.substr(first + 1, last - first - 1));
  if (!claims) return {};
  try {
    const json::Value value = json::parse(*claims);
    return {time_at(value, "iat"), time_at(value, "exp")};
  } catch (const json::ParseError&) {
    return {};
  }
}

TokenSource watched(TokenSource source, std::function<void(const TokenTimes&)> tell) {
  auto state = std::make_shared<WatchedState>(WatchedState{std::move(source), std::move(tell), {}});
  return [state](bool refresh) { return and_tell(state, refresh); };
}

std::string sign_token(const std::string& key, const std::string& user, WallTime issued, Duration lifetime) {
  if (key.empty()) fail("the Slurm JWT key is empty; give the bytes of jwt_hs256.key");
  const std::int64_t iat = epoch_seconds(issued);
  const std::int64_t exp = epoch_seconds(issued + lifetime);
  const std::string head = R"({"alg":"HS256","typ":"JWT"})";
  const std::string claims = json::dump(json::Object{{"iat", iat}, {"exp", exp}, {"sun", user}});
  std::string token = base64url_encode(head) + '.' + base64url_encode(claims);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  const unsigned char* done =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(token.data()),
           token.size(), digest.data(), &length);
  if (done == nullptr) fail("the Slurm token cannot be signed: OpenSSL's HMAC failed");
  token += '.' + base64url_encode({reinterpret_cast<const char*>(digest.data()), length});
  return token;
}

}  // namespace bascule::slurm
