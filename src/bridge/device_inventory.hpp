// Which devices a node has for Slurm to count, from its ResourceSlices. Of a pool only the slices of its highest
// generation count, and only when all of them are there: a pool that is being published is unknown, not smaller. A
// class takes of its driver's devices those that its selectors admit. Pure.
//
// Slurm's index <-> device: the devices of a class in the order of their numbers, after those of the types that the
// node shows before it. Cores: sockets in order, cores of a socket in order; core i of Slurm's bitmap is the i-th.
// Source: slurm.conf(5), gres.conf(5).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "bridge/device_drivers.hpp"
#include "bridge/device_slices.hpp"

namespace bascule::bridge {

struct NumberedDevice {
  DeviceId id;
  std::int64_t number = 0;
  std::string taint = {};  // as Device::taint; it keeps its place among the others
  // Parts of the same hardware under other names, whole GPUs and slices of them: while one is in use this one is not
  // given. Source: KEP-4815, "Partitionable Devices".
  std::vector<DeviceId> overlaps = {};
  friend bool operator==(const NumberedDevice&, const NumberedDevice&) = default;
};

struct CpuLayout {
  std::string device_class;  // empty: the node has no driver of CPUs
  // For Slurm: sockets x cores x threads, or one socket of single cores where sockets or cores differ among themselves.
  std::uint32_t sockets = 0, cores = 0, threads = 0;
  std::vector<std::vector<NumberedDevice>> cpus;  // by core as Slurm counts them; in order of their numbers
  std::uint32_t count() const noexcept { return sockets * cores * threads; }
};

struct NodeDevices {
  std::string unknown;  // why nothing can be said yet; empty: all is known
  std::map<std::string, std::vector<NumberedDevice>, std::less<>> gpus;  // by class; none is empty
  CpuLayout cpus;                                                        // count 0: no CPU devices
  std::map<std::string, std::string, std::less<>> problems;              // by class: why it cannot be used here
  std::set<std::string, std::less<>> classless;                          // of these: there is no such DeviceClass

  std::size_t count(std::string_view device_class) const noexcept;  // as Slurm counts them
  std::string taint(std::string_view device_class) const;           // of one of them; empty: none has any
};

// `slices`: those that name the node. `classes` by name.
NodeDevices devices_of(const std::vector<SlicePtr>& slices, const std::map<std::string, ClassPtr, std::less<>>& classes,
                       const DeviceDrivers& drivers);

// Of a slurm.conf node line, empty when there are no devices: "gpu:CLASS:2" and
// "count=2,name=gpu,type=CLASS,file=NAME,file=NAME"; several classes are joined by ',' and '+'.
std::string gres_of(const NodeDevices& devices);
std::string gres_conf_of(const NodeDevices& devices);
// "gpu:a:2(S:0-1),gpu:b:1" as Slurm shows a node's GRES, without what is in parentheses, sorted.
std::string normal_gres(std::string_view gres);
// How many gres/gpu of this type are in it.
std::uint64_t gres_count(std::string_view gres, std::string_view device_class);
// The index of the first of them: Slurm counts through all types, in the order in which it shows them.
std::uint64_t gres_index(std::string_view gres, std::string_view device_class);

// What Slurm counts on a node of ours.
struct RegisteredDevices {
  std::string gres;
  std::uint32_t cpus = 0;  // 0: they are no devices
};
// A sentence about the first class of which the node has fewer than it was registered with; empty: of none.
std::string fewer_than(const RegisteredDevices& registered, const NodeDevices& devices, const DeviceDrivers& drivers);

}  // namespace bascule::bridge
