// Objects of dynamic resource allocation as their drivers publish them, for tests.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "bridge/device_slices.hpp"
#include "json/value.hpp"

namespace bascule::bridge::testing {

struct SliceSpec {
  std::string name;
  std::string node = "n1";
  std::string driver = "gpu.example.com";
  std::string pool = {};  // empty: the node's name and "-pool"
  int generation = 1;
  int slices = 1;
  json::Array devices = {};
};

inline json::Value make_slice(const SliceSpec& spec) {
  const std::string pool = spec.pool.empty() ? spec.node + "-pool" : spec.pool;
  return json::Object{
      {"apiVersion", "resource.k8s.io/v1"},
      {"kind", "ResourceSlice"},
      {"metadata", json::Object{{"name", spec.name}}},
      {"spec",
       json::Object{
           {"driver", spec.driver},
           {"nodeName", spec.node},
           {"pool", json::Object{{"name", pool}, {"generation", spec.generation}, {"resourceSliceCount", spec.slices}}},
           {"devices", spec.devices}}}};
}

// Devices gpu-FIRST ... with the attribute `index`, as the example driver has it.
inline json::Array make_gpus(int first, int count) {
  json::Array out;
  for (int i = first; i < first + count; ++i) {
    out.push_back(json::Object{{"name", fmt::format("gpu-{}", i)},
                               {"attributes", json::Object{{"index", json::Object{{"int", i}}}}}});
  }
  return out;
}

struct CpuSpec {
  int cpu = 0;
  int core = 0;
  int socket = 0;
  int type = 1;
};
inline json::Array make_cpus(const std::vector<CpuSpec>& cpus) {
  json::Array out;
  for (const CpuSpec& one : cpus) {
    out.push_back(json::Object{{"name", fmt::format("cpu{}", one.cpu)},
                               {"attributes", json::Object{{"dra.cpu/cpuID", json::Object{{"int", one.cpu}}},
                                                           {"dra.cpu/coreID", json::Object{{"int", one.core}}},
                                                           {"dra.cpu/socketID", json::Object{{"int", one.socket}}},
                                                           {"dra.cpu/coreType", json::Object{{"int", one.type}}}}}});
  }
  return out;
}

inline json::Value make_class(const std::string& name, const std::string& selector = {}) {
  json::Array selectors;
  if (!selector.empty()) selectors.push_back(json::Object{{"cel", json::Object{{"expression", selector}}}});
  return json::Object{{"apiVersion", "resource.k8s.io/v1"},
                      {"kind", "DeviceClass"},
                      {"metadata", json::Object{{"name", name}}},
                      {"spec", json::Object{{"selectors", selectors}}}};
}

inline SlicePtr slice(const SliceSpec& spec, json::Interner& interner) {
  return decode_slice(json::dump(make_slice(spec)), interner);
}
inline ClassPtr device_class(const std::string& name, json::Interner& interner, const std::string& selector = {}) {
  return decode_class(json::dump(make_class(name, selector)), interner);
}

}  // namespace bascule::bridge::testing
