#include "operator/reconcile/conditions.hpp"

#include <algorithm>

#include "base/time.hpp"
#include "kube/condition.hpp"

namespace bascule::op::reconcile {

namespace {

constexpr std::size_t kMaxMessage = 1024;  // bytes; a message is for people
constexpr std::size_t kMaxNotes = 30'000;  // lines to be copied elsewhere; the API server takes 32 KiB

std::string message_of(const Plan& plan) {
  std::string out;
  const auto add = [&out](const std::string& sentence) {
    if (!out.empty()) out += "; ";
    out += sentence;
  };
  for (const Fault& fault : plan.faults) add(fault.sentence);
  for (const Wait& wait : plan.waits) add(wait.sentence);
  const std::size_t most = out.empty() ? kMaxNotes : kMaxMessage;
  if (out.empty()) {
    for (const std::string& note : plan.notes) add(note);
  }
  if (out.size() > most) {
    out.resize(most);
    while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xC0U) == 0x80U) out.pop_back();
    if (!out.empty() && static_cast<unsigned char>(out.back()) >= 0x80U) out.pop_back();
    out += "...";
  }
  return out;
}

struct Condition {
  std::string_view type;
  bool holds;
  std::string reason;
  std::string message;
};

json::Value print(const Condition& condition, std::int64_t generation, const json::Value& old, WallTime now) {
  const std::string_view status = condition.holds ? "True" : "False";
  const json::Value* before = kube::find_condition(json::array_at(old, {"conditions"}), condition.type);
  const bool holds_on = before && json::string_at(*before, {"status"}) == status &&
                        !json::string_at(*before, {"lastTransitionTime"}).empty();
  return json::Object{{"type", condition.type},
                      {"status", status},
                      {"reason", condition.reason},
                      {"message", condition.message},
                      {"observedGeneration", generation},
                      {"lastTransitionTime",
                       holds_on ? std::string(json::string_at(*before, {"lastTransitionTime"})) : print_rfc3339(now)}};
}

bool same_condition(const json::Value& a, const json::Value& b) {
  for (const std::string_view field : {"status", "reason", "message"}) {
    if (json::string_at(a, {field}) != json::string_at(b, {field})) return false;
  }
  return json::int_at(a, {"observedGeneration"}) == json::int_at(b, {"observedGeneration"});
}

}  // namespace

json::Object make_status(const Plan& plan, std::int64_t generation, const json::Value& old, WallTime now) {
  const bool degraded = !plan.faults.empty();
  const bool waits = !plan.waits.empty();
  const std::string message = message_of(plan);
  std::string reason = "Ready";
  if (waits) reason = "Waiting";
  if (degraded) reason = plan.faults.front().reason;
  json::Array conditions;
  const auto add = [&](const Condition& condition) { conditions.push_back(print(condition, generation, old, now)); };
  add({"Ready", !degraded && !waits, reason, message});
  add({"Progressing", waits && !degraded, reason, waits && !degraded ? message : std::string()});
  add({"Degraded", degraded, degraded ? reason : "AsExpected", degraded ? message : std::string()});
  json::Object status = plan.status;
  status["conditions"] = std::move(conditions);
  return status;
}

bool status_differs(const json::Object& wanted, const json::Value& old) {
  for (const auto& [key, value] : wanted) {
    if (key == "conditions") {
      for (const json::Value& condition : value.get_array()) {
        const json::Value* before =
            kube::find_condition(json::array_at(old, {key}), json::string_at(condition, {"type"}));
        if (!before || !same_condition(condition, *before)) return true;
      }
      continue;
    }
    const json::Value* before = json::find(old, {key});
    if (!before || !json::equal(*before, value)) return true;
  }
  return false;
}

}  // namespace bascule::op::reconcile
