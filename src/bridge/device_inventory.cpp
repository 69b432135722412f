#include "bridge/device_inventory.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <ranges>
#include <set>
#include <tuple>

#include "bridge/description.hpp"
#include "bridge/device_selector.hpp"
#include "bridge/node_facts.hpp"

namespace bascule::bridge {

namespace {

std::optional<std::int64_t> integer(const Device& device, const DeviceDriver& driver, std::string_view name) {
  const auto found = device.attributes.find(whole_attribute(driver, name));
  if (found == device.attributes.end()) return std::nullopt;
  const auto* number = std::get_if<std::int64_t>(&found->second);
  return number == nullptr ? std::nullopt : std::optional(*number);
}

bool is_efficient(const Device& device, const DeviceDriver& driver) {
  const auto found = device.attributes.find(whole_attribute(driver, driver.core_type_attribute));
  if (found == device.attributes.end()) return false;
  const auto* number = std::get_if<std::int64_t>(&found->second);
  const auto* word = std::get_if<std::string>(&found->second);
  return (number != nullptr && *number == kEfficientCore) || (word != nullptr && *word == kEfficientCoreWord);
}

std::optional<std::int64_t> number_of(const Device& device, const DeviceDriver& driver) {
  if (!driver.number_attribute.empty()) return integer(device, driver, driver.number_attribute);
  std::string_view name = device.name;
  if (!name.starts_with(driver.name_prefix)) return std::nullopt;
  name.remove_prefix(driver.name_prefix.size());
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (error != std::errc{} || end != name.data() + name.size() || number < 0) return std::nullopt;
  return number;
}

// Of a node's GRES, without what is in parentheses.
std::vector<std::string> gres_items(std::string_view gres) {
  std::vector<std::string> items;
  std::string item;
  int depth = 0;
  const auto close = [&] {
    if (!item.empty() && item != "(null)") items.push_back(item);
    item.clear();
  };
  for (const char c : gres) {
    if (c == '(') ++depth;
    if (c == ',' && depth == 0) {
      close();
    } else if (depth == 0) {
      item += c;
    }
    if (c == ')' && depth > 0) --depth;
  }
  close();
  return items;
}

// "gpu:TYPE:2", "gpu:2", or "gpu:TYPE" as slurm.conf may have it; of anything else 0.
std::pair<std::string_view, std::uint64_t> gpus_of(std::string_view item) {
  if (!item.starts_with("gpu:")) return {};
  item.remove_prefix(4);
  const std::string_view last = item.substr(item.rfind(':') + 1);  // all of it without a colon
  std::uint64_t count = 0;
  const auto [end, error] = std::from_chars(last.data(), last.data() + last.size(), count);
  if (error != std::errc{} || end != last.data() + last.size()) return {item, 1};
  return {item.substr(0, item.size() - std::min(item.size(), last.size() + 1)), count};
}

struct Found {
  const Device* device;
  std::string pool;
};

class Reader final {
 public:
  Reader(const std::vector<SlicePtr>& slices, const std::map<std::string, ClassPtr, std::less<>>& classes,
         const DeviceDrivers& drivers)
      : slices_(slices), classes_(classes), drivers_(drivers) {}

  NodeDevices run() {
    if (!read_pools()) return std::move(out_);
    for (const DeviceDriver& driver : drivers_.all()) {
      for (const std::string& name : driver.classes) read_class(driver, name);
      if (driver.classes.size() > 1) part_classes(driver);
    }
    return std::move(out_);
  }

 private:
  bool read_pools() {
    std::map<std::pair<std::string, std::string>, std::vector<const ResourceSlice*>> pools;
    for (const SlicePtr& slice : slices_) {
      if (drivers_.named(slice->driver) == nullptr) continue;
      auto& pool = pools[{slice->driver, slice->pool}];
      if (!pool.empty() && pool.front()->generation > slice->generation) continue;
      if (!pool.empty() && pool.front()->generation < slice->generation) pool.clear();
      pool.push_back(slice.get());
    }
    for (auto& [name, pool] : pools) {
      if (static_cast<std::int64_t>(pool.size()) != pool.front()->slices) {
        out_.unknown = fmt::format("driver {} has published {} of the {} ResourceSlices of pool {}", name.first,
                                   pool.size(), pool.front()->slices, name.second);
        return false;
      }
      for (const ResourceSlice* slice : pool) {
        for (const Device& device : slice->devices) add(name.first, name.second, device);
      }
    }
    return true;
  }

  void add(const std::string& driver, const std::string& pool, const Device& device) {
    devices_[driver].push_back({&device, pool});
    for (const std::string& set : device.counter_sets) {
      sharing_[{driver, pool, set}].insert({driver, pool, device.name});
    }
  }

  void problem(const std::string& name, std::string why) { out_.problems.insert_or_assign(name, std::move(why)); }

