#include "operator/clusters/clusters.hpp"

#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "base/base64.hpp"
#include "base/log.hpp"
#include "operator/api/derived.hpp"
#include "operator/api/names.hpp"
#include "operator/api/read.hpp"
#include "runtime/controller.hpp"
#include "runtime/token_metrics.hpp"

namespace bascule::op {

namespace {

constexpr std::string_view kUp = "bascule_slurm_cluster_up";

using ObjectPtr = kube::Informer<kube::DynamicObject>::Ptr;

// What a cluster is reached by.
struct Access {
  std::string url;
  std::string key;
  friend bool operator==(const Access&, const Access&) = default;
};

slurm::ClientOptions client_options(const Clock& clock, const std::string& key, Duration lifetime,
                                    std::shared_ptr<runtime::TokenMetrics> metrics) {
  slurm::ClientOptions options;
  options.token = slurm::key_token(clock, key, std::string(names::kSlurmUser), lifetime);
  if (metrics) {
    options.token = slurm::watched(std::move(options.token), [metrics](const slurm::TokenTimes& times) {
      metrics->set(times.issued, times.expires);
    });
  }
  options.user_name = names::kSlurmUser;
  return options;
}

std::optional<std::string> secret_value(const kube::DynamicObject& secret, const std::string& key) {
  const json::Value* text = json::find(secret.value, {"data", key});
  if (text == nullptr || !text->is_string()) return std::nullopt;
  std::optional<std::string> value = base64_decode(json::view(text->get_string()));
  if (value && value->empty()) return std::nullopt;
  return value;
}

bool names_jwt_secret(const json::Value& controller, std::string_view secret) {
  return json::string_at(controller, {"spec", "jwtKeyRef", "name"}) == secret ||
         json::string_at(controller, {"spec", "jwtHs256KeyRef", "name"}) == secret;
}

}  // namespace

// --- one cluster -----------------------------------------------------------------------------------------------------

SlurmCluster::SlurmCluster(Loop& loop, NamespacedName controller, std::string url,
                           std::unique_ptr<net::Transport> transport, slurm::ClientOptions client,
                           slurm::MirrorOptions mirror)
    : controller_(std::move(controller)),
      url_(std::move(url)),
      transport_(std::move(transport)),
      client_(loop, *transport_, std::move(client)),
      mirror_(loop, client_, mirror) {}

bool SlurmCluster::known() const noexcept {
  return mirror_.reachable() && mirror_.synced() && mirror_.nodes_synced();
}

std::string SlurmCluster::why_unknown() const {
  if (known()) return {};
  const std::string why = mirror_.why_unreachable();
  return why.empty() ? "the tables of slurmctld are not complete yet" : why;
}

// --- all of them -----------------------------------------------------------------------------------------------------

struct SlurmClusters::Impl {
  struct Entry {
    Access access;
    ClusterPtr cluster;
  };

  Impl(Parts p, Options o)
      : parts(std::move(p)),
        options(o),
        controller(
            parts.loop, {.name = "slurmclient-controller", .workers = options.workers},
            [this](std::string key, std::stop_token stop) {
              return reconcile(NamespacedName::parse(key), std::move(stop));
            },
            parts.metrics) {
    parts.controllers.on_change([this](const ObjectPtr& before, const ObjectPtr& after) {
      controller.add((after ? after : before)->meta.key.str());
    });
    parts.restapis.on_change([this](const ObjectPtr& before, const ObjectPtr& after) {
      for (const ObjectPtr& object : {before, after}) {
        if (object) controller.add(controller_of(*object).str());
      }
    });
    parts.secrets.on_change([this](const ObjectPtr& before, const ObjectPtr& after) {
      const NamespacedName key = (after ? after : before)->meta.key;
      parts.controllers.for_each([&](const ObjectPtr& object) {
        if (object->meta.key.ns == key.ns && names_jwt_secret(object->value, key.name)) {
          controller.add(object->meta.key.str());
        }
      });
    });
  }

  Parts parts;
  const Options options;
  std::vector<Listener> listeners;
  std::map<NamespacedName, Entry> entries;
  std::map<NamespacedName, std::string> why_none;
  runtime::Controller controller;

  static NamespacedName controller_of(const kube::DynamicObject& restapi) {
    return {restapi.meta.key.ns, std::string(json::string_at(restapi.value, {"spec", "controllerRef", "name"}))};
  }

  void tell(const NamespacedName& key) const {
    for (const Listener& listener : listeners) {
      if (listener.on_cluster) listener.on_cluster(key);
    }
  }
  static runtime::Labels labels_of(const NamespacedName& key) {
    return {{"namespace", key.ns}, {"controller", key.name}};
  }
  void count(const NamespacedName& key, bool up) const {
    if (parts.metrics == nullptr) return;
    parts.metrics->set(kUp, "1 while slurmctld of the Controller answers", labels_of(key), up ? 1 : 0);
  }
  void uncount(const NamespacedName& key) const {
    if (parts.metrics != nullptr) parts.metrics->remove(kUp, labels_of(key));
  }

  // The oldest one, as with several of anything.
  ObjectPtr restapi_of(const NamespacedName& key) const {
    ObjectPtr best;
    const auto rank = [](const ObjectPtr& object) { return std::tie(object->meta.created, object->meta.key.name); };
    parts.restapis.for_each([&](const ObjectPtr& object) {
      if (controller_of(*object) == key && (!best || rank(object) < rank(best))) best = object;
    });
    return best;
  }

