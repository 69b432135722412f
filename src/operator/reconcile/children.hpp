// Makes children what a plan says they are: the driver of apply.hpp. One object a call, each call with its own end.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "base/async.hpp"
#include "kube/client.hpp"
#include "operator/reconcile/apply.hpp"
#include "operator/reconcile/caches.hpp"
#include "operator/reconcile/plan.hpp"

namespace bascule::op::reconcile {

// What became of a child.
enum class Outcome : std::uint8_t {
  kAsItWas,
  kCreated,
  kChanged,
  kRemoved,
  kForeign,    // of somebody else; nothing was done
  kGoing,      // still being deleted; come again when it has gone
  kNotServed,  // the cluster does not know this kind
};

// Whether the object of this UID is its controller.
bool is_owned_by(const json::Value& object, std::string_view uid);

class Children final {
 public:
  // `may_act`: asked before every write; throws when this process must not write any longer. All outlive this.
  Children(kube::Client& kube, Caches& caches, std::function<void()> may_act)
      : kube_(kube), caches_(caches), may_act_(std::move(may_act)), done_(kube.loop()) {}

  // Throws kube::Error's kinds. One after the other for each child: some belong to several owners.
  Task<Outcome> ensure(Child child, std::stop_token stop);
  // Deletes it if it belongs to the owner of this UID.
  Task<Outcome> remove(const kube::Resource& resource, NamespacedName key, std::string owner_uid, std::stop_token stop);
  // Only if there is none; what is there stays, whatever it says.
  Task<Outcome> make_once(Child child, std::stop_token stop);
  // The cache does not show yet what was last made of it: who decides by it would decide by what was before.
  bool is_unseen(const kube::Resource& resource, const NamespacedName& key) const;
  // It is gone.
  void forget(const kube::Resource& resource, const NamespacedName& key);

 private:
  struct Live {
    ObjectPtr kept = {};
    json::Value read = {};
    bool served = true;
    const json::Value* value() const noexcept { return kept ? &kept->value : (read.is_null() ? nullptr : &read); }
  };
  // From the cache, or from the API server itself when it is not there.
  Task<Live> look(const kube::Resource& resource, NamespacedName key, std::stop_token stop);
  Task<Live> ask(const kube::Resource& resource, NamespacedName key, std::stop_token stop);
  Task<bool> owners_stay(std::string ns, json::Array owners, std::stop_token stop);
  Task<json::Value> adopt(const kube::Resource& resource, NamespacedName key, json::Value wanted, json::Value live,
                          std::stop_token stop);
  // Of a child that slurm-operator made, before it is first applied.
  Task<> take_over(const kube::Resource& resource, NamespacedName key, std::stop_token stop);
  Task<Outcome> apply(const kube::Resource& resource, NamespacedName key, json::Value wanted, Applied& last,
                      std::stop_token stop);

  kube::Client& kube_;
  Caches& caches_;
  std::function<void()> may_act_;
  struct Memory {
    Applied applied = {};
    bool busy = false;
  };
  std::map<std::string, Memory> memory_;
  Bell done_;
};

}  // namespace bascule::op::reconcile
