#include "kube/kubeconfig.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "base/base64.hpp"
#include "json/yaml.hpp"

namespace bascule::kube {

namespace {

constexpr std::size_t kMaxFile = std::size_t{4} << 20;

using Faults = std::vector<std::string>;

std::string_view kind_of(const json::Value& value) noexcept {
  switch (value.kind()) {
    case boost::json::kind::null:
      return "nothing";
    case boost::json::kind::bool_:
      return value.get_bool() ? "the boolean true" : "the boolean false";
    case boost::json::kind::int64:
    case boost::json::kind::uint64:
    case boost::json::kind::double_:
      return "a number";
    case boost::json::kind::string:
      return "text";
    case boost::json::kind::array:
      return "a list";
    case boost::json::kind::object:
      return "a map";
  }
  return "";
}

bool scalar(const json::Value& value) noexcept {
  return value.is_bool() || value.is_number();
}

// A map in a file; reads fields and collects what is wrong with them.
class Section final {
 public:
  Section(const KubeconfigFile& file, std::string where, const json::Value& value, Faults& faults)
      : file_(&file), where_(std::move(where)), value_(&value), faults_(&faults) {}

  void fault(std::string_view field, const std::string& what) const {
    const std::string dot = where_.empty() || field.empty() ? "" : ".";
    faults_->push_back(fmt::format("{}: {}{}{}: {}", file_->path, where_, dot, field, what));
  }
  bool has(std::string_view field) const {
    const json::Value* value = json::find(*value_, {field});
    return value != nullptr && !value->is_null();
  }
  std::string text(std::string_view field) const {
    const json::Value* value = json::find(*value_, {field});
    if (value == nullptr || value->is_null()) return {};
    if (value->is_string()) return std::string(json::view(value->get_string()));
    fault(field, fmt::format("expected text, found {}{}", kind_of(*value),
                             scalar(*value) ? "; YAML reads words like y, no and on as booleans and digits as numbers: "
                                              "put the value in quotes"
                                            : ""));
    return {};
  }
  bool flag(std::string_view field) const {
    const json::Value* value = json::find(*value_, {field});
    if (value == nullptr || value->is_null()) return false;
    if (value->is_bool()) return value->get_bool();
    fault(field, fmt::format("expected true or false without quotes, found {}", kind_of(*value)));
    return false;
  }
  // The path in `field`, from the file's folder.
  std::string path(std::string_view field) const {
    std::string out = text(field);
    if (out.empty() || out.front() == '/') return out;
    return file_->path.substr(0, file_->path.rfind('/') + 1) + out;
  }
  const json::Array* list(std::string_view field) const {
    const json::Value* value = json::find(*value_, {field});
    if (value == nullptr || value->is_null()) return nullptr;
    if (value->is_array()) return &value->get_array();
    fault(field, fmt::format("expected a list, found {}", kind_of(*value)));
    return nullptr;
  }
  Section item(std::string_view field, std::size_t i, const json::Value& value) const {
    return {*file_, fmt::format("{}{}{}[{}]", where_, where_.empty() ? "" : ".", field, i), value, *faults_};
  }
  // The map in `field`; an empty one when absent or of another kind.
  Section inner(std::string_view field) const {
    static const json::Value kNothing = json::Object();
    const json::Value* value = json::find(*value_, {field});
    const bool usable = value != nullptr && value->is_object();
    if (value != nullptr && !value->is_null() && !usable) {
      fault(field, fmt::format("expected a map, found {}", kind_of(*value)));
    }
    return {*file_, fmt::format("{}{}{}", where_, where_.empty() ? "" : ".", field), usable ? *value : kNothing,
            *faults_};
  }
  bool is_map() const noexcept { return value_->is_object(); }

