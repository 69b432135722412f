#include <algorithm>
#include <charconv>
#include <stdexcept>

#include "net/client.hpp"

namespace bascule::net {

namespace {

[[noreturn]] void refuse(std::string_view text, const char* what) {
  throw std::invalid_argument("URL \"" + std::string(text.substr(0, 200)) + "\": " + what);
}

bool is_port(std::string_view text) {
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port >= 1 && port <= 65535;
}

bool is_host(std::string_view host, bool bracketed) {
  return !host.empty() && std::ranges::all_of(host, [bracketed](char c) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte <= ' ' || byte >= 0x7f) return false;
    return bracketed ? std::string_view("0123456789abcdefABCDEF:.%").contains(c) || byte >= 'a'
                     : !std::string_view("/?#@[]:\\\"<>").contains(c);
  });
}

}  // namespace

Url parse_url(std::string_view text) {
  Url url;
  if (text.starts_with("unix:")) {
    url.scheme = "unix";
    std::string_view path = text.substr(5);
    if (path.starts_with("//")) path.remove_prefix(2);
    if (!path.starts_with('/')) refuse(text, "a unix socket needs an absolute path");
    if (path.size() > 107) refuse(text, "the path of a unix socket has at most 107 bytes");
    url.path = path;
    return url;
  }
  const std::size_t colon = text.find("://");
  if (colon == std::string_view::npos) refuse(text, "http://, https:// or unix:/ expected");
  url.scheme = text.substr(0, colon);
  std::ranges::transform(url.scheme, url.scheme.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (url.scheme != "http" && url.scheme != "https") refuse(text, "http://, https:// or unix:/ expected");
  std::string_view rest = text.substr(colon + 3);
  std::string_view authority = rest.substr(0, rest.find_first_of("/?#"));
  rest.remove_prefix(authority.size());
  if (const std::size_t at = authority.rfind('@'); at != std::string_view::npos) {
    url.userinfo = percent_decode(authority.substr(0, at));
    authority.remove_prefix(at + 1);
  }
  std::string_view host;
  const bool bracketed = authority.starts_with('[');
  if (bracketed) {
    const std::size_t close = authority.find(']');
    if (close == std::string_view::npos) refuse(text, "a bracket is not closed");
    host = authority.substr(1, close - 1);
    authority.remove_prefix(close + 1);
  } else {
    host = authority.substr(0, authority.find(':'));
    authority.remove_prefix(host.size());
  }
  if (!is_host(host, bracketed)) refuse(text, "the host is not one");
  url.host = host;
  if (authority.empty() || authority == ":") {
    url.port = url.scheme == "https" ? "443" : "80";
  } else if (authority.front() == ':' && is_port(authority.substr(1))) {
    url.port = authority.substr(1);
  } else {
    refuse(text, "the port is not a number from 1 to 65535");
  }
  if (rest.find_first_of("?#") != std::string_view::npos) refuse(text, "a query or fragment has no place here");
  if (std::ranges::any_of(rest, [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == '\x7f'; })) {
    refuse(text, "a space or control character");
  }
  while (rest.ends_with('/')) rest.remove_suffix(1);
  url.path = rest;
  return url;
}

}  // namespace bascule::net
