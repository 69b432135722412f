// Finds the object whose annotations speak for a pod: the group it names (a PodGroup of either kind, a
// LeaderWorkerSet), else a controller above it: a Job, the JobSet above that; of other kinds the highest that may be
// read, a site's own among them. A pod nobody controls, or whose controller may not be read, speaks for itself. Jobs
// come from an informer, others by a get that is remembered for a while. What should be there and cannot be read is not
// guessed: the pod waits and says so.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>

#include "bridge/unit.hpp"
#include "kube/client.hpp"
#include "kube/discovery.hpp"
#include "kube/informer.hpp"

namespace bascule::bridge {

// In what Owners says of an object that exists, perhaps, and that whoever asks has no right to.
inline constexpr std::string_view kMayNotBeRead = ", may not be read: ";

// A controller of this kind always speaks for its pods: our role may read it.
bool always_speaks(std::string_view api_version, std::string_view kind) noexcept;

class Owners final {
 public:
  // Both outlive this.
  Owners(kube::Client& client, const kube::Informer<kube::Job>& jobs)
      : client_(client), jobs_(jobs), discovery_(client) {}

  // The root, or why it is not known yet.
  using Found = std::variant<Root, std::string>;
  Task<Found> root_of(PodPtr pod, std::stop_token stop);
  // A group goes by its name, and another one may have come under it. True: what is remembered of it was older than a
  // second and is forgotten, so the next root_of reads it anew. `unit`: the group's.
  bool forget_older(const Uid& unit);
  void forget(const Uid& unit);

 private:
  struct Remembered {
    Root root;
    TimePoint at{};
  };
  // A controller, as the object below it says.
  struct Above {
    std::string api_version, kind;
    NamespacedName key;
    Uid uid;
    std::string memory() const { return api_version + " " + kind + " " + key.str() + " " + uid.str(); }
  };
  static std::optional<Above> above(const json::Value& object);
  // nullopt: it may not be read, or its kind is not served.
  using Looked = std::expected<std::optional<json::Value>, std::string>;
  Task<Looked> look_at(Above& owner, std::stop_token stop);
  Task<std::optional<kube::Resource>> served(const Above& owner, std::stop_token stop);
  // From that controller upwards; nullopt: it may not be read itself.
  Task<std::optional<Found>> highest(Above first, std::stop_token stop);
  Task<Found> group_root(Group group, PodPtr pod, std::stop_token stop);
  // As it is watched; where nobody watches, by a get.
  using FoundJob = std::expected<std::shared_ptr<const kube::Job>, std::string>;
  Task<FoundJob> find_job(NamespacedName key, Uid uid, std::stop_token stop);
  // `direct`: the pod is one that the Job makes, so its template speaks too.
  Task<Found> job_root(NamespacedName key, Uid uid, bool direct, std::stop_token stop);
  // The Job that controls the pod, then the Workload its group was made from, speak louder than the group itself.
  Task<std::string> add_workload(Root& root, json::Value group, PodPtr pod, std::stop_token stop);
  Task<std::expected<json::Value, std::string>> read(kube::Resource resource, NamespacedName key, std::stop_token stop);
  Root root_from(const kube::Resource& resource, const json::Value& object);
  // The object that the reference means; another of its name speaks for nobody's pod but its own.
  Task<Found> owner_root(const kube::Resource& resource, NamespacedName key, Uid uid, std::string what,
                         std::stop_token stop);
  std::optional<Root> recall(const std::string& key) const;
  Root remember(const std::string& key, Root root);

  kube::Client& client_;
  const kube::Informer<kube::Job>& jobs_;
  kube::Discovery discovery_;
  json::Interner interner_;
  // By kind, namespace, name and uid: a reference is what its writer says, and must not stand for others' objects.
  std::unordered_map<std::string, Remembered> remembered_;
  std::unordered_map<std::string, TimePoint> denied_;  // by kind and namespace: may not be read, as of then
};

}  // namespace bascule::bridge
