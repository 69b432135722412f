// The pods of slurmctld, as far as their StatefulSet does not look after them: which one serves, and one that hangs.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "base/strong.hpp"
#include "base/task.hpp"
#include "kube/client.hpp"
#include "operator/reconcile/active_pod.hpp"
#include "operator/reconcile/caches.hpp"
#include "operator/reconcile/plan.hpp"
#include "operator/reconcile/telling.hpp"

namespace bascule::op::reconcile {

class CtldPods final {
 public:
  struct Parts {
    kube::Client& kube;
    Telling& telling;
    std::function<void()> require_turn;  // throws when this process may not write
    // Host names of the slurmctlds of a Controller that answer slurmrestd; nullopt: not known. nullptr: never known.
    std::function<Task<std::optional<std::vector<std::string>>>(NamespacedName controller, std::stop_token stop)>
        answering;
    // Whether the slurmctld at this address serves; nullopt: not known. nullptr: never known.
    std::function<Task<std::optional<bool>>(std::string url, std::stop_token stop)> serves;
  };
  explicit CtldPods(Parts parts) : parts_(std::move(parts)) {}

  // The label by which the Service finds the slurmctld that serves. How soon to look again; nullopt: when woken.
  Task<std::optional<Duration>> mark_active(ObjectPtr object, View& view, std::stop_token stop);
  // A slurmctld that never gets ready and is not as the StatefulSet says now: Kubernetes would wait for it for ever.
  Task<> replace_stale(ObjectPtr object, View& view, Plan& plan, std::stop_token stop);

 private:
  Task<std::vector<CtldPod>> look(const Controller& controller, View& view, std::stop_token stop);
  Task<> ask(CtldPod& pod, std::stop_token stop);  // the pod outlives it
  Task<> label(std::string ns, LabelChange change, std::stop_token stop);

  Parts parts_;
  std::set<Uid> heard_;  // Controllers of which a slurmctld has said whether it serves
};

}  // namespace bascule::op::reconcile