  void read_class(const DeviceDriver& driver, const std::string& name) {
    const auto all = devices_.find(driver.driver);
    if (all == devices_.end()) return;
    const auto device_class = classes_.find(name);
    if (device_class == classes_.end()) {
      out_.classless.emplace(name);
      return problem(name, fmt::format("there is no DeviceClass {}", name));
    }
    std::vector<Found> members;
    for (const Found& one : all->second) {
      bool in = true;
      for (const std::string& selector : device_class->second->selectors) {
        const auto selected = selects(selector, driver.driver, *one.device);
        if (!selected) {
          return problem(name,
                         fmt::format("a selector of DeviceClass {} cannot be decided: {}", name, in_quotes(selector)));
        }
        in = in && *selected;
      }
      if (in) members.push_back(one);
    }
    driver.kind == DeviceKind::kCpu ? read_cpus(driver, name, members) : read_gpus(driver, name, members);
  }

  NumberedDevice numbered(const DeviceDriver& driver, const Found& one, std::int64_t number) const {
    NumberedDevice out{{driver.driver, one.pool, one.device->name}, number, one.device->taint};
    for (const std::string& set : one.device->counter_sets) {
      for (const DeviceId& other : sharing_.at({out.id.driver, out.id.pool, set})) {
        if (other != out.id) out.overlaps.push_back(other);
      }
    }
    return out;
  }

  void read_gpus(const DeviceDriver& driver, const std::string& name, const std::vector<Found>& members) {
    std::vector<NumberedDevice> gpus;
    for (const Found& one : members) {
      if (!is_plain_feature(one.device->name)) {  // goes into a line of slurm.conf
        return problem(name, fmt::format("{} is no device name", in_quotes(one.device->name)));
      }
      if (const auto number = number_of(*one.device, driver)) gpus.push_back(numbered(driver, one, *number));
    }
    std::ranges::sort(gpus, {}, &NumberedDevice::number);
    const auto twice = std::ranges::adjacent_find(gpus, {}, &NumberedDevice::number);
    if (twice != gpus.end()) {
      return problem(name, fmt::format("two devices of driver {} have the number {}", driver.driver, twice->number));
    }
    std::set<DeviceId> ids;
    for (const NumberedDevice& gpu : gpus) ids.insert(gpu.id);
    for (const NumberedDevice& gpu : gpus) {
      const auto other = std::ranges::find_if(gpu.overlaps, [&ids](const DeviceId& id) { return ids.contains(id); });
      if (other == gpu.overlaps.end()) continue;
      return problem(name, fmt::format("devices {} and {} are parts of the same hardware, which Slurm cannot count",
                                       gpu.id.name, other->name));
    }
    if (!gpus.empty()) out_.gpus.emplace(name, std::move(gpus));
  }

  // Slurm would count a device of two classes, or parts of it, twice.
  void part_classes(const DeviceDriver& driver) {
    std::map<DeviceId, std::string> owners;
    std::map<std::string, std::string> clashes;  // by class
    const auto claim = [&](const std::string& name, const DeviceId& gpu, const DeviceId& other) {
      const auto owner = owners.find(other);
      if (owner == owners.end() || owner->second == name) return;
      for (const auto& [one, its] : {std::pair(name, owner->second), std::pair(owner->second, name)}) {
        clashes.try_emplace(one,
                            fmt::format("device {} is of class {} too, which Slurm would count twice", gpu.name, its));
      }
    };
    for (const std::string& name : driver.classes) {
      const auto gpus = out_.gpus.find(name);
      if (gpus == out_.gpus.end()) continue;
      for (const NumberedDevice& gpu : gpus->second) {
        claim(name, gpu.id, gpu.id);
        for (const DeviceId& other : gpu.overlaps) claim(name, gpu.id, other);
        owners.emplace(gpu.id, name);
      }
    }
    for (auto& [name, why] : clashes) {
      out_.gpus.erase(name);
      problem(name, std::move(why));
    }
  }

