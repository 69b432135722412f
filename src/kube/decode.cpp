#include "kube/decode.hpp"

#include "base/time.hpp"
#include "kube/pod_resources.hpp"

namespace bascule::kube {

namespace {

constexpr std::string_view kLastApplied = "kubectl.kubernetes.io/last-applied-configuration";

void sort_by_key(StringMap& map) {
  const auto less = [](const auto& a, const auto& b) { return a.first.view() < b.first.view(); };
  if (!std::ranges::is_sorted(map, less)) std::ranges::sort(map, less);
}

OwnerReference decode_owner(Value value, json::Interner& interner) {
  OwnerReference owner;
  value.fields([&](std::string_view key, Value field) {
    if (key == "apiVersion") {
      owner.api_version = interned(field, interner);
    } else if (key == "kind") {
      owner.kind = interned(field, interner);
    } else if (key == "name") {
      owner.name = interned(field, interner);
    } else if (key == "uid") {
      owner.uid = Uid(field.string().value_or(""));
    } else if (key == "controller") {
      owner.controller = field.boolean().value_or(false);
    }
  });
  return owner;
}

std::optional<WallTime> decode_time(Value value) {
  const std::optional<std::string_view> text = value.string();
  if (!text) return std::nullopt;
  const std::optional<WallTime> time = parse_rfc3339(*text);
  if (!time) value.refuse("a time");
  return time;
}

StringMap decode_annotations(Value value, json::Interner& interner) {
  StringMap map;
  value.fields([&](std::string_view key, Value field) {
    if (key == kLastApplied) return;
    const std::string_view text = field.string().value_or(std::string_view());
    if (text.size() <= kMaxAnnotation) map.emplace_back(interner(key), interner(text));
  });
  sort_by_key(map);
  map.shrink_to_fit();
  return map;
}

}  // namespace

StringMap decode_strings(Value value, json::Interner& interner) {
  StringMap map;
  value.fields([&](std::string_view key, Value field) { map.emplace_back(interner(key), interned(field, interner)); });
  sort_by_key(map);
  map.shrink_to_fit();
  return map;
}

void decode_meta(Value value, json::Interner& interner, ObjectMeta& meta) {
  value.fields([&](std::string_view key, Value field) {
    if (key == "name") {
      meta.key.name = owned(field);
    } else if (key == "namespace") {
      meta.key.ns = owned(field);
    } else if (key == "uid") {
      meta.uid = Uid(field.string().value_or(""));
    } else if (key == "resourceVersion") {
      meta.resource_version = owned(field);
    } else if (key == "generation") {
      meta.generation = integer_or(field, 0);
    } else if (key == "labels") {
      meta.labels = decode_strings(field, interner);
    } else if (key == "annotations") {
      meta.annotations = decode_annotations(field, interner);
    } else if (key == "ownerReferences") {
      field.items([&](Value item) { meta.owners.push_back(decode_owner(item, interner)); });
    } else if (key == "finalizers") {
      field.items([&](Value item) { meta.finalizers.push_back(interned(item, interner)); });
    } else if (key == "creationTimestamp") {
      meta.created = decode_time(field).value_or(WallTime{});
    } else if (key == "deletionTimestamp") {
      meta.deleted = decode_time(field);
    } else if (key == "deletionGracePeriodSeconds") {
      meta.deletion_grace_seconds = field.integer();
    }
  });
}

void decode_resources(Value value, json::Interner& interner, ResourceList& list) {
  value.fields([&](std::string_view key, Value field) {
    const std::optional<std::string_view> text = field.scalar();
    if (!text) return;
    std::optional<Quantity> quantity = Quantity::parse(*text);
    if (!quantity) field.refuse("a quantity");
    list.emplace_back(interner(key), std::move(*quantity));
  });
  sort_by_name(list);
}

NamedCondition decode_condition(Value value, json::Interner& interner) {
  NamedCondition out;
  out.condition.present = true;
  value.fields([&](std::string_view key, Value field) {
    if (key == "type") {
      out.type = field.string().value_or(std::string_view());
    } else if (key == "status") {
      out.condition.status = interned(field, interner);
    } else if (key == "reason") {
      out.condition.reason = interned(field, interner);
    } else if (key == "message") {
      out.condition.message = interned(field, interner);
    }
  });
  return out;
}

ObjectMeta decode_object_meta(std::string_view text, json::Interner& interner) {
  ObjectMeta meta;
  json::hot::parse(text, [&](std::string_view key, Value value) {
    if (key == "metadata") decode_meta(value, interner, meta);
  });
  return meta;
}

ObjectMeta decode_identity(std::string_view text) {
  ObjectMeta meta;
  json::hot::parse(text, [&](std::string_view key, Value value) {
    if (key != "metadata") return;
    value.fields([&](std::string_view name, Value field) {
      if (name == "name") {
        meta.key.name = owned(field);
      } else if (name == "namespace") {
        meta.key.ns = owned(field);
      } else if (name == "uid") {
        meta.uid = Uid(field.string().value_or(""));
      } else if (name == "resourceVersion") {
        meta.resource_version = owned(field);
      }
    });
  });
  return meta;
}

std::shared_ptr<const DynamicObject> decode_dynamic(std::string_view text, json::Interner& interner) {
  auto object = std::make_shared<DynamicObject>();
  object->meta = decode_object_meta(text, interner);
  object->value = json::parse(text);
  if (json::Value* meta = json::find(object->value, {"metadata"}); meta != nullptr && meta->is_object()) {
    meta->as_object().erase("managedFields");
  }
  return object;
}

}  // namespace bascule::kube