  Task<runtime::Result> reconcile(NamespacedName key, std::stop_token) {
    const ObjectPtr object = parts.controllers.get(key);
    if (!object) {
      why_none.erase(key);
      co_await drop(key);
      uncount(key);
      co_return runtime::Result{};
    }
    if (!entries.contains(key)) count(key, false);
    const ObjectPtr restapi = restapi_of(key);
    if (!restapi) {
      why_none[key] = fmt::format("no RestApi refers to Controller {}", key.str());
      co_await drop(key);
      co_return runtime::Result{};
    }
    // What cannot be read leaves a cluster that there is as it is: it worked.
    std::string fault;
    const std::optional<Access> access = access_of(*object, *restapi, fault);
    if (!access) {
      log::warning("Slurm cluster not reached", {{"controller", key}, {"why", fault}});
      why_none[key] = std::move(fault);
      tell(key);
      co_return runtime::Result{};
    }
    const auto has = entries.find(key);
    if (has != entries.end() && has->second.access == *access) co_return runtime::Result{};
    co_await drop(key);
    try {
      make(key, *access);
    } catch (const std::invalid_argument& error) {
      why_none[key] = error.what();
      tell(key);
    }
    co_return runtime::Result{};
  }

  std::optional<Access> access_of(const kube::DynamicObject& object, const kube::DynamicObject& restapi,
                                  std::string& fault) const try {
    const Controller read = read_controller(object.value);
    Access access{rest_url(read_restapi(restapi.value)), {}};
    const KeyRef& ref = read.keys.jwt;
    if (ref.empty()) {
      fault = fmt::format("Controller {} has no jwtKeyRef", object.meta.key.str());
      return std::nullopt;
    }
    const ObjectPtr secret = parts.secrets.get({object.meta.key.ns, ref.name});
    std::optional<std::string> key = secret ? secret_value(*secret, ref.key) : std::nullopt;
    if (!key) {
      fault = fmt::format("Secret {}/{} with the JWT key under {} is {}", object.meta.key.ns, ref.name, ref.key,
                          secret ? "there, but not the key" : "not there");
      return std::nullopt;
    }
    access.key = std::move(*key);
    return access;
  } catch (const BadObject& error) {
    fault = error.what();
    return std::nullopt;
  }

  void make(const NamespacedName& key, const Access& access) {
    std::shared_ptr<runtime::TokenMetrics> token;
    if (parts.metrics) token = std::make_shared<runtime::TokenMetrics>(*parts.metrics, parts.loop, labels_of(key));
    auto cluster = std::make_shared<SlurmCluster>(
        parts.loop, key, access.url, parts.connect(access.url),
        client_options(parts.loop, access.key, options.token_lifetime, std::move(token)), options.mirror);
    cluster->mirror().on_health([this, key](bool up) {
      count(key, up);
      tell(key);
    });
    for (const Listener& listener : listeners) {
      if (listener.on_node) {
        cluster->mirror().on_node([key, &listener](const auto& change) { listener.on_node(key, change); });
      }
      if (listener.on_job) {
        cluster->mirror().on_job([key, &listener](const auto& change) { listener.on_job(key, change); });
      }
    }
    cluster->mirror().start();
    entries[key] = {access, std::move(cluster)};
    why_none.erase(key);
    log::info("Slurm cluster", {{"controller", key}, {"url", access.url}});
    tell(key);
  }

  Task<> drop(NamespacedName key) {
    const auto found = entries.find(key);
    if (found == entries.end()) co_return;
    const ClusterPtr cluster = std::move(found->second.cluster);
    entries.erase(found);
    count(key, false);
    tell(key);
    co_await cluster->mirror().stop();
    log::info("Slurm cluster let go", {{"controller", key}});
  }

  Task<> stop() {
    co_await controller.stop();
    while (!entries.empty()) {
      const NamespacedName key = entries.begin()->first;
      co_await drop(key);
    }
  }
};

SlurmClusters::SlurmClusters(Parts parts, Options options) : impl_(std::make_unique<Impl>(std::move(parts), options)) {}
SlurmClusters::~SlurmClusters() = default;
void SlurmClusters::listen(Listener listener) {
  impl_->listeners.push_back(std::move(listener));
}
void SlurmClusters::start() {
  impl_->controller.start();
}
Task<> SlurmClusters::stop() {
  return impl_->stop();
}

ClusterPtr SlurmClusters::find(const NamespacedName& controller) const {
  const auto it = impl_->entries.find(controller);
  return it == impl_->entries.end() ? nullptr : it->second.cluster;
}

std::string SlurmClusters::why_none(const NamespacedName& controller) const {
  const auto it = impl_->why_none.find(controller);
  return it != impl_->why_none.end()
             ? it->second
             : fmt::format("the Slurm cluster of Controller {} is not known yet", controller.str());
}

std::vector<ClusterPtr> SlurmClusters::all() const {
  std::vector<ClusterPtr> clusters;
  for (const auto& [key, entry] : impl_->entries) clusters.push_back(entry.cluster);
  return clusters;
}

}  // namespace bascule::op
