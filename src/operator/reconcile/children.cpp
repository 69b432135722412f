#include "operator/reconcile/children.hpp"

#include <algorithm>
#include <array>

#include "base/log.hpp"
#include "operator/api/resources.hpp"

namespace bascule::op::reconcile {

namespace {

NamespacedName key_of(const json::Value& object) {
  return {std::string(json::string_at(object, {"metadata", "namespace"})),
          std::string(json::string_at(object, {"metadata", "name"}))};
}

const std::array kCustomKinds{&kControllers, &kAccountings, &kRestApis, &kLoginSets, &kNodeSets, &kTokens};

std::string memory_key(const kube::Resource& resource, const NamespacedName& key) {
  return resource.resource + "/" + key.str();
}

}  // namespace

bool is_owned_by(const json::Value& object, std::string_view uid) {
  const json::Array* owners = json::array_at(object, {"metadata", "ownerReferences"});
  if (!owners) return false;
  for (const json::Value& owner : *owners) {
    if (json::bool_at(owner, {"controller"}) && json::string_at(owner, {"uid"}) == uid) return true;
  }
  return false;
}

Task<Children::Live> Children::look(const kube::Resource& resource, NamespacedName key, std::stop_token stop) {
  if (ObjectPtr kept = caches_.get(resource, key)) co_return Live{.kept = std::move(kept)};
  co_return co_await ask(resource, key, stop);
}

Task<Children::Live> Children::ask(const kube::Resource& resource, NamespacedName key, std::stop_token stop) {
  Live live;
  try {
    live.read = co_await kube_.get(resource, key, {}, stop);
  } catch (const kube::NotFound&) {
  } catch (const kube::NotServed&) {
    live.served = false;
  }
  co_return live;
}

Task<Outcome> Children::ensure(Child child, std::stop_token stop) {
  const kube::Resource& resource = *child.resource;
  const NamespacedName key = key_of(child.object);
  json::Value wanted = stamped(std::move(child.object));
  // Stays where it is while it is busy.
  Memory& memory = memory_[memory_key(resource, key)];
  while (memory.busy) {
    if (!co_await done_.wait(stop)) co_return Outcome::kAsItWas;
  }
  memory.busy = true;
  struct Release {
    Memory& memory;
    Bell& done;
    ~Release() {
      memory.busy = false;
      done.notify();
    }
  } const release{memory, done_};
  co_return co_await apply(resource, key, std::move(wanted), memory.applied, stop);
}

bool Children::is_unseen(const kube::Resource& resource, const NamespacedName& key) const {
  const auto found = memory_.find(memory_key(resource, key));
  if (found == memory_.end()) return false;
  const ObjectPtr cached = caches_.get(resource, key);
  return reconcile::is_unseen(found->second.applied, cached ? &cached->value : nullptr);
}

void Children::forget(const kube::Resource& resource, const NamespacedName& key) {
  const auto found = memory_.find(memory_key(resource, key));
  if (found != memory_.end() && !found->second.busy) found->second.applied = {};
}

Task<Outcome> Children::apply(const kube::Resource& resource, NamespacedName key, json::Value wanted, Applied& last,
                              std::stop_token stop) {
  Live live = co_await look(resource, key, stop);
  if (!live.served) co_return Outcome::kNotServed;
  Verdict verdict = judge(wanted, live.value(), last, kube_.loop().now());
  if (verdict == Verdict::kAsk) {
    live = co_await ask(resource, key, stop);
    if (!live.served) co_return Outcome::kNotServed;
    last.at = kube_.loop().now();  // a minute is good again
    Applied made = last;
    made.before.clear();
    verdict = judge(wanted, live.value(), made);
  }
  if (verdict == Verdict::kAdopt) {
    live.read = co_await adopt(resource, key, wanted, *live.value(), stop);
    live.kept = nullptr;
    if (live.read.is_null()) co_return Outcome::kGoing;
    verdict = judge(wanted, &live.read, {});
  }
  switch (verdict) {
    case Verdict::kAsk:  // has been done
    case Verdict::kKeep:
      co_return Outcome::kAsItWas;
    case Verdict::kAdopt:
    case Verdict::kForeign:
      co_return Outcome::kForeign;
    case Verdict::kGoing:
      co_return Outcome::kGoing;
    case Verdict::kRecreate: {
      may_act_();
      const Uid uid{json::string_at(*live.value(), {"metadata", "uid"})};
      const bool has_pods = &resource == &kStatefulSets;
      log::info("a child cannot be changed and is made anew", {{"kind", resource.kind}, {"object", key.str()}});
      try {
        co_await kube_.remove(resource, key, {.uid = uid, .propagation = has_pods ? "Orphan" : "Background"}, stop);
      } catch (const kube::NotFound&) {
      }
      co_return Outcome::kGoing;
    }
    case Verdict::kCreate:
    case Verdict::kApply:
      break;
  }
  const bool create = verdict == Verdict::kCreate;
  if (!create && !json::find(*live.value(), {"metadata", "annotations", kStamp})) {
    co_await take_over(resource, key, stop);
  }
  if (std::optional<json::Value> first = create ? std::nullopt : patch_before(wanted, *live.value())) {
    may_act_();
    co_await kube_.patch(resource, key, kube::PatchType::kMerge, *std::move(first), {},
                         {.field_manager = std::string(kFieldManager)}, stop);
  }
  Applied next{.stamp = std::string(json::string_at(wanted, {"metadata", "annotations", kStamp})),
               .at = kube_.loop().now()};
  if (!create) next.before = json::string_at(*live.value(), {"metadata", "resourceVersion"});
  json::Value patch = wanted;
  // Of this object, not of a later one of its name.
  if (!create) json::at_or_create(patch, {"metadata", "uid"}) = json::string_at(*live.value(), {"metadata", "uid"});
  may_act_();
  const json::Value made = co_await kube_.patch(resource, key, kube::PatchType::kApply, std::move(patch), {},
                                                {.field_manager = std::string(kFieldManager), .force = !create}, stop);
  next.after = json::string_at(made, {"metadata", "resourceVersion"});
  next.digest = digest_of(made);
  last = std::move(next);
  log::info(create ? "child created" : "child changed", {{"kind", resource.kind}, {"object", key.str()}});
  co_return create ? Outcome::kCreated : Outcome::kChanged;
}

// The API server's own word: each of the owners to be is there, and stays. What a Controller that goes would get back
// after the garbage collector has taken it out of its hands, would go with it.
Task<bool> Children::owners_stay(std::string ns, json::Array owners, std::stop_token stop) {
  for (const json::Value& owner : owners) {
    const auto kind = std::ranges::find(kCustomKinds, json::string_at(owner, {"kind"}),
                                        [](const kube::Resource* one) { return std::string_view(one->kind); });
    if (kind == kCustomKinds.end()) co_return false;
    try {
      const NamespacedName name{ns, std::string(json::string_at(owner, {"name"}))};
      const json::Value object = co_await kube_.get(**kind, name, {}, stop);
      if (json::string_at(object, {"metadata", "uid"}) != json::string_at(owner, {"uid"}) ||
          json::find(object, {"metadata", "deletionTimestamp"})) {
        co_return false;
      }
    } catch (const kube::NotFound&) {
      co_return false;
    }
  }
  co_return true;
}

// What the API server made of it; null: not now.
Task<json::Value> Children::adopt(const kube::Resource& resource, NamespacedName key, json::Value wanted,
                                  json::Value live, std::stop_token stop) {
  const json::Array* owners = json::array_at(wanted, {"metadata", "ownerReferences"});
  const bool stay = owners && co_await owners_stay(key.ns, *owners, stop);
  if (!stay) co_return json::Value();
  adopt_owners(wanted, live);
  // Of this very version: somebody else may have taken it meanwhile.
  json::Object meta;
  for (const char* field : {"uid", "resourceVersion", "ownerReferences"}) {
    meta[field] = *json::find(live, {"metadata", field});
  }
  may_act_();
  json::Value made =
      co_await kube_.patch(resource, key, kube::PatchType::kMerge, json::Object{{"metadata", std::move(meta)}}, {},
                           {.field_manager = std::string(kFieldManager)}, stop);
  log::info("a child without an owner is taken over", {{"kind", resource.kind}, {"object", key.str()}});
  co_return made;
}

Task<> Children::take_over(const kube::Resource& resource, NamespacedName key, std::stop_token stop) {
  const json::Value live = co_await kube_.get(resource, key, {}, stop);
  std::optional<json::Array> fields = taken_over_fields(live);
  if (!fields) co_return;
  may_act_();
  // Of this very version: managedFields say who wrote what it says.
  json::Array patch{
      json::Object{{"op", "replace"},
                   {"path", "/metadata/resourceVersion"},
                   {"value", json::string_at(live, {"metadata", "resourceVersion"})}},
      json::Object{{"op", "replace"}, {"path", "/metadata/managedFields"}, {"value", *std::move(fields)}}};
  co_await kube_.patch(resource, key, kube::PatchType::kJson, std::move(patch), {},
                       {.field_manager = std::string(kFieldManager)}, stop);
  log::info("a child of slurm-operator's is taken over", {{"kind", resource.kind}, {"object", key.str()}});
}

Task<Outcome> Children::remove(const kube::Resource& resource, NamespacedName key, std::string owner_uid,
                               std::stop_token stop) {
  Live live;
  live.kept = caches_.get(resource, key);
  // What is kept whole is not asked for.
  if (!live.kept && caches_.of(resource) == nullptr) live = co_await look(resource, key, stop);
  if (!live.served) co_return Outcome::kNotServed;
  if (!live.value()) co_return Outcome::kAsItWas;
  if (!is_owned_by(*live.value(), owner_uid)) co_return Outcome::kAsItWas;
  if (!json::string_at(*live.value(), {"metadata", "deletionTimestamp"}).empty()) co_return Outcome::kAsItWas;
  may_act_();
  try {
    co_await kube_.remove(resource, key, {.uid = Uid{json::string_at(*live.value(), {"metadata", "uid"})}}, stop);
  } catch (const kube::NotFound&) {
    co_return Outcome::kAsItWas;
  }
  forget(resource, key);
  log::info("child removed", {{"kind", resource.kind}, {"object", key.str()}});
  co_return Outcome::kRemoved;
}

Task<Outcome> Children::make_once(Child child, std::stop_token stop) {
  const kube::Resource& resource = *child.resource;
  const NamespacedName key = key_of(child.object);
  const Live live = co_await look(resource, key, stop);
  if (!live.served) co_return Outcome::kNotServed;
  if (live.value()) co_return Outcome::kAsItWas;
  may_act_();
  try {
    co_await kube_.create(resource, key.ns, std::move(child.object), {.field_manager = std::string(kFieldManager)},
                          stop);
  } catch (const kube::AlreadyExists&) {
    co_return Outcome::kAsItWas;
  }
  co_return Outcome::kCreated;
}

}  // namespace bascule::op::reconcile
