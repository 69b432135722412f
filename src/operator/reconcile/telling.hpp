// What people see of a visit: events about what is new, and the status. What holds on is written once.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/task.hpp"
#include "kube/client.hpp"
#include "kube/events.hpp"
#include "operator/reconcile/caches.hpp"
#include "operator/reconcile/plan.hpp"

namespace bascule::op::reconcile {

class Telling final {
 public:
  // `require_turn` throws when this process may not write. All outlive this.
  Telling(kube::Client& kube, kube::EventRecorder& events, std::function<void()> require_turn)
      : kube_(kube), events_(events), require_turn_(std::move(require_turn)) {}

  void event(const kube::Resource& kind, const kube::DynamicObject& object, kube::EventType type,
             std::string_view reason, std::string_view action, std::string note, kube::ObjectReference related = {});
  // `reader`: who the plan was made for.
  void tell(const kube::Resource& kind, const kube::DynamicObject& object, const std::string& reader, const Plan& plan);
  Task<> write_status(ObjectPtr object, const kube::Resource& kind, const std::string& reader, const Plan& plan,
                      std::stop_token stop);
  void forget(const std::string& reader) { memory_.erase(reader); }

 private:
  struct Memory {
    std::set<std::string> said;  // by events
    std::string status_before;   // resourceVersion our last status was written over
    json::Value status = {};     // that status
  };

  kube::Client& kube_;
  kube::EventRecorder& events_;
  std::function<void()> require_turn_;
  std::map<std::string, Memory> memory_;  // by reader
};

}  // namespace bascule::op::reconcile
