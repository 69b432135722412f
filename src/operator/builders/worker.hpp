// What NodeSets are made of: worker pods, their claims, and what all NodeSets of a Controller share.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "json/value.hpp"
#include "operator/api/types.hpp"

namespace bascule::op {

struct WorkerInput {
  const NodeSet& set;
  const Controller& controller;
  std::string_view domain;  // the cluster's DNS domain: "cluster.local"
  // sha256_hex of the Secrets' content that the pod mounts; empty when it is not there.
  std::string slurm_key_hash;
  std::string sssd_hash;
};

// A PodTemplateSpec: everything but which pod it is. Throws BadObject when the user's part cannot be merged.
json::Value worker_template(const WorkerInput& input);
// What of a template makes a revision: everything but the NodeSet's own labels and annotations.
json::Value worker_revision(const WorkerInput& input, json::Value made);

// Which pod it is.
struct WorkerIdentity {
  std::string name = {};      // empty: the API server makes one that begins with the NodeSet's
  std::string hostname = {};  // also the Slurm node's name, unless the pod is in StatefulSet mode on the host's network
  std::string index = {};     // the ordinal, zero-padded; empty in DaemonSet mode
  std::string revision = {};  // value of names::kRevisionHash; empty: none
  std::string node = {};      // the only Node it may run on; empty: any
  std::string topology = {};  // of that Node, if known
};
json::Value worker_pod(const WorkerInput& input, const WorkerIdentity& identity);

// The ordinal with zeros in front, to the NodeSet's ordinalPadding.
std::string padded(const NodeSet& set, std::int64_t ordinal);
// Of the pod in StatefulSet mode.
std::string worker_name(const NodeSet& set, std::int64_t ordinal);
std::string worker_hostname(const NodeSet& set, std::int64_t ordinal);

// Claims by the NodeSet's templates for one pod: TEMPLATE-NODESET-SUFFIX, the suffix being the pod's index, or its
// hostname in DaemonSet mode.
std::string worker_claim_name(const NodeSet& set, std::string_view claim_template, std::string_view suffix);
std::vector<json::Value> worker_claims(const NodeSet& set, std::string_view suffix);

// ConfigMap with sshd_config; wanted when ssh is enabled.
json::Value worker_ssh_config(const NodeSet& set);

// Shared by the NodeSets of one Controller, which all are plain owners: it goes when the last of them does. `owners`
// are those that exist now, of one namespace, in any order.
json::Value workers_service(std::string_view controller, std::span<const NodeSet> owners);
json::Value workers_budget(std::string_view controller, std::span<const NodeSet> owners);

}  // namespace bascule::op
