#include "bridge/device_drivers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace bascule::bridge {

namespace {

const DeviceDriver* found_or_null(const DeviceDriver* found) noexcept {
  return found == std::end(kDeviceDrivers) ? nullptr : found;
}

}  // namespace

const DeviceDriver* driver_named(std::string_view driver) noexcept {
  return found_or_null(std::ranges::find(kDeviceDrivers, driver, &DeviceDriver::driver));
}

const DeviceDriver* driver_of_class(std::string_view device_class) noexcept {
  return found_or_null(std::ranges::find(kDeviceDrivers, device_class, &DeviceDriver::device_class));
}

std::string supported_classes() {
  std::string text;
  for (const DeviceDriver& one : kDeviceDrivers) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", one.device_class);
  }
  return text;
}

std::string selecting(const DeviceDriver& driver, const std::vector<std::int64_t>& numbers) {
  const bool by_name = driver.number_attribute.empty();
  std::string list;
  for (const std::int64_t number : numbers) {
    list += list.empty() ? "" : ",";
    list += by_name ? fmt::format("'{}{}'", driver.name_prefix, number) : fmt::format("{}", number);
  }
  return fmt::format("device.attributes['{}'].{} in [{}]", driver.driver, by_name ? "name" : driver.number_attribute,
                     list);
}

}  // namespace bascule::bridge
