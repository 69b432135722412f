#include "operator/reconcile/telling.hpp"

#include "operator/api/names.hpp"
#include "operator/reconcile/children.hpp"
#include "operator/reconcile/conditions.hpp"

namespace bascule::op::reconcile {

void Telling::event(const kube::Resource& kind, const kube::DynamicObject& object, kube::EventType type,
                    std::string_view reason, std::string_view action, std::string note, kube::ObjectReference related) {
  events_.record({kind.api_version(), kind.kind, object.meta.key, object.meta.uid}, type, reason, action,
                 std::move(note), {std::move(related), names::reporter(kind.kind)});
}

void Telling::tell(const kube::Resource& kind, const kube::DynamicObject& object, const std::string& reader,
                   const Plan& plan) {
  std::set<std::string> now;
  std::set<std::string>& said = memory_[reader].said;
  const auto say = [&](const std::string& reason, const std::string& sentence) {
    now.insert(reason + sentence);
    if (!said.contains(reason + sentence)) event(kind, object, kube::EventType::kWarning, reason, "Sync", sentence);
  };
  for (const Fault& fault : plan.faults) {
    // Those two were told when they happened.
    if (fault.reason != "PatchFailed" && fault.reason != "CreateFailed") say("SyncFailed", fault.sentence);
  }
  for (const Wait& wait : plan.waits) {
    if (!wait.event.empty()) say(wait.event, wait.sentence);
  }
  said = std::move(now);
}

Task<> Telling::write_status(ObjectPtr object, const kube::Resource& kind, const std::string& reader, const Plan& plan,
                             std::stop_token stop) {
  const json::Value* cached = json::find(object->value, {"status"});
  Memory& mine = memory_[reader];
  // The cache may not have seen our own last word yet.
  const bool late = !mine.status_before.empty() && mine.status_before == object->meta.resource_version;
  const json::Value old = late ? mine.status : (cached ? *cached : json::Value(json::Object()));
  json::Object status = make_status(plan, object->meta.generation, old, kube_.loop().wall());
  if (!status_differs(status, old)) co_return;
  json::Value patch = json::Object{{"apiVersion", kind.api_version()},
                                   {"kind", kind.kind},
                                   {"metadata", json::Object{{"name", object->meta.key.name},
                                                             {"namespace", object->meta.key.ns},
                                                             {"uid", object->meta.uid.str()}}},
                                   {"status", status}};
  require_turn_();
  try {
    co_await kube_.patch(kind, object->meta.key, kube::PatchType::kApply, std::move(patch), "status",
                         {.field_manager = std::string(kFieldManager), .force = true}, stop);
  } catch (const kube::NotFound&) {
    co_return;
  } catch (const kube::Conflict&) {
    co_return;  // another object of its name; its own visit comes
  }
  Memory& again = memory_[reader];
  again.status_before = object->meta.resource_version;
  again.status = std::move(status);
}

}  // namespace bascule::op::reconcile
