// What a custom resource asks for: its children, and what stands in the way. Made by pure functions of this folder from
// the object and what is known of its namespace.
//
// A child that cannot be made right now (a Secret it mounts is missing, a file cannot be read) is left out of the plan:
// it then stays as it is. Only what is in `unwanted` is taken away.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop.hpp"
#include "json/value.hpp"
#include "kube/resource.hpp"
#include "operator/api/types.hpp"
#include "operator/builders/controller.hpp"
#include "operator/reconcile/nodes_stand.hpp"

namespace bascule::op::reconcile {

// What is known of the objects of one namespace. Pointers are good until the plan is made. The driver notes what was
// looked for, found or not, and has the plan made anew when that changes.
class View {
 public:
  virtual ~View() = default;
  // nullptr: there is none.
  virtual const json::Value* find(const kube::Resource& resource, std::string_view name) = 0;
  // NodeSets that name this Controller, also those being deleted; in any order.
  virtual std::vector<const json::Value*> node_sets_of(std::string_view controller) = 0;
  // Controllers that name this Accounting; in any order.
  virtual std::vector<const json::Value*> controllers_of(std::string_view accounting) = 0;
};

struct Child {
  const kube::Resource* resource;
  json::Value object;
};
struct Unwanted {
  const kube::Resource* resource;
  std::string name;
};
// Something a person has to mend.
struct Fault {
  std::string reason;  // a word, of conditions
  std::string sentence;
};
// Something that comes by itself. `event` is the reason of a warning event; empty: none.
struct Wait {
  std::string sentence;
  std::string event = {};
};

// The key of auth/slurm is another than slurmctld has.
struct KeyWait {
  std::string rule;        // a sentence: what slurmctld waits for
  bool jwt = false;        // the JWT key has changed too
  bool workers = false;    // there are some, which may run jobs
  bool jobs_seen = false;  // some did when the statuses were written
  struct Beside {
    std::string controller;
    bool workers;
  };
  std::vector<Beside> beside = {};  // Controllers of the same Accounting that wait likewise
};

// Of a Token: what was signed last. Until the cache has it another one would be signed each time.
struct WrittenToken {
  std::string secret, key;
  std::string over;  // resourceVersion of the Secret that it took the place of; empty: there was none
  std::string jwt;
};

struct Plan {
  std::vector<Child> children;  // in the order they are made
  std::vector<Unwanted> unwanted;
  std::vector<Fault> faults;
  std::vector<Wait> waits;
  std::vector<std::string> notes = {};  // worth telling when nothing is amiss: the message of Ready
  json::Object status = {};             // fields besides conditions
  std::optional<WallTime> wake = {};    // look again then
  bool needs_host_keys = false;         // of a LoginSet: make them, there are none
  // Of a Controller: what would have slurmctld take the key is made only as slurmctld itself allows (hold_key()).
  std::optional<KeyWait> key_wait = {};
  bool keeps_lines = false;                // of a Controller: lines that nobody wants stay for the jobs on their nodes
  std::optional<WrittenToken> token = {};  // of a Token: to be remembered when it is written
  std::string config_digest = {};          // of a Controller: what slurmctld is to run; empty: it does not say it

  void add(const kube::Resource& resource, json::Value object) { children.push_back({&resource, std::move(object)}); }
  void wait(std::string sentence, std::string event = {}) { waits.push_back({std::move(sentence), std::move(event)}); }
};

// All throw BadObject for what the object's owner has to mend.
// `stand`: of the Slurm nodes, as far as slurmctld was asked.
Plan plan_controller(const json::Value& object, View& view, WallTime now, const ClusterStand& stand = {});
Plan plan_accounting(const json::Value& object, View& view);
Plan plan_restapi(const json::Value& object, View& view);
// `domain`: the cluster's DNS domain.
Plan plan_loginset(const json::Value& object, View& view, std::string_view domain);
// `id`: unlike any other, for the token if one is made. `last`: as a plan of it said.
Plan plan_token(const json::Value& object, View& view, std::string_view id, WallTime now,
                const std::optional<WrittenToken>& last = {});
// What belongs to a NodeSet besides its pods: its sshd ConfigMap; and from the first by name of those that stay, what
// all NodeSets of its Controller share.
Plan plan_nodeset_files(const json::Value& object, View& view);

// --- parts of the above --------------------------------------------------------------------------------------------

// The bytes of a key of a Secret, or why there are none: a sentence that says in which field it is named.
std::expected<std::string, std::string> secret_bytes(View& view, const KeyRef& ref, std::string_view field);
// Of all keys that are named; what is missing is waited for. nullopt: something is.
std::optional<KeyHashes> key_hashes(View& view, const Keys& keys, Plan& plan);
// The sentence about a workload that was changed just now.
std::string pods_follow(const kube::Resource& resource, std::string_view name);
// nullopt: as many pods as it wants run what it says now. `live` may be nullptr.
std::optional<std::string> workload_wait(const kube::Resource& resource, std::string_view name,
                                         const json::Value* live);

}  // namespace bascule::op::reconcile
