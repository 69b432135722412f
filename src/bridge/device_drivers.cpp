#include "bridge/device_drivers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace bascule::bridge {

namespace {

constexpr std::size_t kMaxDriver = 63;     // both by Kubernetes' rules
constexpr std::size_t kMaxAttribute = 32;  // without its domain

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return is_lower(c) || (c >= 'A' && c <= 'Z') || c == '_';
}

// A driver, a class or a domain.
bool is_domain(std::string_view text) {
  const auto edge = [](char c) { return is_lower(c) || is_digit(c); };
  const auto inside = [edge](char c) { return edge(c) || c == '-' || c == '.'; };
  return !text.empty() && text.size() <= kMaxDriver && edge(text.front()) && edge(text.back()) &&
         std::ranges::all_of(text, inside);
}

bool is_attribute(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash != std::string_view::npos && !is_domain(text.substr(0, slash))) return false;
  if (slash != std::string_view::npos) text.remove_prefix(slash + 1);
  return !text.empty() && text.size() <= kMaxAttribute && is_letter(text.front()) &&
         std::ranges::all_of(text, [](char c) { return is_letter(c) || is_digit(c); });
}

// How the names of devices may begin.
bool is_prefix(std::string_view text) {
  return text.size() <= kMaxDriver && (is_lower(text.front()) || is_digit(text.front())) &&
         std::ranges::all_of(text, [](char c) { return is_lower(c) || is_digit(c) || c == '-'; });
}

class Judge final {
 public:
  std::vector<DeviceDriverFault> run(const std::vector<DeviceDriver>& drivers) {
    for (const DeviceDriver& one : drivers) {
      place_ = fmt::format("[{}]", &one - drivers.data());
      names(one);
      numbers(one);
      if (one.kind == DeviceKind::kCpu) cpus(one);
    }
    classes_of(drivers);
    return std::move(faults_);
  }

 private:
  void fault(std::string_view key, std::string what) {
    faults_.push_back({fmt::format("{}{}", place_, key), std::move(what)});
  }

  void names(const DeviceDriver& one) {
    if (one.driver.empty()) return fault(".driver", "is required: the driver's name, as its ResourceSlices have it");
    if (!is_domain(one.driver)) {
      fault(".driver", fmt::format("\"{}\" cannot be a driver's name: at most {} of a-z, 0-9, '-' and '.', a letter or "
                                   "digit first and last",
                                   one.driver, kMaxDriver));
    }
    if (!drivers_.insert_or_assign(one.driver, place_).second) {
      fault(".driver", fmt::format("\"{}\" is given twice", one.driver));
    }
  }

  void numbers(const DeviceDriver& one) {
    if (one.number_attribute.empty() == one.name_prefix.empty()) {
      fault("", "needs numberAttribute or namePrefix, and not both: what numbers the devices in Slurm's order");
    }
    if (!one.name_prefix.empty() && !is_prefix(one.name_prefix)) {
      fault(".namePrefix",
            fmt::format("\"{}\" cannot begin a device's name, which is of a-z, 0-9 and '-'", one.name_prefix));
    }
    if (!one.number_attribute.empty()) attribute(".numberAttribute", one.number_attribute);
  }

  void attribute(std::string_view key, std::string_view name) {
    if (is_attribute(name)) return;
    fault(key, fmt::format("\"{}\" cannot be an attribute: NAME or DOMAIN/NAME, at most {} letters, digits and '_'",
                           name, kMaxAttribute));
  }

  void cpus(const DeviceDriver& one) {
    attribute(".coreAttribute", one.core_attribute);
    attribute(".socketAttribute", one.socket_attribute);
    attribute(".coreTypeAttribute", one.core_type_attribute);
    if (one.classes.size() > 1) fault(".classes", "expected one class: Slurm counts a node's CPUs once");
    if (!cpu_.empty()) fault(".kind", fmt::format("is cpu, as that of {}: Slurm counts a node's CPUs once", cpu_));
    cpu_ = one.driver;
  }

