// The NodeSet's status between JSON and values.
#include <algorithm>

#include "base/time.hpp"
#include "kube/condition.hpp"
#include "operator/nodeset/view.hpp"

namespace bascule::op::nodeset {

namespace {

constexpr std::string_view kReservationCreated = "ReservationCreated";

struct Count {
  std::string_view key;
  std::int32_t Status::* field;
};
constexpr Count kCounts[] = {
    {"replicas", &Status::replicas},           {"readyReplicas", &Status::ready},
    {"availableReplicas", &Status::available}, {"unavailableReplicas", &Status::unavailable},
    {"updatedReplicas", &Status::updated},     {"desired", &Status::desired},
    {"slurmIdle", &Status::slurm_idle},        {"slurmAllocated", &Status::slurm_allocated},
    {"slurmDown", &Status::slurm_down},        {"slurmDrain", &Status::slurm_drain},
};

std::int32_t count_at(const json::Value& status, std::string_view key) {
  const std::int64_t value = json::int_at(status, {key}).value_or(0);
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(value, 0, std::numeric_limits<std::int32_t>::max()));
}

std::optional<WallTime> time_at(const json::Value& status, std::string_view key) {
  return parse_rfc3339(json::string_at(status, {key}));
}

void put_time(json::Object& to, std::string_view key, const std::optional<WallTime>& time) {
  to.erase(key);
  if (time) to[key] = print_rfc3339(*time);
}

}  // namespace

Status view_status(const json::Value& status) {
  Status view;
  for (const Count& count : kCounts) view.*count.field = count_at(status, count.key);
  view.observed_generation = json::int_at(status, {"observedGeneration"}).value_or(0);
  view.hash = json::string_at(status, {"nodeSetHash"});
  if (json::int_at(status, {"collisionCount"})) view.collisions = count_at(status, "collisionCount");
  if (const json::Object* nodes = json::object_at(status, {"ordinalToNode"})) {
    for (const auto& [ordinal, node] : *nodes) {
      if (node.is_string()) view.ordinal_to_node[std::string(ordinal)] = json::view(node.get_string());
    }
  }
  view.selector = json::string_at(status, {"selector"});
  view.reservation_created = condition_at(status, kReservationCreated);
  view.reservation_start = time_at(status, "scheduledStart");
  view.reservation_done = time_at(status, "scheduledDone");
  return view;
}

json::Object print_status(const json::Value& status, const Status& now) {
  json::Object to;
  if (const json::Object* has = status.if_object()) to = *has;
  for (const Count& count : kCounts) to[count.key] = now.*count.field;
  to["observedGeneration"] = now.observed_generation;
  to["nodeSetHash"] = now.hash;
  to.erase("collisionCount");
  if (now.collisions) to["collisionCount"] = *now.collisions;
  to.erase("ordinalToNode");
  if (!now.ordinal_to_node.empty()) {
    json::Object nodes;
    for (const auto& [ordinal, node] : now.ordinal_to_node) nodes[ordinal] = node;
    to["ordinalToNode"] = std::move(nodes);
  }
  to["selector"] = now.selector;
  put_time(to, "scheduledStart", now.reservation_start);
  put_time(to, "scheduledDone", now.reservation_done);
  set_condition(to, kReservationCreated, now.reservation_created);
  return to;
}

std::optional<Condition> condition_at(const json::Value& status, std::string_view type) {
  const json::Value* found = kube::find_condition(json::array_at(status, {"conditions"}), type);
  if (found == nullptr) return std::nullopt;
  Condition condition;
  condition.type = type;
  condition.reason = json::string_at(*found, {"reason"});
  condition.message = json::string_at(*found, {"message"});
  condition.is_true = kube::holds(found);
  condition.generation = json::int_at(*found, {"observedGeneration"}).value_or(0);
  condition.since = parse_rfc3339(json::string_at(*found, {"lastTransitionTime"})).value_or(WallTime{});
  return condition;
}

void set_condition(json::Object& status, std::string_view type, const std::optional<Condition>& condition) {
  json::Array* conditions = status.if_contains("conditions") ? status["conditions"].if_array() : nullptr;
  if (conditions == nullptr) {
    if (!condition) return;
    conditions = &(status["conditions"] = json::Array{}).get_array();
  }
  const auto same = [&](const json::Value& item) { return json::string_at(item, {"type"}) == type; };
  const auto found = std::find_if(conditions->begin(), conditions->end(), same);
  if (!condition) {
    if (found != conditions->end()) conditions->erase(found);
    return;
  }
  json::Object item{{"type", type},
                    {"status", condition->is_true ? "True" : "False"},
                    {"observedGeneration", condition->generation},
                    {"lastTransitionTime", print_rfc3339(condition->since)},
                    {"reason", condition->reason},
                    {"message", condition->message}};
  if (found != conditions->end()) {
    *found = std::move(item);
  } else {
    conditions->push_back(std::move(item));
  }
}

}  // namespace bascule::op::nodeset
