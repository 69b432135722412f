#include "net/proxy.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string_view>

#include "base/log.hpp"
#include "base/text.hpp"

namespace bascule::net {

namespace {

struct Address {
  std::array<unsigned char, 16> bytes{};  // of IPv4 the last four count
  bool v4 = false;
  friend bool operator==(const Address&, const Address&) = default;
};

std::optional<Address> address_of(const std::string& text) {
  Address out;
  if (inet_pton(AF_INET, text.c_str(), &out.bytes[12]) == 1) {
    out.v4 = true;
    return out;
  }
  if (inet_pton(AF_INET6, text.c_str(), out.bytes.data()) != 1) return std::nullopt;
  // ::ffff:1.2.3.4 is 1.2.3.4.
  static constexpr std::array<unsigned char, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  out.v4 = std::equal(kMapped.begin(), kMapped.end(), out.bytes.begin());
  if (out.v4) std::fill_n(out.bytes.begin(), 12, static_cast<unsigned char>(0));
  return out;
}

bool is_loopback(const Address& address) noexcept {
  if (address.v4) return address.bytes[12] == 127;
  return std::ranges::count(address.bytes, 0) == 15 && address.bytes[15] == 1;
}

// nullopt: no range.
std::optional<bool> in_range(const std::string& range, const std::optional<Address>& address) {
  const std::size_t slash = range.find('/');
  if (slash == std::string::npos) return std::nullopt;
  const std::optional<Address> base = address_of(range.substr(0, slash));
  std::size_t bits = 0;
  const char* const end = range.data() + range.size();
  const auto [stop, error] = std::from_chars(range.data() + slash + 1, end, bits);
  if (!base || error != std::errc() || stop != end || bits > (base->v4 ? 32 : 128)) return std::nullopt;
  if (!address || address->v4 != base->v4) return false;
  if (base->v4) bits += 96;
  for (std::size_t i = 0; i < bits; ++i) {
    const int differ = base->bytes[i / 8] ^ address->bytes[i / 8];
    if ((differ & (0x80 >> (i % 8))) != 0) return false;
  }
  return true;
}

struct HostPort {
  std::string host;
  std::string port;
};

// A bare IPv6 address has no port.
HostPort split(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == text.size() - 1) return {text.substr(1, close - 1), ""};
    if (close != std::string::npos && colon == close + 1) return {text.substr(1, close - 1), text.substr(colon + 1)};
  }
  if (colon == std::string::npos || text.find(':') != colon) return {text, ""};
  return {text.substr(0, colon), text.substr(colon + 1)};
}

struct Target {
  std::string host;  // in lower case
  std::string port;
  std::optional<Address> address;
};

bool is_named(const Target& target, const std::string& entry) {
  if (entry == "*") return true;
  if (const auto within = in_range(entry, target.address)) return *within;
  auto [host, port] = split(entry);
  if (host.empty() || (!port.empty() && port != target.port)) return false;
  if (const auto address = address_of(host)) return target.address == address;
  if (host.starts_with("*.")) host.erase(0, 1);
  if (host.starts_with('.')) return target.host.ends_with(host);
  return target.host == host || target.host.ends_with("." + host);
}

bool goes_straight(const Url& url, const std::string& none) {
  const Target target{lowered(url.host), url.port, address_of(url.host)};
  if (target.host == "localhost" || (target.address && is_loopback(*target.address))) return true;
  for (std::string_view rest = none; !rest.empty();) {
    const std::size_t comma = std::min(rest.find(','), rest.size());
    if (is_named(target, lowered(trimmed(rest.substr(0, comma))))) return true;
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return false;
}

std::string variable(const char* upper, const char* lower_case) {
  for (const char* name : {upper, lower_case}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return {};
}

}  // namespace

std::optional<Url> proxy_of(const Url& url, const ProxyVariables& variables) {
  if (url.scheme != "http" && url.scheme != "https") return std::nullopt;
  const bool secure = url.scheme == "https";
  const std::string_view value = trimmed(secure ? variables.https : variables.http);
  if (value.empty() || goes_straight(url, variables.none)) return std::nullopt;
  const std::string name = secure ? "HTTPS_PROXY" : "HTTP_PROXY";
  const std::size_t scheme = value.find("://");
  if (scheme != std::string_view::npos && lowered(value.substr(0, scheme)) != "http") {
    throw std::invalid_argument(name + ": " + std::string(value.substr(0, scheme)) +
                                " proxies are not supported; use an http:// proxy, or name " + url.host +
                                " in NO_PROXY");
  }
  try {
    return parse_url(scheme == std::string_view::npos ? "http://" + std::string(value) : std::string(value));
  } catch (const std::invalid_argument&) {
    // Its text is not repeated: it may hold a password.
    throw std::invalid_argument(name + ": expected http://HOST:PORT");
  }
}

ProxyVariables proxy_variables() {
  return {.http = variable("HTTP_PROXY", "http_proxy"),
          .https = variable("HTTPS_PROXY", "https_proxy"),
          .none = variable("NO_PROXY", "no_proxy")};
}

void use_proxy_of_environment(ClientOptions& options) {
  if (options.proxy) return;
  options.proxy = proxy_of(options.url, proxy_variables());
  if (!options.proxy) return;
  log::info("reached through a proxy, as the environment says",
            {{"host", options.url.host},
             {"port", options.url.port},
             {"proxy", options.proxy->host + ":" + options.proxy->port}});
}

}  // namespace bascule::net