  // Those of the drivers that ship with the bridge are taken, too, unless they are replaced.
  void classes_of(const std::vector<DeviceDriver>& drivers) {
    std::map<std::string, std::string, std::less<>> taken;
    DeviceDrivers all;
    for (const DeviceDriver& one : drivers) all.put({.driver = one.driver, .kind = one.kind});
    for (const DeviceDriver& one : all.all()) {
      for (const std::string& name : one.classes) taken.emplace(name, one.driver);
    }
    for (const DeviceDriver& one : drivers) {
      for (const std::string& name : one.classes) {
        place_ = fmt::format("[{}].classes[{}]", &one - drivers.data(), &name - one.classes.data());
        if (!is_domain(name)) {
          fault("", fmt::format("\"{}\" cannot be a DeviceClass that pods ask for: at most {} of a-z, 0-9, '-' and '.'",
                                name, kMaxDriver));
        }
        const auto [other, free] = taken.emplace(name, one.driver);
        if (!free) fault("", fmt::format("\"{}\" is a class of driver {} already", name, other->second));
      }
    }
  }

  std::vector<DeviceDriverFault> faults_;
  std::map<std::string, std::string, std::less<>> drivers_;
  std::string place_, cpu_;
};

}  // namespace

DeviceDrivers::DeviceDrivers()
    : all_{{.driver = "dra.cpu", .classes = {"dra.cpu"}, .kind = DeviceKind::kCpu, .number_attribute = "cpuID"},
           {.driver = "gpu.nvidia.com", .classes = {"gpu.nvidia.com"}, .name_prefix = "gpu-"},
           {.driver = "gpu.example.com", .classes = {"gpu.example.com"}, .number_attribute = "index"}} {}

void DeviceDrivers::put(DeviceDriver driver) {
  const auto replaced = [&driver](const DeviceDriver& one) {
    return one.driver == driver.driver || (one.kind == DeviceKind::kCpu && driver.kind == DeviceKind::kCpu);
  };
  std::erase_if(all_, replaced);
  all_.push_back(std::move(driver));
}

const DeviceDriver* DeviceDrivers::named(std::string_view driver) const noexcept {
  const auto found = std::ranges::find(all_, driver, &DeviceDriver::driver);
  return found == all_.end() ? nullptr : &*found;
}

const DeviceDriver* DeviceDrivers::of_class(std::string_view device_class) const noexcept {
  const auto found = std::ranges::find_if(all_, [device_class](const DeviceDriver& one) {
    return std::ranges::find(one.classes, device_class) != one.classes.end();
  });
  return found == all_.end() ? nullptr : &*found;
}

bool DeviceDrivers::is_cpu_class(std::string_view device_class) const noexcept {
  const DeviceDriver* driver = of_class(device_class);
  return driver != nullptr && driver->kind == DeviceKind::kCpu;
}

std::string DeviceDrivers::classes() const {
  std::string text;
  for (const DeviceDriver& one : all_) {
    for (const std::string& name : one.classes) text += (text.empty() ? "" : ", ") + name;
  }
  return text;
}

std::vector<DeviceDriverFault> faults_of(const std::vector<DeviceDriver>& drivers) {
  return Judge().run(drivers);
}

std::string whole_attribute(const DeviceDriver& driver, std::string_view attribute) {
  return attribute.contains('/') ? std::string(attribute) : fmt::format("{}/{}", driver.driver, attribute);
}

std::string selecting(const DeviceDriver& driver, const std::vector<std::int64_t>& numbers) {
  const bool by_name = driver.number_attribute.empty();
  std::string list;
  for (const std::int64_t number : numbers) {
    list += list.empty() ? "" : ",";
    list += by_name ? fmt::format("'{}{}'", driver.name_prefix, number) : fmt::format("{}", number);
  }
  const std::string whole = whole_attribute(driver, by_name ? "name" : driver.number_attribute);
  const std::size_t slash = whole.find('/');
  return fmt::format("device.attributes['{}'].{} in [{}]", whole.substr(0, slash), whole.substr(slash + 1), list);
}

}  // namespace bascule::bridge
