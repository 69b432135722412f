// Builders of realistic objects, as values with kind and apiVersion.
#pragma once

#include <string>
#include <string_view>

#include "json/value.hpp"

namespace bascule::testing {

struct PodSpec {
  std::string name;
  std::string ns = "default";
  std::string scheduler = "default-scheduler";
  std::string cpu = "100m";
  std::string memory = "128Mi";
  std::string node = {};  // bound to it from the start
  bool tolerates = true;  // the taint of a bridge's nodes, as a bridge's webhook has it where it sees the pod
  json::Object labels = {};
  json::Object annotations = {};
};

json::Value make_namespace(std::string_view name);
// One container, as a user writes it; restartPolicy Never, as of batch work.
json::Value make_pod(const PodSpec& spec);
// As a GPU cluster's pods are when they come back from the server: two containers, probes, projected token volume,
// five conditions, managedFields; about 7.8 KB of JSON. `number` makes name, uid and node.
json::Value make_big_pod(int number, std::string_view ns = "default");
struct NodeSpec {
  std::string name;
  std::string cpu = "8";
  std::string memory = "32Gi";
  json::Object labels = {};
  json::Array taints = {};
  bool ready = true;
};
json::Value make_node(const NodeSpec& spec);
struct JobSpec {
  std::string name;
  std::string ns = "default";
  int parallelism = 1;
  int completions = -1;  // -1: as parallelism
  int backoff_limit = 6;
  json::Object labels = {};
  json::Object annotations = {};
  json::Value pod = {};  // metadata and spec of the template; null: one small container
};
json::Value make_job(const JobSpec& spec);
// {"apiVersion":"v1","kind":"Binding","target":{"kind":"Node","name":...}}
json::Value make_binding(std::string_view pod, std::string_view node);

}  // namespace bascule::testing
