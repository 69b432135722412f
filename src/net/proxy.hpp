// Which proxy leads to a URL, by the variables that every program in Go obeys (net/http's ProxyFromEnvironment).
#pragma once

#include <optional>
#include <string>

#include "net/client.hpp"

namespace bascule::net {

struct ProxyVariables {
  std::string http;   // HTTP_PROXY, for http:// URLs; "http://" may be left out
  std::string https;  // HTTPS_PROXY, for https:// URLs
  // NO_PROXY, comma-separated: `*`; an address or a range (10.0.0.0/8); a name, which also stands for all below it;
  // .name or *.name, for those below it alone. All but a range may have a port.
  std::string none;
};

// Pure. nullopt: straight. `localhost` and loopback addresses are never proxied. Throws std::invalid_argument, with the
// variable's name, for what is no URL or not of an http:// proxy.
std::optional<Url> proxy_of(const Url& url, const ProxyVariables& variables);

// The process's environment; the names in lower case count where those in upper case are empty.
ProxyVariables proxy_variables();

// Sets `options.proxy` by the environment unless it is set, and says so. Throws as proxy_of().
void use_proxy_of_environment(ClientOptions& options);

}  // namespace bascule::net