  void read_cpus(const DeviceDriver& driver, const std::string& name, const std::vector<Found>& members) {
    std::map<std::int64_t, std::map<std::int64_t, std::vector<NumberedDevice>>> sockets;  // then by core
    std::set<std::int64_t> seen;
    for (const Found& one : members) {
      if (is_efficient(*one.device, driver)) continue;
      const auto number = number_of(*one.device, driver);
      const auto core = integer(*one.device, driver, driver.core_attribute);
      const auto socket = integer(*one.device, driver, driver.socket_attribute);
      if (!number || !core || !socket) {
        return problem(name, fmt::format("device {} of driver {} lacks {}, {} or {}", one.device->name, driver.driver,
                                         driver.number_attribute.empty() ? "a number" : driver.number_attribute,
                                         driver.core_attribute, driver.socket_attribute));
      }
      if (!seen.insert(*number).second) {
        return problem(name, fmt::format("two devices of driver {} are CPU {}", driver.driver, *number));
      }
      sockets[*socket][*core].push_back(numbered(driver, one, *number));
    }
    CpuLayout& layout = out_.cpus;
    layout.device_class = name;
    bool uniform = true;
    for (auto& [socket, cores] : sockets) {
      for (auto& [core, cpus] : cores) {
        std::ranges::sort(cpus, {}, &NumberedDevice::number);
        uniform = uniform && cores.size() == sockets.begin()->second.size();
        uniform = uniform && (layout.cpus.empty() || cpus.size() == layout.cpus.front().size());
        layout.cpus.push_back(std::move(cpus));
      }
    }
    if (layout.cpus.empty()) return;
    const auto total = static_cast<std::uint32_t>(layout.cpus.size());
    const auto of = static_cast<std::uint32_t>(uniform ? sockets.size() : 1);
    layout.sockets = of;
    layout.cores = total / of;
    layout.threads = uniform ? static_cast<std::uint32_t>(layout.cpus.front().size()) : 1;
  }

  const std::vector<SlicePtr>& slices_;
  const std::map<std::string, ClassPtr, std::less<>>& classes_;
  const DeviceDrivers& drivers_;
  std::map<std::string, std::vector<Found>, std::less<>> devices_;  // by driver
  std::map<std::tuple<std::string, std::string, std::string>, std::set<DeviceId>>
      sharing_;  // driver, pool, counter set
  NodeDevices out_;
};

}  // namespace

std::size_t NodeDevices::count(std::string_view device_class) const noexcept {
  if (device_class == cpus.device_class) return cpus.count();
  const auto found = gpus.find(device_class);
  return found == gpus.end() ? 0 : found->second.size();
}

std::string NodeDevices::taint(std::string_view device_class) const {
  const auto of = [](const std::vector<NumberedDevice>& devices) {
    const auto one = std::ranges::find_if(devices, [](const NumberedDevice& device) { return !device.taint.empty(); });
    return one == devices.end() ? std::string() : one->taint;
  };
  if (device_class == cpus.device_class) {
    for (const auto& core : cpus.cpus) {
      if (std::string found = of(core); !found.empty()) return found;
    }
    return {};
  }
  const auto found = gpus.find(device_class);
  return found == gpus.end() ? std::string() : of(found->second);
}

NodeDevices devices_of(const std::vector<SlicePtr>& slices, const std::map<std::string, ClassPtr, std::less<>>& classes,
                       const DeviceDrivers& drivers) {
  return Reader(slices, classes, drivers).run();
}

std::string gres_of(const NodeDevices& devices) {
  std::string text;
  for (const auto& [name, gpus] : devices.gpus) {
    text += fmt::format("{}gpu:{}:{}", text.empty() ? "" : ",", name, gpus.size());
  }
  return text;
}

std::string gres_conf_of(const NodeDevices& devices) {
  std::string text;
  for (const auto& [name, gpus] : devices.gpus) {
    text += fmt::format("{}count={},name=gpu,type={}", text.empty() ? "" : "+", gpus.size(), name);
    for (const NumberedDevice& gpu : gpus) text += fmt::format(",file={}", gpu.id.name);
  }
  return text;
}

std::string normal_gres(std::string_view gres) {
  std::vector<std::string> items = gres_items(gres);
  std::ranges::sort(items);
  std::string text;
  for (const std::string& one : items) text += (text.empty() ? "" : ",") + one;
  return text;
}

std::uint64_t gres_count(std::string_view gres, std::string_view device_class) {
  std::uint64_t all = 0;
  for (const std::string& item : gres_items(gres)) {
    if (const auto [type, count] = gpus_of(item); type == device_class) all += count;
  }
  return all;
}

std::uint64_t gres_index(std::string_view gres, std::string_view device_class) {
  std::uint64_t before = 0;
  for (const std::string& item : gres_items(gres)) {
    const auto [type, count] = gpus_of(item);
    if (type == device_class) break;
    before += count;
  }
  return before;
}

std::string fewer_than(const RegisteredDevices& registered, const NodeDevices& devices, const DeviceDrivers& drivers) {
  for (const DeviceDriver& driver : drivers.all()) {
    for (const std::string& name : driver.classes) {
      const bool cpu = driver.kind == DeviceKind::kCpu;
      const std::uint64_t had = cpu ? registered.cpus : gres_count(registered.gres, name);
      const std::size_t has = cpu ? devices.cpus.count() : devices.count(name);
      if (has >= had) continue;
      const auto problem = devices.problems.find(name);
      return fmt::format("{} of the {} devices of class {} that it was registered with are there{}", has, had, name,
                         problem == devices.problems.end() ? "" : ": " + problem->second);
    }
  }
  return {};
}

}  // namespace bascule::bridge