 private:
  const KubeconfigFile* file_;
  std::string where_;
  const json::Value* value_;
  Faults* faults_;
};

using Named = std::map<std::string, Section, std::less<>>;

// All files merged. Sections refer to `documents`.
struct Merged {
  std::vector<json::Value> documents;
  std::string current_context;
  Named clusters, users, contexts;
};

void merge_named(const Section& root, std::string_view list, std::string_view field, Named& into) {
  const json::Array* items = root.list(list);
  if (items == nullptr) return;
  for (std::size_t i = 0; i < items->size(); ++i) {
    const Section item = root.item(list, i, (*items)[i]);
    if (!item.is_map()) {
      item.fault("", fmt::format("expected a map with name and {}", field));
      continue;
    }
    const std::string name = item.text("name");
    if (name.empty()) {
      if (!item.has("name")) item.fault("name", "is missing");
      continue;
    }
    into.try_emplace(name, item.inner(field));
  }
}

Merged merge(const std::vector<KubeconfigFile>& files, Faults& faults) {
  Merged merged;
  merged.documents.reserve(files.size());
  for (const KubeconfigFile& file : files) {
    try {
      merged.documents.push_back(json::parse_yaml(file.text, {.bytes = kMaxFile}));
    } catch (const json::ParseError& error) {
      faults.push_back(fmt::format("{}: not YAML: {}", file.path, error.what()));
      continue;
    }
    const json::Value& document = merged.documents.back();
    if (document.is_null()) continue;  // an empty file
    const Section root(file, "", document, faults);
    if (!root.is_map()) {
      faults.push_back(fmt::format("{}: not a kubeconfig: expected a map, found {}", file.path, kind_of(document)));
      continue;
    }
    if (merged.current_context.empty()) merged.current_context = root.text("current-context");
    merge_named(root, "clusters", "cluster", merged.clusters);
    merge_named(root, "users", "user", merged.users);
    merge_named(root, "contexts", "context", merged.contexts);
  }
  return merged;
}

std::string names_of(const Named& entries) {
  std::vector<std::string_view> names;
  for (const auto& [name, section] : entries) names.push_back(name);
  return names.empty() ? "there are none" : fmt::format("there are: {}", fmt::join(names, ", "));
}

std::string places_of(const std::vector<KubeconfigFile>& files) {
  std::vector<std::string_view> paths;
  for (const KubeconfigFile& file : files) paths.push_back(file.path);
  return fmt::format("{}", fmt::join(paths, ", "));
}

// FIELD-data (base64) or FIELD (a path).
net::Pem pem_of(const Section& section, std::string_view field,
                const std::function<bool(const std::string&)>& readable) {
  const std::string data_field = fmt::format("{}-data", field);
  if (const std::string data = section.text(data_field); !data.empty()) {
    const std::optional<std::string> text = base64_decode(data);
    if (text && text->find("-----BEGIN") != std::string::npos) return {.text = *text};
    section.fault(data_field, text ? "decodes to something that is not PEM"
                                   : "not base64; to name a file use " + std::string(field));
    return {};
  }
  std::string path = section.path(field);
  if (!path.empty() && !readable(path)) {
    section.fault(field, fmt::format("{} cannot be read; check the path and its permissions", path));
  }
  return {.file = std::move(path)};
}

void read_url(const Section& section, std::string_view field, const std::string& text, auto take) {
  try {
    take(net::parse_url(text));
  } catch (const std::invalid_argument& error) {
    section.fault(field, error.what());
  }
}

void read_cluster(const Section& cluster, Config& config, const std::function<bool(const std::string&)>& readable) {
  const std::string server = cluster.text("server");
  if (server.empty()) {
    if (!cluster.has("server")) cluster.fault("server", "is missing; expected https://HOST:PORT");
  } else {
    // client-go takes a server without a scheme as http.
    const bool bare = server.find("://") == std::string::npos && !server.starts_with("unix:");
    read_url(cluster, "server", bare ? "http://" + server : server,
             [&](net::Url url) { config.http.url = std::move(url); });
  }
  net::TlsOptions& tls = config.http.tls;
  tls.ca = pem_of(cluster, "certificate-authority", readable);
  tls.server_name = cluster.text("tls-server-name");
  tls.insecure_skip_verify = cluster.flag("insecure-skip-tls-verify");
  if (tls.insecure_skip_verify && !tls.ca.empty()) {
    cluster.fault("insecure-skip-tls-verify",
                  "cannot be true together with a certificate-authority: remove one of them");
  }
  if (const std::string proxy = cluster.text("proxy-url"); !proxy.empty()) {
    read_url(cluster, "proxy-url", proxy, [&](net::Url url) {
      if (url.scheme == "http") {
        config.http.proxy = std::move(url);
      } else {
        cluster.fault("proxy-url", fmt::format("{} proxies are not supported; use an http:// proxy", url.scheme));
      }
    });
  }
}

json::Value cluster_info(const Section& cluster, const Config& config) {
  json::Object info{{"server", cluster.text("server")}};
  const net::TlsOptions& tls = config.http.tls;
  if (!tls.server_name.empty()) info["tls-server-name"] = tls.server_name;
  if (tls.insecure_skip_verify) info["insecure-skip-tls-verify"] = true;
  if (!tls.ca.text.empty()) info["certificate-authority-data"] = base64_encode(tls.ca.text);
  return info;
}

Config::Exec read_exec(const Section& exec, const Section& cluster, const Config& config) {
  Config::Exec out;
  out.api_version = exec.text("apiVersion");
  if (out.api_version != "client.authentication.k8s.io/v1" &&
      out.api_version != "client.authentication.k8s.io/v1beta1") {
    exec.fault("apiVersion",
               fmt::format("\"{}\" is not supported; expected client.authentication.k8s.io/v1 or v1beta1: "
                           "update the plug-in and this entry",
                           out.api_version));
  }
  out.command = exec.text("command");
  if (out.command.empty() && !exec.has("command")) exec.fault("command", "is missing; expected a program");
  // A name alone is looked up in PATH; anything else is a path.
  if (out.command.find('/') != std::string::npos) out.command = exec.path("command");
  if (const json::Array* args = exec.list("args")) {
    for (std::size_t i = 0; i < args->size(); ++i) {
      if ((*args)[i].is_string()) {
        out.args.emplace_back(json::view((*args)[i].get_string()));
      } else {
        exec.fault(fmt::format("args[{}]", i), "expected text; put the value in quotes");
      }
    }
  }
  if (const json::Array* env = exec.list("env")) {
    for (std::size_t i = 0; i < env->size(); ++i) {
      const Section item = exec.item("env", i, (*env)[i]);
      std::string name = item.text("name");
      if (name.empty()) {
        item.fault("name", "is missing");
        continue;
      }
      out.env.emplace_back(std::move(name), item.text("value"));
    }
  }
  if (exec.text("interactiveMode") == "Always") {
    exec.fault("interactiveMode", "Always needs a terminal, which a service does not have; use IfAvailable or Never");
  }
  out.install_hint = exec.text("installHint");
  if (exec.flag("provideClusterInfo")) out.cluster_info = json::dump(cluster_info(cluster, config));
  return out;
}

void read_user(const Section& user, const Section& cluster, Config& config,
               const std::function<bool(const std::string&)>& readable) {
  net::TlsOptions& tls = config.http.tls;
  tls.certificate = pem_of(user, "client-certificate", readable);
  tls.key = pem_of(user, "client-key", readable);
  if (tls.certificate.empty() != tls.key.empty()) {
    user.fault(tls.key.empty() ? "client-key" : "client-certificate",
               "is missing; a certificate and its key come together");
  }
  config.token = user.text("token");
  config.token_file = user.path("tokenFile");
  if (!config.token_file.empty() && !readable(config.token_file)) {
    user.fault("tokenFile", fmt::format("{} cannot be read; check the path and its permissions", config.token_file));
  }
  config.user = user.text("username");
  config.password = user.text("password");
  if (user.has("exec")) config.exec = read_exec(user.inner("exec"), cluster, config);
  if (user.has("auth-provider")) {
    user.fault("auth-provider", "was removed from Kubernetes in 1.26; use the provider's exec plug-in instead");
  }
  for (const std::string_view field : {"as", "as-uid", "as-groups", "as-user-extra"}) {
    if (user.has(field)) user.fault(field, "impersonation is not supported; use credentials of that user");
  }
}

const Section* find_entry(const Named& entries, const Section& context, std::string_view field) {
  const std::string name = context.text(field);
  if (name.empty()) return nullptr;
  const auto at = entries.find(name);
  if (at != entries.end()) return &at->second;
  context.fault(field, fmt::format("no {} is named \"{}\"; {}", field, name, names_of(entries)));
  return nullptr;
}

void read_context(const Merged& merged, const Section& context, Config& config,
                  const std::function<bool(const std::string&)>& readable) {
  if (std::string ns = context.text("namespace"); !ns.empty()) config.ns = std::move(ns);
  const Section* cluster = find_entry(merged.clusters, context, "cluster");
  if (cluster == nullptr && !context.has("cluster")) {
    context.fault("cluster", "is missing; " + names_of(merged.clusters));
  }
  if (cluster != nullptr) read_cluster(*cluster, config, readable);
  const Section* user = find_entry(merged.users, context, "user");
  if (user != nullptr) read_user(*user, cluster != nullptr ? *cluster : context, config, readable);
}

}  // namespace

Config build_config(const std::vector<KubeconfigFile>& files, std::string_view context,
                    const std::function<bool(const std::string& path)>& readable) {
  Faults faults;
  Config config;
  const Merged merged = merge(files, faults);
  const std::string name = context.empty() ? merged.current_context : std::string(context);
  if (const auto at = merged.contexts.find(name); at != merged.contexts.end()) {
    read_context(merged, at->second, config, readable);
  } else if (name.empty()) {
    faults.push_back(
        fmt::format("{}: current-context: is not set; choose a context with --context or with kubectl "
                    "config use-context; {}",
                    places_of(files), names_of(merged.contexts)));
  } else {
    faults.push_back(
        fmt::format("{}: contexts: no context is named \"{}\"; {}", places_of(files), name, names_of(merged.contexts)));
  }
  if (!faults.empty()) throw ConfigError(fmt::format("{}", fmt::join(faults, "\n")));
  return config;
}

}  // namespace bascule::kube
