// The DRA drivers whose devices Slurm can count: driver, classes, attributes and expression. Those that ship with the
// bridge are here; the configuration's deviceDrivers adds others, or takes the place of one by its name. Source:
// "Dynamic Resource Allocation"; README of each driver.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bascule::bridge {

enum class DeviceKind : std::uint8_t {
  kCpu,  // one device a CPU; Slurm counts it as CPUs and says which cores
  kGpu,  // Slurm counts it as gres/gpu:CLASS and says which indices
};

// Attributes without a domain are of the driver's own.
struct DeviceDriver {
  std::string driver = {};                // of the ResourceSlice
  std::vector<std::string> classes = {};  // DeviceClasses of its devices, and types of the GRES; of CPUs one
  DeviceKind kind = DeviceKind::kGpu;
  std::string number_attribute = {};  // integer attribute that orders the devices as Slurm does; empty: the name
  std::string name_prefix = {};       // ... has the number after this; devices of other names are passed over
  // Of CPUs: integers. Cores are numbered within their socket.
  std::string core_attribute = "coreID";
  std::string socket_attribute = "socketID";
  std::string core_type_attribute = "coreType";  // integer or word
};
// Efficient cores are not given to Slurm: it knows one kind of core a node.
inline constexpr std::int64_t kEfficientCore = 3;
inline constexpr std::string_view kEfficientCoreWord = "e-core";

class DeviceDrivers final {
 public:
  DeviceDrivers();  // those that ship with the bridge
  // In place of the one of that name. One of CPUs takes the place of the one of CPUs, for a node's are counted once.
  void put(DeviceDriver driver);

  const std::vector<DeviceDriver>& all() const noexcept { return all_; }
  // nullptr: not one of these.
  const DeviceDriver* named(std::string_view driver) const noexcept;
  const DeviceDriver* of_class(std::string_view device_class) const noexcept;
  bool is_cpu_class(std::string_view device_class) const noexcept;
  // For sentences: "dra.cpu, gpu.nvidia.com, gpu.example.com".
  std::string classes() const;

 private:
  std::vector<DeviceDriver> all_;
};

// What is amiss with a list that is to be put: the key that it is about, as "[1].classes[0]", and the rest of a
// sentence.
struct DeviceDriverFault {
  std::string key, what;
};
std::vector<DeviceDriverFault> faults_of(const std::vector<DeviceDriver>& drivers);

// "domain/name", as a device has it.
std::string whole_attribute(const DeviceDriver& driver, std::string_view attribute);
// The CEL expression that is true for exactly these devices of the driver.
std::string selecting(const DeviceDriver& driver, const std::vector<std::int64_t>& numbers);

}  // namespace bascule::bridge
