// The children of a LoginSet, and the Secret with its host keys (builders/ssh_keys.hpp makes them).
#pragma once

#include <string>
#include <string_view>

#include "json/value.hpp"
#include "operator/api/types.hpp"

namespace bascule::op {

json::Value login_service(const LoginSet& set);
json::Value login_ssh_config(const LoginSet& set);
// Immutable: made once, and kept for as long as the LoginSet lives.
json::Value login_host_keys(const LoginSet& set, const StringMap& keys);

struct LoginInput {
  const LoginSet& set;
  const Controller& controller;
  std::string_view domain;  // the cluster's DNS domain: "cluster.local"
  // Of the Secrets' content that the pod mounts; empty when it is not there.
  std::string slurm_key_hash;
  std::string sssd_hash;
  std::string host_keys_hash;
};
json::Value login_deployment(const LoginInput& input);

}  // namespace bascule::op
