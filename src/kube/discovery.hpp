// What the API server serves: groups, versions, resources. Answers are kept for a while; they change when custom
// resources are installed. Source: Kubernetes API concepts, "API discovery".
#pragma once

#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "kube/client.hpp"

namespace bascule::kube {

class Discovery final {
 public:
  explicit Discovery(Client& client, Duration keep = std::chrono::minutes(1)) : client_(client), keep_(keep) {}

  // Whether there may be such an API version, "group/version" or "v1": a longer group than DNS has, or version than a
  // label, is served by nobody.
  static bool can_be(std::string_view api_version) noexcept;
  // Whether group, version and resource are served. Throws as Client
  // does: no answer is not "no".
  Task<bool> serves(Resource resource, std::stop_token stop = {});
  // The resource of that kind; nullopt: not served.
  Task<std::optional<Resource>> of_kind(std::string group, std::string version, std::string kind,
                                        std::stop_token stop = {});
  // Versions of a group, the preferred one first; empty: no such group.
  Task<std::vector<std::string>> versions(std::string group, std::stop_token stop = {});
  std::size_t kept() const noexcept { return served_.size(); }
  void forget() noexcept { served_.clear(); }

 private:
  struct Served {
    std::vector<Resource> resources;
    TimePoint until;
  };
  Task<std::vector<Resource>> resources(std::string group, std::string version, std::stop_token stop);

  Client& client_;
  Duration keep_;
  std::map<std::string, Served> served_;  // by group/version
};

}  // namespace bascule::kube
