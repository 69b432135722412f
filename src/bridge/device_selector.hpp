// Whether a device satisfies a CEL selector, for the part of the language in which device classes are written:
// && || ! and parentheses over comparisons (== != < <= > >= in) of device.driver, device.attributes["domain"].name and
// literals. What is not understood, or would be an error in CEL (an attribute the device lacks), is undecided, with
// CEL's own rule that false && x is false and true || x is true. Pure. Source: Kubernetes "CELDeviceSelector".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "bridge/device_slices.hpp"

namespace bascule::bridge {

// nullopt: undecided.
std::optional<bool> selects(std::string_view expression, std::string_view driver, const Device& device);

}  // namespace bascule::bridge
