#include "operator/api/read.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "base/duration.hpp"
#include "base/time.hpp"
#include "operator/api/derived.hpp"
#include "operator/api/fields.hpp"

namespace bascule::op {

namespace {

constexpr std::int64_t kMaxPort = 65535;
constexpr std::int64_t kMaxPercent = 1'000'000;

template <class Enum>
struct Word {
  std::string_view text;
  Enum value;
};
constexpr Word<ScalingMode> kModes[] = {{"StatefulSet", ScalingMode::kStatefulSet},
                                        {"DaemonSet", ScalingMode::kDaemonSet}};
constexpr Word<UpdateType> kUpdates[] = {{"RollingUpdate", UpdateType::kRollingUpdate},
                                         {"OnDelete", UpdateType::kOnDelete},
                                         {"ScheduledUpdate", UpdateType::kScheduledUpdate}};
constexpr Word<Retention> kRetentions[] = {{"Retain", Retention::kRetain}, {"Delete", Retention::kDelete}};
constexpr Word<Prune> kPrunes[] = {{"Never", Prune::kNever}, {"NodeNotFound", Prune::kNodeNotFound}};

// The first is the default.
template <class Enum>
Enum choice(const Fields& fields, std::string_view key, std::span<const Word<Enum>> words) {
  const std::string text = fields.text(key, words.front().text);
  const auto found = std::ranges::find(words, text, &Word<Enum>::text);
  if (found != words.end()) return found->value;
  std::string all;
  for (const Word<Enum>& word : words) all += (all.empty() ? "" : ", ") + std::string(word.text);
  fields.fault(key, fmt::format("is \"{}\"; it must be one of {}", text, all));
}

template <class Enum>
std::string_view word_of(Enum value, std::span<const Word<Enum>> words) noexcept {
  return std::ranges::find(words, value, &Word<Enum>::value)->text;
}

std::optional<WallTime> time_at(const Fields& fields, std::string_view key) {
  if (!fields.has(key)) return std::nullopt;
  const std::string text = fields.text(key);
  const std::optional<WallTime> time = parse_rfc3339(text);
  if (!time) fields.fault(key, fmt::format("is \"{}\"; it must be a time as in 2026-05-01T04:00:00Z", text));
  return time;
}

Duration duration_at(const Fields& fields, std::string_view key, Duration fallback) {
  if (!fields.has(key)) return fallback;
  const std::string text = fields.text(key);
  const std::optional<Duration> duration = parse_duration(text);
  if (!duration) fields.fault(key, fmt::format("is \"{}\"; it must be a duration as in 90m or 1h30m", text));
  return *duration;
}

Meta read_meta(const Fields& object) {
  const Fields fields = object.at("metadata");
  Meta meta;
  meta.ns = fields.text("namespace");
  meta.name = fields.text("name");
  meta.uid = fields.text("uid");
  meta.resource_version = fields.text("resourceVersion");
  meta.generation = fields.number("generation", 0, 0, std::numeric_limits<std::int64_t>::max());
  meta.labels = fields.texts("labels");
  meta.annotations = fields.texts("annotations");
  meta.finalizers = fields.list_of_texts("finalizers");
  meta.created = time_at(fields, "creationTimestamp");
  meta.deleted = time_at(fields, "deletionTimestamp");
  return meta;
}

// Presence decides, not content: an empty jwtKeyRef still wins.
KeyRef effective_jwt_key(const Fields& spec) {
  return spec.key_ref(spec.has("jwtKeyRef") ? "jwtKeyRef" : "jwtHs256KeyRef");
}

Keys read_keys(const Fields& spec) {
  return {spec.key_ref("slurmKeyRef"), effective_jwt_key(spec), spec.key_ref("jwksKeyRef")};
}

ExternalConfig read_external(const Fields& spec) {
  const Fields fields = spec.at("externalConfig");
  return {fields.text("host"), fields.number("port", 0, 0, kMaxPort)};
}

PodTemplate read_template(const Fields& spec) {
  const Fields fields = spec.at("template");
  const Fields metadata = fields.at("metadata");
  return {metadata.texts("labels"), metadata.texts("annotations"), fields.object("spec")};
}

ServiceSpec read_service(const Fields& spec) {
  const Fields fields = spec.at("service");
  const Fields metadata = fields.at("metadata");
  return {metadata.texts("labels"), metadata.texts("annotations"), fields.object("spec"),
          fields.number("port", 0, 0, kMaxPort), fields.number("nodePort", 0, 0, kMaxPort)};
}

Metrics read_metrics(const Fields& spec) {
  const Fields fields = spec.at("metrics");
  const Fields monitor = fields.at("serviceMonitor");
  Metrics metrics;
  metrics.enabled = fields.flag("enabled", false);
  metrics.monitor = monitor.flag("enabled", false);
  metrics.labels = monitor.texts("labels");
  metrics.annotations = monitor.texts("annotations");
  metrics.interval = monitor.text("interval");
  metrics.scrape_timeout = monitor.text("scrapeTimeout");
  for (const Fields& endpoint : monitor.objects("endpoints")) {
    metrics.endpoints.push_back({endpoint.text("path"), endpoint.text("interval"), endpoint.text("scrapeTimeout")});
  }
  return metrics;
}

Persistence read_persistence(const Fields& spec) {
  const Fields fields = spec.at("persistence");
  Persistence persistence;
  persistence.enabled = fields.flag("enabled", true);
  persistence.existing_claim = fields.text("existingClaim");
  json::Value claim = spec.object("persistence");
  claim.get_object().stable_erase("enabled");
  claim.get_object().stable_erase("existingClaim");
  persistence.claim = std::move(claim);
  return persistence;
}

IntOrPercent read_max_unavailable(const Fields& spec) {
  constexpr std::string_view kKey = "maxUnavailable";
  const Fields fields = spec.at("updateStrategy").at("rollingUpdate");
  if (!fields.has(kKey)) return NodeSet().max_unavailable;
  if (const std::optional<std::int64_t> count = fields.number_if(kKey)) {
    if (*count >= 0) return {*count, false};
    fields.fault(kKey, fmt::format("is {}; it must not be negative", *count));
  }
  const std::string text = fields.text(kKey);
  const bool percent = text.ends_with('%');
  std::int64_t value = 0;
  const char* end = text.data() + text.size() - (percent ? 1 : 0);
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const std::int64_t most = percent ? kMaxPercent : std::numeric_limits<std::int32_t>::max();
  if (error != std::errc{} || stop != end || value < 0 || value > most) {
    fields.fault(kKey, fmt::format("is \"{}\"; it must be a number as in 2, or a percentage as in \"25%\"", text));
  }
  return {value, percent};
}

void read_update(const Fields& spec, NodeSet& set) {
  const Fields fields = spec.at("updateStrategy");
  set.update = choice<UpdateType>(fields, "type", kUpdates);
  try {
    set.max_unavailable = read_max_unavailable(spec);
    const Fields rolling = fields.at("rollingUpdate");
    if (set.max_unavailable == IntOrPercent{0, false} && !rolling.number_if("maxUnavailable")) {
      rolling.fault("maxUnavailable", "is \"0\"; it must be at least 1 or 1%");
    }
  } catch (const BadObject& error) {
    // The CRD takes any text, and slurm-operator reads it as 1.
    set.max_unavailable = {1, false};
    set.max_unavailable_fault = error.what();
  }
  const Fields scheduled = fields.at("scheduledUpdate");
  set.scheduled.start = time_at(scheduled, "startTime");
  set.scheduled.duration = duration_at(scheduled, "duration", set.scheduled.duration);
  set.scheduled.flags = scheduled.list_of_texts("flags");
}

}  // namespace

std::string_view to_string(ScalingMode mode) noexcept {
  return word_of<ScalingMode>(mode, kModes);
}
std::string_view to_string(UpdateType type) noexcept {
  return word_of<UpdateType>(type, kUpdates);
}

Controller read_controller(const json::Value& object) {
  const Fields fields("Controller", object);
  const Fields spec = fields.at("spec");
  Controller result;
  result.meta = read_meta(fields);
  result.cluster_name = spec.text("clusterName");
  if (result.cluster_name.empty()) result.cluster_name = fmt::format("{}_{}", result.meta.ns, result.meta.name);
  result.keys = read_keys(spec);
  result.accounting = spec.name("accountingRef");
  result.external = spec.flag("external", false);
  result.external_config = read_external(spec);
  const Fields ha = spec.at("ha");
  result.ha = ha.flag("enabled", false);
  const std::int64_t backups = ha.number("backups", 1, 1);
  result.backups = result.ha ? backups : 0;
  result.slurmctld = spec.object("slurmctld");
  result.inplace_reconfigure = spec.flag("inplaceReconfigure", false);
  result.reconfigure = spec.object("reconfigure");
  result.logfile = spec.object("logfile");
  result.pod_template = read_template(spec);
  result.extra_conf = spec.text("extraConf");
  result.config_files = spec.names("configFileRefs");
  result.prolog = spec.names("prologScriptRefs");
  result.epilog = spec.names("epilogScriptRefs");
  result.prolog_slurmctld = spec.names("prologSlurmctldScriptRefs");
  result.epilog_slurmctld = spec.names("epilogSlurmctldScriptRefs");
  result.persistence = read_persistence(spec);
  result.service = read_service(spec);
  result.metrics = read_metrics(spec);
  result.status = fields.object("status");
  return result;
}

Accounting read_accounting(const json::Value& object) {
  const Fields fields("Accounting", object);
  const Fields spec = fields.at("spec");
  Accounting result;
  result.meta = read_meta(fields);
  result.keys = read_keys(spec);
  result.external = spec.flag("external", false);
  result.external_config = read_external(spec);
  result.slurmdbd = spec.object("slurmdbd");
  result.pod_template = read_template(spec);
  const Fields storage = spec.at("storageConfig");
  result.storage.host = storage.text("host");
  if (const std::int64_t port = storage.number("port", 0, 0, kMaxPort); port != 0) result.storage.port = port;
  result.storage.database = storage.text("database", result.storage.database);
  result.storage.username = storage.text("username");
  result.storage.password = storage.key_ref("passwordKeyRef");
  result.extra_conf = spec.text("extraConf");
  result.service = read_service(spec);
  result.status = fields.object("status");
  return result;
}

RestApi read_restapi(const json::Value& object) {
  const Fields fields("RestApi", object);
  const Fields spec = fields.at("spec");
  RestApi result;
  result.meta = read_meta(fields);
  result.controller = spec.name("controllerRef");
  result.replicas = spec.number("replicas", 1);
  result.slurmrestd = spec.object("slurmrestd");
  result.pod_template = read_template(spec);
  result.service = read_service(spec);
  result.status = fields.object("status");
  return result;
}

LoginSet read_loginset(const json::Value& object) {
  const Fields fields("LoginSet", object);
  const Fields spec = fields.at("spec");
  LoginSet result;
  result.meta = read_meta(fields);
  result.controller = spec.name("controllerRef");
  result.replicas = spec.number("replicas", 1);
  result.login = spec.object("login");
  result.initconf = spec.object("initconf");
  result.pod_template = read_template(spec);
  result.root_authorized_keys = spec.text("rootSshAuthorizedKeys");
  result.extra_sshd_config = spec.text("extraSshdConfig");
  result.sssd = spec.key_ref("sssdConfRef");
  result.strategy = spec.object("strategy");
  result.service = read_service(spec);
  result.status = fields.object("status");
  return result;
}

void check_nodeset(const json::Value& object) {
  read_nodeset(object);
  read_max_unavailable(Fields("NodeSet", object).at("spec"));
}

NodeSet read_nodeset(const json::Value& object) {
  const Fields fields("NodeSet", object);
  const Fields spec = fields.at("spec");
  NodeSet result;
  result.meta = read_meta(fields);
  result.controller = spec.name("controllerRef");
  result.replicas = spec.number("replicas", 1);
  result.scaling_mode = choice<ScalingMode>(spec, "scalingMode", kModes);
  result.slurmd = spec.object("slurmd");
  const Fields ssh = spec.at("ssh");
  result.ssh = {ssh.flag("enabled", false), ssh.text("extraSshdConfig"), ssh.key_ref("sssdConfRef")};
  result.logfile = spec.object("logfile");
  result.pod_template = read_template(spec);
  result.extra_conf = spec.text("extraConf");
  const Fields partition = spec.at("partition");
  result.partition = partition.flag("enabled", false);
  result.partition_config = partition.text("config");
  result.volume_claim_templates = spec.array("volumeClaimTemplates");
  read_update(spec, result);
  result.revision_history_limit = spec.number("revisionHistoryLimit", 0);
  const Fields retention = spec.at("persistentVolumeClaimRetentionPolicy");
  result.when_deleted = choice<Retention>(retention, "whenDeleted", kRetentions);
  result.when_scaled = choice<Retention>(retention, "whenScaled", kRetentions);
  result.min_ready_seconds = spec.number("minReadySeconds", 0);
  result.ordinal_padding = spec.number("ordinalPadding", 0, 0, kMaxOrdinalPadding);
  result.pin_to_node = spec.flag("pinToNode", false);
  result.protect = spec.flag("workloadDisruptionProtection", true);
  result.prune = choice<Prune>(spec, "pruneSlurmNodeRecords", kPrunes);
  result.oversubscribe_node = spec.flag("oversubscribeNode", false);
  result.spec = fields.object("spec");
  result.status = fields.object("status");
  return result;
}

Token read_token(const json::Value& object) {
  const Fields fields("Token", object);
  const Fields spec = fields.at("spec");
  Token result;
  result.meta = read_meta(fields);
  result.jwt_key = effective_jwt_key(spec);
  result.username = spec.text("username", "nobody");
  if (result.username.empty()) result.username = "nobody";
  result.lifetime = duration_at(spec, "lifetime", result.lifetime);
  if (result.lifetime <= Duration(0)) spec.fault("lifetime", "is not positive; write it as in 15m, or leave it out");
  result.refresh = spec.flag("refresh", true);
  result.secret = spec.key_ref("secretRef");
  if (result.secret.name.empty()) result.secret.name = token_secret(result.meta.name, result.username);
  if (result.secret.key.empty()) result.secret.key = std::string(names::kTokenKey);
  result.status = fields.object("status");
  return result;
}

}  // namespace bascule::op
