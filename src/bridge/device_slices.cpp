#include "bridge/device_slices.hpp"

#include <fmt/format.h>

#include "json/value.hpp"
#include "kube/decode.hpp"

namespace bascule::bridge {

namespace {

const json::Array& items(const json::Value& value, json::Path path) {
  static const json::Array kNone;
  const json::Array* list = json::array_at(value, path);
  return list == nullptr ? kNone : *list;
}

Device read_device(const json::Value& value, std::string_view driver) {
  Device device{std::string(json::string_at(value, {"name"})), {}};
  for (const json::Value& taint : items(value, {"taints"})) {
    const std::string_view effect = json::string_at(taint, {"effect"});
    // Others, as None, are for people.
    if (effect == "NoSchedule" || effect == "NoExecute") device.taint = json::string_at(taint, {"key"});
  }
  for (const json::Value& consumed : items(value, {"consumesCounters"})) {
    device.counter_sets.emplace_back(json::string_at(consumed, {"counterSet"}));
  }
  const json::Object* attributes = json::object_at(value, {"attributes"});
  if (attributes == nullptr) return device;
  for (const auto& [key, attribute] : *attributes) {
    std::string name(key.data(), key.size());
    if (name.find('/') == std::string::npos) name = fmt::format("{}/{}", driver, name);
    if (const auto number = json::int_at(attribute, {"int"})) {
      device.attributes.emplace(std::move(name), *number);
    } else if (const json::Value* flag = json::find(attribute, {"bool"}); flag != nullptr && flag->is_bool()) {
      device.attributes.emplace(std::move(name), flag->get_bool());
    } else if (json::find(attribute, {"string"}) != nullptr) {
      device.attributes.emplace(std::move(name), std::string(json::string_at(attribute, {"string"})));
    } else if (json::find(attribute, {"version"}) != nullptr) {
      device.attributes.emplace(std::move(name), std::string(json::string_at(attribute, {"version"})));
    }
  }
  return device;
}

// Claims and classes carry parameters of drivers, any JSON as deep as it likes: they are passed over unread.
using json::hot::Value;

// f(Value) for the field `name` of an object, if it is there.
template <class F>
void within(Value object, std::string_view name, F&& f) {
  object.fields([&](std::string_view key, Value field) {
    if (key == name) f(field);
  });
}

}  // namespace

SlicePtr decode_slice(std::string_view text, json::Interner& interner) {
  auto slice = std::make_shared<ResourceSlice>();
  slice->meta = kube::decode_object_meta(text, interner);
  const json::Value value = json::parse(text);
  slice->driver = json::string_at(value, {"spec", "driver"});
  slice->pool = json::string_at(value, {"spec", "pool", "name"});
  slice->node = json::string_at(value, {"spec", "nodeName"});
  slice->generation = json::int_at(value, {"spec", "pool", "generation"}).value_or(0);
  slice->slices = json::int_at(value, {"spec", "pool", "resourceSliceCount"}).value_or(1);
  for (const json::Value& device : items(value, {"spec", "devices"})) {
    slice->devices.push_back(read_device(device, slice->driver));
  }
  return slice;
}

ClassPtr decode_class(std::string_view text, json::Interner& interner) {
  auto device_class = std::make_shared<DeviceClass>();
  json::hot::parse(text, [&](std::string_view key, Value value) {
    if (key == "metadata") return kube::decode_meta(value, interner, device_class->meta);
    if (key != "spec") return;
    within(value, "selectors", [&](Value selectors) {
      selectors.items([&](Value selector) {
        std::string& expression = device_class->selectors.emplace_back();
        within(selector, "cel", [&](Value cel) {
          within(cel, "expression", [&](Value text_of) { expression = kube::owned(text_of); });
        });
      });
    });
  });
  return device_class;
}

namespace {

void read_results(Value results, std::vector<DeviceId>& devices) {
  results.items([&](Value result) {
    DeviceId device;
    bool beside = false;  // access for administration is beside the one who holds the device
    result.fields([&](std::string_view key, Value field) {
      if (key == "adminAccess") {
        beside = field.boolean().value_or(false);
      } else if (key == "driver") {
        device.driver = kube::owned(field);
      } else if (key == "pool") {
        device.pool = kube::owned(field);
      } else if (key == "device") {
        device.name = kube::owned(field);
      }
    });
    if (!beside) devices.push_back(std::move(device));
  });
}

void read_status(Value status, ResourceClaim& claim) {
  status.fields([&](std::string_view key, Value value) {
    if (key == "allocation") {
      claim.allocated = value.is_object();
      within(value, "devices", [&](Value devices) {
        within(devices, "results", [&](Value results) { read_results(results, claim.devices); });
      });
    } else if (key == "reservedFor") {
      value.items([&](Value user) {
        within(user, "uid", [&](Value uid) { claim.reserved_for.emplace_back(kube::owned(uid)); });
      });
    }
  });
}

}  // namespace

ClaimPtr decode_claim(std::string_view text, json::Interner& interner) {
  auto claim = std::make_shared<ResourceClaim>();
  json::hot::parse(text, [&](std::string_view key, Value value) {
    if (key == "metadata") return kube::decode_meta(value, interner, claim->meta);
    if (key == "status") read_status(value, *claim);
  });
  for (const kube::OwnerReference& owner : claim->meta.owners) {
    if (!owner.controller || owner.kind != "Pod" || owner.api_version != "v1") continue;
    claim->pod = owner.uid;
    claim->pod_name = owner.name.str();
  }
  return claim;
}

bool serves_others(const ResourceClaim& claim) {
  return std::ranges::any_of(claim.reserved_for, [&claim](const Uid& user) { return user != claim.pod; });
}

}  // namespace bascule::bridge
