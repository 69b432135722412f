#include "operator/reconcile/apply.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "kube/covers.hpp"
#include "operator/api/names.hpp"
#include "operator/config/hash.hpp"

namespace bascule::op::reconcile {

namespace {

constexpr Duration kBehind = std::chrono::minutes(1);  // a cache is for so long without being doubted

// Keys in order, so that the same object is the same text.
void print_canonical(const json::Value& value, std::string& out) {
  if (const auto* object = value.if_object()) {
    std::vector<std::string_view> keys;
    for (const auto& [key, item] : *object) keys.push_back(key);
    std::ranges::sort(keys);
    out += '{';
    for (const std::string_view key : keys) {
      out += json::dump(json::Value(key)) + ':';
      print_canonical(object->at(key), out);
      out += ',';
    }
    out += '}';
  } else if (const auto* array = value.if_array()) {
    out += '[';
    for (const json::Value& item : *array) {
      print_canonical(item, out);
      out += ',';
    }
    out += ']';
  } else {
    out += json::dump(value);
  }
}

std::string canonical_hash(const json::Value& value) {
  std::string text;
  print_canonical(value, text);
  constexpr std::size_t kDigits = 32;
  return sha256_hex(text).substr(0, kDigits);
}

std::string_view stamp_of(const json::Value& object) {
  return json::string_at(object, {"metadata", "annotations", kStamp});
}

const json::Array& owners_of(const json::Value& object) {
  static const json::Array kNone;
  const json::Array* owners = json::array_at(object, {"metadata", "ownerReferences"});
  return owners ? *owners : kNone;
}

const json::Value* controller_of(const json::Value& object) {
  const json::Array& owners = owners_of(object);
  const auto found =
      std::ranges::find_if(owners, [](const json::Value& owner) { return json::bool_at(owner, {"controller"}); });
  return found == owners.end() ? nullptr : &*found;
}

bool differs(const json::Value& wanted, const json::Value& live, json::Path path) {
  const json::Value* now = json::find(live, path);
  const json::Value* then = json::find(wanted, path);
  return now && then && !kube::covers(*now, *then);
}

// Only where the new one takes over what the old one leaves: a StatefulSet its pods and claims, a Secret nothing.
bool cannot_be_changed(const json::Value& wanted, const json::Value& live) {
  const std::string_view kind = json::string_at(wanted, {"kind"});
  if (kind == "StatefulSet") {
    return differs(wanted, live, {"spec", "serviceName"}) || differs(wanted, live, {"spec", "podManagementPolicy"});
  }
  if ((kind == "Secret" || kind == "ConfigMap") && json::bool_at(live, {"immutable"})) {
    return differs(wanted, live, {"data"}) || !json::bool_at(wanted, {"immutable"});
  }
  return false;
}

// Of an object that nobody controls, as the garbage collector leaves it when its owner was deleted without it: made by
// us, or by slurm-operator for the same daemon of the same custom resource.
bool is_ours_by_mark(const json::Value& wanted, const json::Value& live) {
  if (controller_of(live) || owners_of(wanted).empty()) return false;
  if (!controller_of(wanted) && !owners_of(live).empty()) return false;
  if (!stamp_of(live).empty()) return true;
  return std::ranges::all_of(std::array{names::kAppName, names::kAppInstance}, [&](std::string_view label) {
    const std::string_view mine = json::string_at(wanted, {"metadata", "labels", label});
    return !mine.empty() && mine == json::string_at(live, {"metadata", "labels", label});
  });
}

// slurm-operator gives a Token's Secret to the Secret with the signing key.
bool is_token_of_slurm_operator(const json::Value& wanted, const json::Value& live) {
  const json::Value* mine = controller_of(wanted);
  const json::Value* theirs = controller_of(live);
  return mine && theirs && json::string_at(wanted, {"kind"}) == "Secret" &&
         json::string_at(*mine, {"kind"}) == "Token" && json::string_at(*theirs, {"kind"}) == "Secret";
}

// Of spec; nullopt: none is needed. So is the next.
std::optional<json::Object> recreate_patch(const json::Value& wanted, const json::Value& live) {
  constexpr std::string_view kRecreate = "Recreate";
  if (json::string_at(wanted, {"spec", "strategy", "type"}) != kRecreate) return std::nullopt;
  if (!json::object_at(live, {"spec", "strategy", "rollingUpdate"})) return std::nullopt;
  return json::Object{{"strategy", json::Object{{"type", kRecreate}, {"rollingUpdate", nullptr}}}};
}

std::optional<json::Object> bound_patch(const json::Value& wanted, const json::Value& live) {
  const json::Value* bound = json::find(wanted, {"spec", "minAvailable"});
  if (!bound || !json::find(live, {"spec", "maxUnavailable"})) return std::nullopt;
  return json::Object{{"minAvailable", *bound}, {"maxUnavailable", nullptr}};
}

// As slurm-operator's writes are signed.
constexpr std::string_view kItsManager = "manager";

}  // namespace

json::Value stamped(json::Value wanted) {
  const std::string stamp = canonical_hash(wanted);
  json::at_or_create(wanted, {"metadata", "annotations", kStamp}) = stamp;
  return wanted;
}

std::string digest_of(const json::Value& live) {
  json::Value copy = live;
  json::Object& object = copy.get_object();
  for (const char* key : {"status", "apiVersion", "kind"}) object.erase(key);
  if (json::Value* meta = json::find(copy, {"metadata"}); meta && meta->is_object()) {
    for (const char* key : {"resourceVersion", "generation", "managedFields"}) meta->get_object().erase(key);
  }
  return canonical_hash(copy);
}

bool covers(const json::Value& live, const json::Value& wanted) {
  json::Value part = wanted;
  // Items of a list come without.
  for (const char* key : {"apiVersion", "kind"}) {
    if (part.is_object()) part.get_object().erase(key);
  }
  return kube::covers(live, part);
}

bool is_unseen(const Applied& last, const json::Value* cached) {
  // One that changed nothing is never seen.
  if (last.after.empty() || last.after == last.before) return false;
  return last.before == (cached ? json::string_at(*cached, {"metadata", "resourceVersion"}) : std::string_view());
}

std::optional<json::Array> taken_over_fields(const json::Value& live) {
  const json::Array* entries = json::array_at(live, {"metadata", "managedFields"});
  if (!entries) return std::nullopt;
  json::Array out = *entries;
  bool found = false;
  for (json::Value& entry : out) {
    const std::string_view operation = json::string_at(entry, {"operation"});
    // A manager has one entry of applications: if ours is there, the take-over is done.
    if (operation == "Apply" && json::string_at(entry, {"manager"}) == kFieldManager) return std::nullopt;
    if (found || operation != "Update" || json::string_at(entry, {"manager"}) != kItsManager ||
        !json::string_at(entry, {"subresource"}).empty()) {
      continue;
    }
    json::Object& fields = entry.get_object();
    fields["manager"] = kFieldManager;
    fields["operation"] = "Apply";
    found = true;
  }
  if (!found) return std::nullopt;
  return out;
}

std::optional<json::Value> patch_before(const json::Value& wanted, const json::Value& live) {
  const std::string_view kind = json::string_at(wanted, {"kind"});
  std::optional<json::Object> spec;
  if (kind == "Deployment") spec = recreate_patch(wanted, live);
  if (kind == "PodDisruptionBudget") spec = bound_patch(wanted, live);
  if (!spec) return std::nullopt;
  // Of this object, not of a later one of its name.
  return json::Object{{"metadata", json::Object{{"uid", json::string_at(live, {"metadata", "uid"})}}},
                      {"spec", *std::move(spec)}};
}

bool is_ours(const json::Value& wanted, const json::Value& live) {
  const json::Value* controller = controller_of(live);
  if (const json::Value* mine = controller_of(wanted)) {
    return controller && json::string_at(*controller, {"uid"}) == json::string_at(*mine, {"uid"});
  }
  if (controller) return false;
  if (owners_of(wanted).empty()) return false;
  const json::Value& pattern = owners_of(wanted).front();
  return std::ranges::any_of(owners_of(live), [&](const json::Value& owner) {
    return json::string_at(owner, {"kind"}) == json::string_at(pattern, {"kind"}) &&
           json::string_at(owner, {"apiVersion"}) == json::string_at(pattern, {"apiVersion"});
  });
}

void adopt_owners(const json::Value& wanted, json::Value& live) {
  json::Array owners;
  for (const json::Value& owner : owners_of(live)) {
    if (!json::bool_at(owner, {"controller"})) owners.push_back(owner);
  }
  const json::Array& ours = owners_of(wanted);
  owners.insert(owners.end(), ours.begin(), ours.end());
  json::at_or_create(live, {"metadata", "ownerReferences"}) = std::move(owners);
}

Verdict judge(const json::Value& wanted, const json::Value* live, const Applied& last, TimePoint now) {
  if (!live) return Verdict::kCreate;
  if (!json::string_at(*live, {"metadata", "deletionTimestamp"}).empty()) return Verdict::kGoing;
  if (is_token_of_slurm_operator(wanted, *live)) return Verdict::kAdopt;
  if (!is_ours(wanted, *live)) {
    return is_ours_by_mark(wanted, *live) ? Verdict::kAdopt : Verdict::kForeign;
  }
  if (cannot_be_changed(wanted, *live)) return Verdict::kRecreate;
  const std::string_view stamp = stamp_of(wanted);
  const bool known = last.stamp == stamp;
  if (stamp_of(*live) == stamp && (covers(*live, wanted) || (known && last.digest == digest_of(*live)))) {
    return Verdict::kKeep;
  }
  // What is cached may be from before our own write. Not for ever: etcd may have been restored to what was then.
  if (known && !last.before.empty() && last.before == json::string_at(*live, {"metadata", "resourceVersion"})) {
    return now - last.at < kBehind ? Verdict::kKeep : Verdict::kAsk;
  }
  return Verdict::kApply;
}

}  // namespace bascule::op::reconcile
