// The DRA drivers whose devices Slurm can count: the one table of driver, class, attribute and expression. A driver is
// added by one line here. Source: "Dynamic Resource Allocation"; README of each driver.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace bascule::bridge {

enum class DeviceKind : std::uint8_t {
  kCpu,  // one device a CPU; Slurm counts it as CPUs and says which cores
  kGpu,  // Slurm counts it as gres/gpu:CLASS and says which indices
};

struct DeviceDriver {
  std::string_view driver;        // of the ResourceSlice
  std::string_view device_class;  // DeviceClass, and type of the GRES
  DeviceKind kind;
  std::string_view number_attribute;  // integer attribute that orders the devices as Slurm does; empty: the name
  std::string_view name_prefix;       // ... has the number after this; devices of other names are passed over
};

inline constexpr DeviceDriver kDeviceDrivers[] = {
    {"dra.cpu", "dra.cpu", DeviceKind::kCpu, "cpuID", ""},
    {"gpu.nvidia.com", "gpu.nvidia.com", DeviceKind::kGpu, "", "gpu-"},
    {"gpu.example.com", "gpu.example.com", DeviceKind::kGpu, "index", ""},
};
// Of a CPU device, beside its number: integers. Cores are numbered within their socket.
inline constexpr std::string_view kCpuCore = "coreID";
inline constexpr std::string_view kCpuSocket = "socketID";
inline constexpr std::string_view kCpuCoreType = "coreType";  // integer or word
// Efficient cores are not given to Slurm: it knows one kind of core a node.
inline constexpr std::int64_t kEfficientCore = 3;
inline constexpr std::string_view kEfficientCoreWord = "e-core";

// nullptr: not one of ours.
const DeviceDriver* driver_named(std::string_view driver) noexcept;
const DeviceDriver* driver_of_class(std::string_view device_class) noexcept;
// For sentences: "dra.cpu, gpu.nvidia.com, gpu.example.com".
std::string supported_classes();

// The CEL expression that is true for exactly these devices of the driver.
std::string selecting(const DeviceDriver& driver, const std::vector<std::int64_t>& numbers);

}  // namespace bascule::bridge
