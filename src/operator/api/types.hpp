// The custom resources of slinky.slurm.net/v1beta1 as decisions need them: plain values, defaults filled in. What users
// write as Kubernetes types (containers, pod and service specs) stays a json::Value, as does what nobody decides by.
// Source of defaults and meanings: the CRDs in deploy/crds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/loop.hpp"
#include "json/value.hpp"
#include "operator/api/names.hpp"

namespace bascule::op {

using StringMap = std::map<std::string, std::string>;

struct Meta {
  std::string ns;
  std::string name;
  std::string uid;
  std::string resource_version;
  std::int64_t generation = 0;
  StringMap labels;
  StringMap annotations;
  std::vector<std::string> finalizers;
  std::optional<WallTime> created;
  std::optional<WallTime> deleted;
};

// A key of a Secret or ConfigMap in the same namespace.
struct KeyRef {
  std::string name;
  std::string key;

  bool empty() const noexcept { return name.empty(); }
  friend bool operator==(const KeyRef&, const KeyRef&) = default;
};

struct ExternalConfig {
  std::string host;
  std::int64_t port = 0;
};

struct PodTemplate {
  StringMap labels;
  StringMap annotations;
  json::Value spec = json::Object{};  // a core/v1 PodSpec, possibly in part

  // hostNetwork, hostname, ... as the user gave them.
  std::string_view text(std::string_view field) const { return json::string_at(spec, {field}); }
};

struct ServiceSpec {
  StringMap labels;
  StringMap annotations;
  json::Value spec = json::Object{};  // a core/v1 ServiceSpec, possibly in part
  std::int64_t port = 0;              // 0: the daemon's own
  std::int64_t node_port = 0;         // 0: none
};

// A container as overrides of ours; {} changes nothing.
using ContainerPatch = json::Value;

struct MetricsEndpoint {
  std::string path;
  std::string interval;  // Prometheus durations; empty: that of the monitor
  std::string scrape_timeout;
};

struct Metrics {
  bool enabled = false;
  bool monitor = false;  // with a ServiceMonitor
  StringMap labels;
  StringMap annotations;
  std::string interval;
  std::string scrape_timeout;
  std::vector<MetricsEndpoint> endpoints;  // empty: the usual four
};

struct Persistence {
  bool enabled = true;
  std::string existing_claim;
  json::Value claim = json::Object{};  // a PersistentVolumeClaimSpec
};

// What Controller and Accounting have in common.
struct Keys {
  KeyRef slurm;  // Secret: auth/slurm
  KeyRef jwt;    // Secret: the effective one of jwtKeyRef and the older jwtHs256KeyRef
  KeyRef jwks;   // ConfigMap; empty: none

  friend bool operator==(const Keys&, const Keys&) = default;
};

struct Controller {
  Meta meta;
  std::string cluster_name;  // effective
  Keys keys;
  std::string accounting;  // empty: none
  bool external = false;
  ExternalConfig external_config;
  bool ha = false;
  std::int64_t backups = 0;  // with HA at least 1, else 0
  ContainerPatch slurmctld = json::Object{};
  bool inplace_reconfigure = false;
  ContainerPatch reconfigure = json::Object{};
  ContainerPatch logfile = json::Object{};
  PodTemplate pod_template;
  std::string extra_conf;
  std::vector<std::string> config_files;  // names of ConfigMaps, and the four below
  std::vector<std::string> prolog;
  std::vector<std::string> epilog;
  std::vector<std::string> prolog_slurmctld;
  std::vector<std::string> epilog_slurmctld;
  Persistence persistence;
  ServiceSpec service;
  Metrics metrics;
  json::Value status = json::Object{};
};

struct Storage {
  std::string host;
  std::int64_t port = 3306;
  std::string database = "slurm_acct_db";
  std::string username;
  KeyRef password;
};

struct Accounting {
  Meta meta;
  Keys keys;
  bool external = false;
  ExternalConfig external_config;
  ContainerPatch slurmdbd = json::Object{};
  PodTemplate pod_template;
  Storage storage;
  std::string extra_conf;
  ServiceSpec service;
  json::Value status = json::Object{};
};

struct RestApi {
  Meta meta;
  std::string controller;
  std::int64_t replicas = 1;
  ContainerPatch slurmrestd = json::Object{};
  PodTemplate pod_template;
  ServiceSpec service;
  json::Value status = json::Object{};
};

struct LoginSet {
  Meta meta;
  std::string controller;
  std::int64_t replicas = 1;
  ContainerPatch login = json::Object{};
  ContainerPatch initconf = json::Object{};
  PodTemplate pod_template;
  std::string root_authorized_keys;
  std::string extra_sshd_config;
  KeyRef sssd;
  json::Value strategy = json::Object{};  // apps/v1 DeploymentStrategy
  ServiceSpec service;
  json::Value status = json::Object{};
};

enum class ScalingMode : std::uint8_t { kStatefulSet, kDaemonSet };
enum class UpdateType : std::uint8_t { kRollingUpdate, kOnDelete, kScheduledUpdate };
enum class Retention : std::uint8_t { kRetain, kDelete };
enum class Prune : std::uint8_t { kNever, kNodeNotFound };

// As the API writes them.
std::string_view to_string(ScalingMode mode) noexcept;
std::string_view to_string(UpdateType type) noexcept;

// A count, or per cent of something.
struct IntOrPercent {
  std::int64_t value = 0;
  bool percent = false;

  // Percentages are rounded up.
  std::int64_t of(std::int64_t total) const noexcept { return percent ? (value * total + 99) / 100 : value; }
  friend bool operator==(const IntOrPercent&, const IntOrPercent&) = default;
};

struct Ssh {
  bool enabled = false;
  std::string extra_sshd_config;
  KeyRef sssd;
};

struct ScheduledUpdate {
  std::optional<WallTime> start;
  Duration duration = std::chrono::minutes(30);
  std::vector<std::string> flags;
};

struct NodeSet {
  Meta meta;
  std::string controller;
  std::int64_t replicas = 1;  // means nothing in DaemonSet mode
  ScalingMode scaling_mode = ScalingMode::kStatefulSet;
  ContainerPatch slurmd = json::Object{};
  Ssh ssh;
  ContainerPatch logfile = json::Object{};
  PodTemplate pod_template;
  std::string extra_conf;
  bool partition = false;
  std::string partition_config;
  json::Array volume_claim_templates;
  UpdateType update = UpdateType::kRollingUpdate;
  IntOrPercent max_unavailable{25, true};
  std::string max_unavailable_fault;  // a sentence when it could not be read: then it is 1
  ScheduledUpdate scheduled;
  std::int64_t revision_history_limit = 0;
  Retention when_deleted = Retention::kRetain;
  Retention when_scaled = Retention::kRetain;
  std::int64_t min_ready_seconds = 0;
  std::int64_t ordinal_padding = 0;
  bool pin_to_node = false;
  bool protect = true;  // workloadDisruptionProtection
  Prune prune = Prune::kNever;
  bool oversubscribe_node = false;
  // As stored: revisions are made of it.
  json::Value spec = json::Object{};
  json::Value status = json::Object{};
};

struct Token {
  Meta meta;
  KeyRef jwt_key;
  std::string username;  // never empty
  Duration lifetime = std::chrono::minutes(15);
  bool refresh = true;
  KeyRef secret;  // effective: where the token goes
  json::Value status = json::Object{};
};

}  // namespace bascule::op
