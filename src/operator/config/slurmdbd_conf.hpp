// slurmdbd.conf of an Accounting. Source of the options: slurmdbd.conf(5).
#pragma once

#include <expected>
#include <string>
#include <string_view>

#include "operator/api/types.hpp"

namespace bascule::op {

// `password`: the bytes of the Secret's key; newlines at its end are not part of it. The error is a sentence without
// the password in it.
std::expected<std::string, std::string> slurmdbd_conf(const Accounting& accounting, std::string_view password);

}  // namespace bascule::op
