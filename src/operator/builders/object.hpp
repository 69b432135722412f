// What all child objects share: whose they are, their labels and annotations.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "json/value.hpp"
#include "operator/api/types.hpp"

namespace bascule::op {

// The custom resource that something is built for.
struct Subject {
  std::string_view kind;
  const Meta& meta;

  // Throws BadObject: "NodeSet slurm/gpu: FIELD WHAT".
  [[noreturn]] void fault(std::string_view field, std::string_view what) const;
};

inline Subject subject(const Controller& object) {
  return {"Controller", object.meta};
}
inline Subject subject(const Accounting& object) {
  return {"Accounting", object.meta};
}
inline Subject subject(const RestApi& object) {
  return {"RestApi", object.meta};
}
inline Subject subject(const LoginSet& object) {
  return {"LoginSet", object.meta};
}
inline Subject subject(const NodeSet& object) {
  return {"NodeSet", object.meta};
}
inline Subject subject(const Token& object) {
  return {"Token", object.meta};
}

// {a: b}, keys sorted.
json::Object to_json(const StringMap& map);

// Later ones win.
StringMap merged(std::initializer_list<const StringMap*> maps);

// Labels or annotations of a custom resource or template that go on to its children. Not those by which tools tell
// what they manage (they would take our children for theirs) and those that change with every release of a chart
// (they would roll every pod).
StringMap inheritable(const StringMap& map);

// As owner; with `controller` its only one.
json::Object owner_reference(const Subject& subject, bool controller = true);

struct ChildMeta {
  std::string name;
  StringMap labels;
  StringMap annotations;
};

// metadata of an object owned by the subject, in its namespace.
json::Object child_metadata(const Subject& subject, const ChildMeta& child);
// metadata of a pod template.
json::Object template_metadata(const StringMap& labels, const StringMap& annotations);

// The one rule for every child: from the custom resource, then from its part for this child, then ours.
ChildMeta child_meta(const Subject& subject, std::string name, const StringMap& part_labels,
                     const StringMap& part_annotations, const StringMap& own_labels);

json::Value config_map(const Subject& subject, const ChildMeta& meta, const StringMap& data);
// Of type Opaque, as `data` in base64 so that server-side apply owns every key.
json::Value secret(const Subject& subject, const ChildMeta& meta, const StringMap& data, bool immutable);

struct ServiceInput {
  ChildMeta meta;
  json::Value user_spec = json::Object{};  // a ServiceSpec; its externalIPs are never taken (CVE-2020-8554)
  StringMap selector;
  std::string_view port_name;  // also the target port
  std::int64_t port = 0;
  std::int64_t node_port = 0;  // 0: none
  bool headless = false;       // and with addresses of pods that are not ready
};
// Throws BadObject when ports of the user's collide with ours or each other.
json::Value service(const Subject& subject, ServiceInput input);

}  // namespace bascule::op
