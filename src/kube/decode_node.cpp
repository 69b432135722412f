#include "kube/decode.hpp"

namespace bascule::kube {

namespace {

Taint decode_taint(Value value, json::Interner& interner) {
  Taint taint;
  value.fields([&](std::string_view key, Value field) {
    if (key == "key") {
      taint.key = interned(field, interner);
    } else if (key == "value") {
      taint.value = interned(field, interner);
    } else if (key == "effect") {
      taint.effect = interned(field, interner);
    }
  });
  return taint;
}

void decode_address(Value value, Node& node) {
  bool internal = false;
  std::string_view address;
  value.fields([&](std::string_view key, Value field) {
    if (key == "type") {
      internal = field.string() == "InternalIP";
    } else if (key == "address") {
      address = field.string().value_or(std::string_view());
    }
  });
  if (internal && node.internal_ip.empty()) node.internal_ip = address;
}

void decode_spec(Value value, json::Interner& interner, Node& node) {
  value.fields([&](std::string_view key, Value field) {
    if (key == "unschedulable") {
      node.unschedulable = field.boolean().value_or(false);
    } else if (key == "taints") {
      field.items([&](Value item) { node.taints.push_back(decode_taint(item, interner)); });
    }
  });
}

bool is_kubelets(std::string_view condition) {
  return condition == "MemoryPressure" || condition == "DiskPressure" || condition == "PIDPressure" ||
         condition == "NetworkUnavailable";
}

void decode_status(Value value, json::Interner& interner, Node& node) {
  value.fields([&](std::string_view key, Value field) {
    if (key == "capacity") {
      decode_resources(field, interner, node.capacity);
    } else if (key == "allocatable") {
      decode_resources(field, interner, node.allocatable);
    } else if (key == "addresses") {
      field.items([&](Value item) { decode_address(item, node); });
    } else if (key == "conditions") {
      field.items([&](Value item) {
        NamedCondition read = decode_condition(item, interner);
        if (read.type == "Ready") {
          node.ready = std::move(read.condition);
        } else if (!is_kubelets(read.type)) {
          node.conditions.emplace_back(interner(read.type), std::move(read.condition));
        }
      });
    }
  });
}

}  // namespace

std::shared_ptr<const Node> decode_node(std::string_view text, json::Interner& interner) {
  auto node = std::make_shared<Node>();
  json::hot::parse(text, [&](std::string_view key, Value value) {
    if (key == "metadata") {
      decode_meta(value, interner, node->meta);
    } else if (key == "spec") {
      decode_spec(value, interner, *node);
    } else if (key == "status") {
      decode_status(value, interner, *node);
    }
  });
  return node;
}

}  // namespace bascule::kube
