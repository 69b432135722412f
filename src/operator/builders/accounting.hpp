// The children of an Accounting that is not external.
#pragma once

#include <string_view>

#include "json/value.hpp"
#include "operator/builders/controller.hpp"

namespace bascule::op {

json::Value accounting_service(const Accounting& accounting);
// `slurmdbd_conf` as config/slurmdbd_conf.hpp makes it: a Secret, since the database's password is in it.
json::Value accounting_config(const Accounting& accounting, std::string_view slurmdbd_conf);
json::Value accounting_stateful_set(const Accounting& accounting, std::string_view slurmdbd_conf,
                                    const KeyHashes& keys);

}  // namespace bascule::op
