#include "operator/config/slurm_conf.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "operator/api/derived.hpp"
#include "operator/config/hash.hpp"
#include "operator/config/parameters.hpp"
#include "operator/config/partition_options.hpp"
#include "operator/config/text.hpp"

namespace bascule::op {

namespace {

constexpr std::string_view kSlurmdSpool = "/var/spool/slurmd";
constexpr std::string_view kConfigless = "enable_configless";
constexpr std::string_view kReconfigure = "reconfig_on_restart";
constexpr std::string_view kDigest = "config_digest=";
constexpr std::size_t kDigestLength = 16;
constexpr std::int64_t kLeastNodeCount = 1024;
constexpr std::int64_t kMostNodeCount = 65536;

std::string number(std::int64_t value) {
  return fmt::to_string(value);
}

std::vector<const NodeSet*> own_sets(const ClusterView& cluster) {
  std::vector<const NodeSet*> sets;
  for (const NodeSet& set : cluster.node_sets) {
    if (set.controller == cluster.controller.meta.name && set.meta.ns == cluster.controller.meta.ns) {
      sets.push_back(&set);
    }
  }
  std::ranges::sort(sets, {}, [](const NodeSet* set) { return std::string_view(set->meta.name); });
  return sets;
}

std::string digest_member(std::string_view digest) {
  return fmt::format("{}{}", kDigest, digest);
}

Required required_parameters(const Controller& controller, std::string_view digest) {
  Required required = auth_parameters(!controller.keys.jwks.empty());
  required["SlurmctldParameters"] = {std::string(kConfigless), std::string(kReconfigure)};
  if (!digest.empty()) required["SlurmctldParameters"].insert(digest_member(digest));
  return required;
}

void add_general(Text& text, const ClusterView& cluster) {
  const Controller& controller = cluster.controller;
  const std::string& name = controller.meta.name;
  text.heading("GENERAL").set("ClusterName", controller.cluster_name).set("SlurmUser", names::kSlurmUser);
  for (std::int64_t i = 0; i < replicas(controller); ++i) {
    const std::string pod = names::controller_pod(name, i);
    text.set("SlurmctldHost",
             fmt::format("{0}({0}.{1}.{2})", pod, names::controller_internal(name), controller.meta.ns));
  }
  text.set("SlurmctldPort", number(slurmctld_port(controller)))
      .set("SlurmctldAddr", fmt::format("{}.{}", names::controller(name), controller.meta.ns))
      .set("StateSaveLocation", fmt::format("{}/{}", names::kStateSaveDir, controller.cluster_name))
      .set("SlurmdUser", "root")
      .set("SlurmdPort", number(names::kSlurmdPort))
      .set("SlurmdSpoolDir", kSlurmdSpool)
      .set("MaxNodeCount", number(max_node_count(cluster)));
}

void add_logging(Text& text) {
  text.heading("LOGGING")
      .set("SlurmctldLogFile", fmt::format("{}/slurmctld.log", names::kLogDir))
      .set("SlurmSchedLogFile", fmt::format("{}/slurmctld.log", names::kLogDir))
      .set("SlurmdLogFile", fmt::format("{}/slurmd.log", names::kLogDir));
}

void add_auth_type(Text& text) {
  text.heading("PLUGINS & PARAMETERS")
      .set("AuthType", "auth/slurm")
      .set("CredType", "cred/slurm")
      .set("AuthAltTypes", "auth/jwt");
}

void add_plugins(Text& text, const Controller& controller, std::string_view digest) {
  add_auth_type(text);
  text.set("AuthAltParameters", auth_alt_parameters(!controller.keys.jwks.empty()))
      .set("AuthInfo", kAuthInfo)
      .set("SlurmctldParameters", fmt::format("{},{}{}", kConfigless, kReconfigure,
                                              digest.empty() ? std::string() : "," + digest_member(digest)));
  if (controller.metrics.enabled) text.set("MetricsType", "metrics/openmetrics");
}

void add_accounting(Text& text, const Accounting* accounting) {
  text.heading("ACCOUNTING");
  if (!accounting) {
    text.set("AccountingStorageType", "accounting_storage/none");
    return;
  }
  text.set("AccountingStorageType", "accounting_storage/slurmdbd")
      .set("AccountingStorageHost", slurmdbd_host(*accounting))
      .set("AccountingStoragePort", number(slurmdbd_port(*accounting)));
}

void add_scripts(Text& text, const FilePlan& files) {
  if (!files.prolog_slurmctld.empty() || !files.epilog_slurmctld.empty()) {
    text.heading("SLURMCTLD PROLOG & EPILOG");
  }
  for (const std::string& file : files.prolog_slurmctld) {
    text.set("PrologSlurmctld", fmt::format("{}/{}", names::kSlurmEtc, file));
  }
  for (const std::string& file : files.epilog_slurmctld) {
    text.set("EpilogSlurmctld", fmt::format("{}/{}", names::kSlurmEtc, file));
  }
  // Bare names: configless hands such files to slurmd.
  if (!files.prolog.empty() || !files.epilog.empty()) text.heading("PROLOG & EPILOG");
  for (const std::string& file : files.prolog) text.set("Prolog", file);
  for (const std::string& file : files.epilog) text.set("Epilog", file);
}

std::string own_conf(const ClusterView& cluster, const FilePlan& files, std::string_view digest) {
  const Controller& controller = cluster.controller;
  Text text;
  add_general(text, cluster);
  add_logging(text);
  add_plugins(text, controller, digest);
  add_accounting(text, cluster.accounting);
  add_scripts(text, files);
  std::string all = text.str();
  if (const std::string lines = merged_lines(node_set_lines(cluster), cluster.left); !lines.empty()) {
    all += Text().heading(kNodeSetHeading).str() + lines;
  }
  if (!controller.extra_conf.empty()) all += Text().heading("EXTRA CONFIG").raw(controller.extra_conf).str();
  if (const std::string merged = merged_parameters(controller.extra_conf, required_parameters(controller, digest));
      !merged.empty()) {
    all += Text().heading("MERGED CONFIG").raw(merged).str();
  }
  return all;
}

std::string external_conf(const ClusterView& cluster) {
  const Controller& controller = cluster.controller;
  Text text;
  text.heading("GENERAL")
      .set("ClusterName", controller.cluster_name)
      .set("SlurmUser", names::kSlurmUser)
      .set("SlurmctldHost", controller.external_config.host)
      .set("SlurmctldPort", number(controller.external_config.port));
  add_auth_type(text);
  add_accounting(text, cluster.accounting);
  return text.str();
}

}  // namespace

std::string node_set_lines(const ClusterView& cluster) {
  Text text;
  std::set<std::string> known;
  for (const NodeSet* set : own_sets(cluster)) {
    const std::string name = slurm_name(*set);
    // Two NodeSets may share hostnames' beginning, Slurm takes a NodeSet once.
    if (known.insert(name).second) text.raw(fmt::format("NodeSet={0} Feature={0}", name));
    if (!set->partition) continue;
    text.raw(fmt::format("PartitionName={0} Nodes={0} {1}", name, partition_line(set->partition_config)));
  }
  return text.str();
}

std::int64_t nodes_asked(const NodeSet& set) {
  const std::int64_t desired = json::int_at(set.status, {"desired"}).value_or(0);
  const std::int64_t there = json::int_at(set.status, {"replicas"}).value_or(0);
  return std::max({set.scaling_mode == ScalingMode::kStatefulSet ? set.replicas : 0, desired, there});
}

std::int64_t room_for(std::int64_t nodes) {
  std::int64_t count = kLeastNodeCount;
  while (count < 2 * nodes && count < kMostNodeCount) count *= 2;
  return count;
}

std::int64_t max_node_count(const ClusterView& cluster) {
  std::int64_t asked = 0;
  for (const NodeSet* set : own_sets(cluster)) asked += nodes_asked(*set);
  return std::max(room_for(asked), std::min(cluster.room, kMostNodeCount));
}

std::int64_t room_in(std::string_view slurm_conf) {
  constexpr std::string_view kLine = "\nMaxNodeCount=";
  const std::size_t at = slurm_conf.find(kLine);
  std::int64_t room = 0;
  if (at != std::string_view::npos) {
    const std::string_view rest = slurm_conf.substr(at + kLine.size());
    std::from_chars(rest.data(), rest.data() + rest.size(), room);
  }
  return std::max<std::int64_t>(room, 0);
}

std::string slurm_conf(const ClusterView& cluster, const FilePlan& files) {
  return cluster.controller.external ? external_conf(cluster) : own_conf(cluster, files, config_digest(cluster, files));
}

std::string config_digest(const ClusterView& cluster, const FilePlan& files) {
  if (cluster.controller.external || !cluster.controller.inplace_reconfigure) return {};
  return Hasher().add("own", own_conf(cluster, files, {})).add("files", files.hash).hex().substr(0, kDigestLength);
}

bool says_digest(const std::vector<std::string>& slurmctld_parameters, std::string_view digest) {
  return std::ranges::find(slurmctld_parameters, digest_member(digest)) != slurmctld_parameters.end();
}

std::string client_part(std::string_view conf) {
  std::string result;
  while (!conf.empty()) {
    const std::size_t end = std::min(conf.find('\n'), conf.size() - 1) + 1;
    const std::string_view line = conf.substr(0, end);
    conf.remove_prefix(end);
    constexpr std::string_view kServerOnly[] = {
        "#",      "NodeSet=",         "PartitionName=",   "MaxNodeCount=", "SlurmctldParameters=",
        "Prolog", "EpilogSlurmctld=", "PrologSlurmctld=", "Epilog"};
    if (std::ranges::none_of(kServerOnly, [&](std::string_view key) { return line.starts_with(key); })) result += line;
  }
  return result;
}

std::string default_cgroup_conf() {
  return Text().set("CgroupPlugin", "cgroup/v2").set("IgnoreSystemd", "yes").str();
}

}  // namespace bascule::op
