// Performs the actions of a plan, one call or a few each: objects by patches with UID or version as precondition, pods
// and Slurm nodes after a look at what they are at this moment. Decides nothing but whether an action still holds.
#pragma once

#include <functional>
#include <stop_token>
#include <string>

#include "base/async.hpp"
#include "kube/client.hpp"
#include "operator/api/resources.hpp"
#include "operator/api/types.hpp"
#include "operator/builders/worker.hpp"
#include "operator/clusters/clusters.hpp"
#include "operator/nodeset/actions.hpp"
#include "operator/nodeset/view.hpp"

namespace bascule::op::nodeset {

enum class Outcome : std::uint8_t {
  kDone,
  kStale,   // surely not done: what it was decided on has changed, or it no longer has to be done
  kFailed,  // surely not done
  kMaybe,   // nobody can tell whether it was done
};
struct Performed {
  Outcome outcome = Outcome::kDone;
  std::string why;         // of all but kDone, a sentence
  bool collision = false;  // of CreateRevision: its name is taken by other data
};

class Performer final {
 public:
  struct Parts {
    kube::Client& kube;
    ClusterPtr cluster;  // nullptr: whatever needs Slurm fails
    const State& state;  // that the plan was made of
    const NodeSet& set;
    const kube::ObjectMeta& meta;  // of the NodeSet as the informer has it
    const WorkerInput* input;      // nullptr: no pod can be made
    // Asked again between a look and what is done by it: meanwhile another process may lead.
    std::function<bool()> may_act;
    // By name, of what the state was made of; nullptr when it is not there.
    std::function<const kube::ObjectMeta*(const std::string& pod)> pod;
    std::function<const Work*(const std::string& slurm_node)> work;
  };
  explicit Performer(Parts parts) : parts_(std::move(parts)) {}
  // All but WriteStatus. Throws nothing but net::Error of kind kStopped.
  Task<Performed> perform(Action action, std::stop_token stop);

 private:
  Task<Performed> run(AdoptPod what, std::stop_token stop);
  Task<Performed> run(ReleasePod what, std::stop_token stop);
  Task<Performed> run(CreateClaim what, std::stop_token stop);
  Task<Performed> run(PatchClaimOwners what, std::stop_token stop);
  Task<Performed> run(CreatePod what, std::stop_token stop);
  Task<Performed> run(PatchPod what, std::stop_token stop);
  Task<Performed> run(SetPodConditions what, std::stop_token stop);
  Task<Performed> run(DeletePod what, std::stop_token stop);
  Task<Performed> run(WriteSlurmNode what, std::stop_token stop);
  Task<Performed> run(DeleteSlurmNode what, std::stop_token stop);
  Task<Performed> run(WriteReservation what, std::stop_token stop);
  Task<Performed> run(DeleteReservation what, std::stop_token stop);
  Task<Performed> run(CreateRevision what, std::stop_token stop);
  Task<Performed> run(PatchRevision what, std::stop_token stop);
  Task<Performed> run(DeleteRevision what, std::stop_token stop);
  Task<Performed> run(WriteStatus what, std::stop_token stop);
  Task<Performed> run(SetFinalizer what, std::stop_token stop);

  Task<Performed> make(const kube::Resource& resource, json::Value object, std::stop_token stop);
  // slurmctld's word on the node at this moment; nullopt: it has no such node.
  Task<std::optional<SlurmNodeView>> look(std::string name, std::stop_token stop);
  Task<bool> still_ours(std::stop_token stop);
  NamespacedName key(std::string name) const { return {parts_.set.meta.ns, std::move(name)}; }
  json::Object owner() const;

  Parts parts_;
};

// The worker pod of an action: worker_pod() with the action's claims and name. Throws BadObject.
json::Value make_pod(const WorkerInput& input, const CreatePod& what, const std::optional<std::string>& topology);

}  // namespace bascule::op::nodeset
