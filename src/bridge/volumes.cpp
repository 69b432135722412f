#include "bridge/volumes.hpp"

#include <algorithm>

#include "base/quantity.hpp"

namespace bascule::bridge {

namespace {

constexpr std::string_view kSelectedNode = "volume.kubernetes.io/selected-node";
constexpr std::string_view kNoProvisioner = "kubernetes.io/no-provisioner";
constexpr std::string_view kZoneLabels[] = {"topology.kubernetes.io/zone", "topology.kubernetes.io/region",
                                            "failure-domain.beta.kubernetes.io/zone",
                                            "failure-domain.beta.kubernetes.io/region"};

std::string_view class_of(const kube::DynamicObject& object) {
  const std::string_view old = kube::value_or(object.meta.annotations, "volume.beta.kubernetes.io/storage-class");
  return old.empty() ? json::string_at(object.value, {"spec", "storageClassName"}) : old;
}
std::string_view volume_of(const kube::DynamicObject& claim) {
  return json::string_at(claim.value, {"spec", "volumeName"});
}
bool is_bound(const kube::DynamicObject& claim) {
  return !volume_of(claim).empty() && kube::find(claim.meta.annotations, "pv.kubernetes.io/bind-completed") != nullptr;
}
bool waits_for_consumer(const kube::DynamicObject& storage_class) {
  return json::string_at(storage_class.value, {"volumeBindingMode"}) == "WaitForFirstConsumer";
}

// Several zones of one volume are joined by "__".
std::vector<std::string> zones(std::string_view text) {
  std::vector<std::string> out;
  while (true) {
    const std::size_t end = text.find("__");
    out.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    text.remove_prefix(end + 2);
  }
}

// Empty: any node.
std::vector<std::vector<AffinityTerm>> places_of(const kube::DynamicObject& volume) {
  std::vector<std::vector<AffinityTerm>> out;
  if (const json::Value* required = json::find(volume.value, {"spec", "nodeAffinity", "required"})) {
    out.push_back(affinity_terms(*required));
  }
  for (const std::string_view key : kZoneLabels) {
    const std::string_view zone = kube::value_or(volume.meta.labels, key);
    if (!zone.empty()) out.push_back({AffinityTerm{{{std::string(key), "In", zones(zone)}}, {}}});
  }
  return out;
}
// The same as one list of which a node must hold one term; a term of it holds all that one volume asks for.
std::vector<AffinityTerm> joined(const std::vector<std::vector<AffinityTerm>>& places) {
  std::vector<AffinityTerm> out{AffinityTerm{}};
  for (const std::vector<AffinityTerm>& terms : places) {
    std::vector<AffinityTerm> both;
    for (const AffinityTerm& so_far : out) {
      for (const AffinityTerm& term : terms) {
        AffinityTerm& one = both.emplace_back(so_far);
        std::ranges::copy(term.labels, std::back_inserter(one.labels));
        std::ranges::copy(term.fields, std::back_inserter(one.fields));
      }
    }
    out = std::move(both);
  }
  return out;
}
bool may_be_on(const kube::DynamicObject& volume, const kube::Node& node) {
  return std::ranges::all_of(places_of(volume), [&](const auto& terms) { return holds_any(terms, node); });
}

// allowedTopologies: [{matchLabelExpressions: [{key, values}]}]; any will do.
std::vector<AffinityTerm> topologies_of(const kube::DynamicObject& storage_class) {
  std::vector<AffinityTerm> out;
  const json::Array* list = json::array_at(storage_class.value, {"allowedTopologies"});
  if (list == nullptr) return out;
  for (const json::Value& item : *list) {
    AffinityTerm& term = out.emplace_back();
    const json::Array* expressions = json::array_at(item, {"matchLabelExpressions"});
    if (expressions == nullptr) continue;
    for (const json::Value& one : *expressions) {
      AffinityExpression& e = term.labels.emplace_back();
      e.key = json::string_at(one, {"key"});
      e.op = "In";
      const json::Array* values = json::array_at(one, {"values"});
      for (std::size_t i = 0; values != nullptr && i < values->size(); ++i) {
        if ((*values)[i].is_string()) e.values.emplace_back(json::view((*values)[i].as_string()));
      }
    }
  }
  return out;
}

Quantity storage(const json::Value& value, std::initializer_list<std::string_view> path) {
  return Quantity::parse(json::string_at(value, path)).value_or(Quantity(0));
}

bool has_modes(const kube::DynamicObject& volume, const kube::DynamicObject& claim) {
  const json::Array* wanted = json::array_at(claim.value, {"spec", "accessModes"});
  const json::Array* offered = json::array_at(volume.value, {"spec", "accessModes"});
  const std::string_view block = "Filesystem";
  if (json::string_at(volume.value, {"spec", "volumeMode"}, block) !=
      json::string_at(claim.value, {"spec", "volumeMode"}, block)) {
    return false;
  }
  return wanted == nullptr || (offered != nullptr && std::ranges::all_of(*wanted, [&](const json::Value& mode) {
                                 return std::ranges::find(*offered, mode) != offered->end();
                               }));
}

template <class Map, class Key>
void put(Map& map, const ObjectPtr& before, const ObjectPtr& after, Key key_of) {
  if (before) map.erase(key_of(*before));
  if (after) map.insert_or_assign(key_of(*after), after);
}

}  // namespace

bool holds_any(const std::vector<AffinityTerm>& terms, const kube::Node& node) {
  return std::ranges::any_of(terms, [&](const AffinityTerm& term) { return holds(term, node); });
}

void Volumes::on_claim(const ObjectPtr& before, const ObjectPtr& after) {
  put(claims_, before, after, [](const kube::DynamicObject& object) { return object.meta.key; });
}
void Volumes::on_volume(const ObjectPtr& before, const ObjectPtr& after) {
  put(volumes_, before, after, [](const kube::DynamicObject& object) { return object.meta.key.name; });
}
void Volumes::on_class(const ObjectPtr& before, const ObjectPtr& after) {
  put(classes_, before, after, [](const kube::DynamicObject& object) { return object.meta.key.name; });
}

void Volumes::on_csi_node(const ObjectPtr& before, const ObjectPtr& after) {
  const std::string& node = (after ? after : before)->meta.key.name;
  std::map<std::string, std::int64_t> limits;
  if (const json::Array* drivers = after ? json::array_at(after->value, {"spec", "drivers"}) : nullptr) {
    for (const json::Value& driver : *drivers) {
      const auto count = json::int_at(driver, {"allocatable", "count"});
      if (count) limits[std::string(json::string_at(driver, {"name"}))] = *count;
    }
  }
  auto& known = limits_[node];
  const bool same = known == limits;
  known = std::move(limits);
  if (known.empty()) limits_.erase(node);
  if (!same && on_limits) on_limits(node);
}

void Volumes::attach(const NamespacedName& claim, Attached& to) const {
  const auto found = claims_.find(claim);
  if (found == claims_.end()) return;
  const kube::DynamicObject& one = *found->second;
  if (const auto volume = volumes_.find(volume_of(one)); volume != volumes_.end()) {
    const std::string driver(json::string_at(volume->second->value, {"spec", "csi", "driver"}));
    const std::string_view handle = json::string_at(volume->second->value, {"spec", "csi", "volumeHandle"});
    if (!driver.empty()) to[driver].emplace(handle);
  } else if (const auto its_class = classes_.find(class_of(one)); its_class != classes_.end()) {
    const std::string driver(json::string_at(its_class->second->value, {"provisioner"}));
    if (driver != kNoProvisioner) to[driver].insert("claim " + claim.str());
  }
}

void Volumes::on_attachment(const ObjectPtr& before, const ObjectPtr& after) {
  const auto node_of = [](const ObjectPtr& one) {
    return std::string(json::string_at(one->value, {"spec", "nodeName"}));
  };
  if (before) {
    const auto there = standing_.find(node_of(before));
    if (there != standing_.end() && there->second.erase(before->meta.key.name) > 0 && there->second.empty()) {
      standing_.erase(there);
    }
  }
  if (after) standing_[node_of(after)].insert_or_assign(after->meta.key.name, after);
}

void Volumes::attach_standing(const std::string& kube_node, Attached& to) const {
  const auto there = standing_.find(kube_node);
  if (there == standing_.end()) return;
  for (const auto& [name, attachment] : there->second) {
    const std::string driver(json::string_at(attachment->value, {"spec", "attacher"}));
    const auto volume = volumes_.find(json::string_at(attachment->value, {"spec", "source", "persistentVolumeName"}));
    const std::string_view handle =
        volume == volumes_.end() ? "" : json::string_at(volume->second->value, {"spec", "csi", "volumeHandle"});
    // One that is known by its attachment alone has no pod here, so nothing counts it twice.
    to[driver].insert(handle.empty() ? "attachment " + name : std::string(handle));
  }
}

Volumes::Attached Volumes::attached_by(const kube::Pod& pod) const {
  Attached out;
  for (const auto& name : pod.claims) attach({pod.meta.key.ns, std::string(name.view())}, out);
  return out;
}

std::string Volumes::excess(const Attached& wanted, const Attached& there, const std::string& kube_node) const {
  const auto limits = limits_.find(kube_node);
  if (limits == limits_.end()) return {};
  for (const auto& [driver, volumes] : wanted) {
    const auto limit = limits->second.find(driver);
    if (limit == limits->second.end()) continue;
    const auto used = there.find(driver);
    std::set<std::string> all = used == there.end() ? std::set<std::string>{} : used->second;
    const std::size_t before = all.size();
    all.insert(volumes.begin(), volumes.end());
    if (all.size() > before && std::cmp_greater(all.size(), limit->second)) {
      return "volumes of " + driver + " (limit " + std::to_string(limit->second) + ")";
    }
  }
  return {};
}

const kube::DynamicObject* Volumes::claim(const std::string& ns, std::string_view name) const {
  const auto it = claims_.find(NamespacedName{ns, std::string(name)});
  return it == claims_.end() ? nullptr : it->second.get();
}

std::vector<ObjectPtr> Volumes::free_volumes(const kube::DynamicObject& claim) const {
  std::vector<ObjectPtr> out;
  const Quantity size = storage(claim.value, {"spec", "resources", "requests", "storage"});
  const json::Value* selector = json::find(claim.value, {"spec", "selector"});
  for (const auto& [name, volume] : volumes_) {
    const std::string_view owner = json::string_at(volume->value, {"spec", "claimRef", "uid"});
    const bool is_its = json::string_at(volume->value, {"spec", "claimRef", "name"}) == claim.meta.key.name &&
                        json::string_at(volume->value, {"spec", "claimRef", "namespace"}) == claim.meta.key.ns &&
                        (owner.empty() || owner == claim.meta.uid.str());
    const bool is_free = json::find(volume->value, {"spec", "claimRef"}) == nullptr &&
                         json::string_at(volume->value, {"status", "phase"}, "Available") == "Available";
    if ((!is_free && !is_its) || volume->meta.deleted || class_of(*volume) != class_of(claim)) continue;
    if (selector != nullptr && !is_its && !selects(*selector, volume->meta.labels)) continue;
    if (!has_modes(*volume, claim) || storage(volume->value, {"spec", "capacity", "storage"}) < size) continue;
    out.push_back(volume);
  }
  std::ranges::sort(out, [](const ObjectPtr& a, const ObjectPtr& b) {
    const Quantity x = storage(a->value, {"spec", "capacity", "storage"});
    const Quantity y = storage(b->value, {"spec", "capacity", "storage"});
    return x == y ? a->meta.key.name < b->meta.key.name : x < y;
  });
  return out;
}

Volumes::Needs Volumes::needs_of(const kube::Pod& pod) const {
  Needs needs;
  if (pod.claims.empty() || !known_) return needs;
  if (!*known_) return {"the claims of the cluster are not known yet", {}};
  for (const auto& name : pod.claims) {
    const kube::DynamicObject* one = claim(pod.meta.key.ns, name.view());
    const std::string called = "PersistentVolumeClaim " + std::string(name.view());
    if (one == nullptr) return {called + " does not exist", {}};
    if (one->meta.deleted) return {called + " is being deleted", {}};
    if (json::string_at(one->value, {"status", "phase"}) == "Lost") return {called + " has lost its volume", {}};
    if (is_bound(*one)) {
      const auto volume = volumes_.find(volume_of(*one));
      if (volume == volumes_.end()) return {called + " is bound to a volume that does not exist", {}};
      std::ranges::move(places_of(*volume->second), std::back_inserter(needs.alternatives));
      continue;
    }
    if (const std::string_view named = volume_of(*one); !named.empty()) {
      return {called + " has no volume yet: it names " + std::string(named), {}};
    }
    const auto its_class = classes_.find(class_of(*one));
    if (its_class == classes_.end() || !waits_for_consumer(*its_class->second)) {
      return {called + " has no volume yet", {}};
    }
    std::vector<AffinityTerm> terms;
    bool anywhere = false;
    for (const ObjectPtr& volume : free_volumes(*one)) {
      const auto places = places_of(*volume);
      anywhere = anywhere || places.empty();
      if (!places.empty()) std::ranges::move(joined(places), std::back_inserter(terms));
    }
    if (json::string_at(its_class->second->value, {"provisioner"}) == kNoProvisioner) {
      const bool has_selector = json::find(one->value, {"spec", "selector"}) != nullptr;
      if (!anywhere && terms.empty()) {
        return {called + " finds no free volume of its class that is large enough" +
                    (has_selector ? " and matches its selector" : ""),
                {}};
      }
    } else {
      std::vector<AffinityTerm> allowed = topologies_of(*its_class->second);
      anywhere = anywhere || allowed.empty();
      std::ranges::move(allowed, std::back_inserter(terms));
    }
    if (!anywhere) needs.alternatives.push_back(std::move(terms));
  }
  return needs;
}

Volumes::Binding Volumes::binding_of(const kube::Pod& pod, const kube::Node& node) const {
  Binding out;
  out.node = node.meta.key.name;
  std::set<std::string> taken;
  if (!known_) return out;
  for (const auto& name : pod.claims) {
    const auto found = claims_.find(NamespacedName{pod.meta.key.ns, std::string(name.view())});
    if (found == claims_.end()) {
      out.problem = "has not the PersistentVolumeClaim " + std::string(name.view()) + " of the pod";
      return out;
    }
    const kube::DynamicObject& one = *found->second;
    if (is_bound(one)) continue;
    out.waits = true;
    if (!volume_of(one).empty()) continue;  // Kubernetes' own to bind, to the volume that it names
    const auto has = [&](const ObjectPtr& volume) {
      return may_be_on(*volume, node) && !taken.contains(volume->meta.key.name);
    };
    const std::vector<ObjectPtr> free = free_volumes(one);
    const auto volume = std::ranges::find_if(free, has);
    const auto its_class = classes_.find(class_of(one));
    if (volume != free.end()) {
      taken.insert((*volume)->meta.key.name);
      if (json::find((*volume)->value, {"spec", "claimRef", "uid"}) == nullptr)
        out.takes.push_back({*volume, found->second});
    } else if (its_class == classes_.end() ||
               json::string_at(its_class->second->value, {"provisioner"}) == kNoProvisioner) {
      out.problem = "has no free volume for PersistentVolumeClaim " + std::string(name.view());
      return out;
    } else if (kube::value_or(one.meta.annotations, kSelectedNode) != node.meta.key.name) {
      out.provisions.push_back(found->second);
    }
  }
  return out;
}

}  // namespace bascule::bridge
