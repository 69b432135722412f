#include "net/proxy.hpp"

#include <gmock/gmock.h>

#include <cstdlib>

namespace bascule::net {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Of a URL when every URL has a proxy and NO_PROXY is `none`.
bool proxied(const std::string& url, const std::string& none) {
  return proxy_of(parse_url(url), {.http = "http://p:3128", .https = "http://p:3128", .none = none}).has_value();
}

TEST(Proxy, IsThatOfTheScheme) {
  const ProxyVariables both{.http = "http://plain:1", .https = "http://user:word@secure:2", .none = ""};
  EXPECT_EQ(proxy_of(parse_url("http://h"), both)->host, "plain");
  const auto secure = proxy_of(parse_url("https://h"), both);
  ASSERT_TRUE(secure);
  EXPECT_EQ(secure->host + ":" + secure->port, "secure:2");
  EXPECT_EQ(secure->userinfo, "user:word");
  EXPECT_FALSE(proxy_of(parse_url("unix:/run/s"), both));
  EXPECT_FALSE(proxy_of(parse_url("https://h"), {.http = "http://plain:1", .https = "", .none = ""}));
  EXPECT_EQ(proxy_of(parse_url("http://h"), {.http = "p:3128", .https = "", .none = ""})->port, "3128");
  EXPECT_EQ(proxy_of(parse_url("http://h"), {.http = " p ", .https = "", .none = ""})->port, "80");
}

TEST(Proxy, NeverLeadsToThisMachine) {
  for (const char* host : {"localhost", "LocalHost", "127.0.0.1", "127.9.8.7", "[::1]", "[::ffff:127.0.0.1]"}) {
    EXPECT_FALSE(proxied(std::string("https://") + host + ":6443", "")) << host;
  }
  for (const char* host : {"localhost.example", "128.0.0.1", "[::2]", "10.0.0.1"}) {
    EXPECT_TRUE(proxied(std::string("https://") + host + ":6443", "")) << host;
  }
}

// Go's rules; where it splits hairs the case says so.
TEST(Proxy, NoProxyNamesWhatIsReachedStraight) {
  struct Case {
    const char* host;
    const char* none;
    bool straight;
  };
  const Case cases[] = {
      {"a.example", "*", true},
      {"a.example", "x, *", true},
      {"a.example", "*a", false},
      {"a.example", "", false},
      {"a.example", " , ,", false},
      {"a.example", "a.example", true},
      {"A.Example", "a.eXample", true},
      {"b.a.example", "a.example", true},
      {"ba.example", "a.example", false},
      {"a.example", "b.a.example", false},
      {"a.example", ".a.example", false},
      {"b.a.example", ".a.example", true},
      {"a.example", "*.a.example", false},
      {"c.b.a.example", "*.a.example", true},
      {"a.example", "x,  a.example ,y", true},
      {"a.example", "a.example:6443", true},
      {"a.example", "a.example:443", false},
      {"b.a.example", ".a.example:6443", true},
      {"a.example", ":6443", false},
      {"kubernetes.default.svc", ".svc,.cluster.local", true},
      {"10.1.2.3", "10.0.0.0/8", true},
      {"10.1.2.3", "10.9.9.9/8", true},
      {"11.1.2.3", "10.0.0.0/8", false},
      {"10.1.2.3", "10.1.2.0/23", true},
      {"10.1.4.3", "10.1.2.0/23", false},
      {"10.1.2.3", "0.0.0.0/0", true},
      {"10.1.2.3", "10.0.0.0/33", false},
      {"10.1.2.3", "10.0.0.0/", false},
      {"10.1.2.3", "::/0", false},
      {"10.1.2.3", "10.1.2.3", true},
      {"10.1.2.3", "10.1.2.3:6443", true},
      {"10.1.2.3", "10.1.2.3:80", false},
      {"10.1.2.3", "10.1.2", false},
      {"10.1.2.3", "2.3", true},  // a name to Go
      {"10.0.0.1.example", "10.0.0.0/8", false},
      {"[fd00::1]", "fd00::/8", true},
      {"[fd00::1]", "fd00:0::1", true},
      {"[fd00::1]", "[fd00::1]:6443", true},
      {"[fd00::1]", "[fd00::1]:80", false},
      {"[fd00::1]", "fe00::/8", false},
      {"[::ffff:10.1.2.3]", "10.0.0.0/8", true},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(proxied(std::string("https://") + c.host + ":6443", c.none), !c.straight) << c.host << " | " << c.none;
  }
}

TEST(Proxy, WhatCannotBeUsedIsSaidWithoutItsPassword) {
  const auto says = [](const std::string& proxy) {
    try {
      proxy_of(parse_url("https://h"), {.http = "", .https = proxy, .none = "straight"});
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_EQ(says("socks5://u:secret@p:1"),
            "HTTPS_PROXY: socks5 proxies are not supported; use an http:// proxy, or name h in NO_PROXY");
  EXPECT_THAT(says("https://p:1"), HasSubstr("https proxies are not supported"));
  EXPECT_EQ(says("http://u:secret@p:none"), "HTTPS_PROXY: expected http://HOST:PORT");
  EXPECT_FALSE(proxy_of(parse_url("https://straight"), {.http = "", .https = "socks5://p:1", .none = "straight"}));
}

TEST(Proxy, VariablesMayBeInLowerCase) {
  for (const char* name : {"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}) {
    ::unsetenv(name);
  }
  ::setenv("http_proxy", "http://small", 1);
  ::setenv("HTTPS_PROXY", "http://large", 1);
  ::setenv("https_proxy", "http://small", 1);
  ::setenv("no_proxy", "h", 1);
  EXPECT_EQ(proxy_variables().http, "http://small");
  EXPECT_EQ(proxy_variables().https, "http://large");
  ClientOptions options{.url = parse_url("https://far:6443")};
  use_proxy_of_environment(options);
  ASSERT_TRUE(options.proxy);
  EXPECT_EQ(options.proxy->host, "large");
  options = {.url = parse_url("https://far"), .proxy = parse_url("http://given")};
  use_proxy_of_environment(options);
  EXPECT_EQ(options.proxy->host, "given");
  options = {.url = parse_url("https://h")};
  use_proxy_of_environment(options);
  EXPECT_FALSE(options.proxy);
  for (const char* name : {"HTTPS_PROXY", "http_proxy", "https_proxy", "no_proxy"}) ::unsetenv(name);
}

}  // namespace
}  // namespace bascule::net
