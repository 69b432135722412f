#include "operator/config/slurmdbd_conf.hpp"

#include <fmt/format.h>

#include "operator/api/derived.hpp"
#include "operator/config/parameters.hpp"
#include "operator/config/text.hpp"

namespace bascule::op {

namespace {

struct Setting {
  std::string_view option;
  std::string_view value;
  std::string source;  // for the sentence
};

}  // namespace

std::expected<std::string, std::string> slurmdbd_conf(const Accounting& accounting, std::string_view password) {
  password = password.substr(0, password.find_last_not_of("\r\n") + 1);
  const Storage& storage = accounting.storage;
  const std::string port = fmt::to_string(storage.port);
  const Setting settings[] = {
      {"StorageHost", storage.host, "spec.storageConfig.host"},
      {"StoragePort", port, "spec.storageConfig.port"},
      {"StorageUser", storage.username, "spec.storageConfig.username"},
      {"StorageLoc", storage.database, "spec.storageConfig.database"},
      {"StoragePass", password,
       fmt::format("the password in Secret {}, key {}", storage.password.name, storage.password.key)}};

  const bool jwks = !accounting.keys.jwks.empty();
  Text text;
  text.heading("GENERAL")
      .set("DbdHost", names::accounting(accounting.meta.name) + "-0")
      .set("DbdPort", fmt::to_string(names::kSlurmdbdPort))
      .set("SlurmUser", names::kSlurmUser)
      .heading("PLUGINS & PARAMETERS")
      .set("AuthType", "auth/slurm")
      .set("AuthAltTypes", "auth/jwt")
      .set("AuthAltParameters", auth_alt_parameters(jwks))
      .set("AuthInfo", kAuthInfo)
      .heading("STORAGE")
      .set("StorageType", "accounting_storage/mysql");
  for (const Setting& setting : settings) {
    // Not everyone's database asks for a user and password, and Slurm refuses an option without a value.
    if (setting.value.empty() && setting.option != "StorageHost") continue;
    const std::expected<std::string, std::string> value = conf_value(setting.value);
    if (!value) return std::unexpected(fmt::format("{} {}", setting.source, value.error()));
    text.set(setting.option, *value);
  }
  text.heading("LOGGING").set("LogFile", "/dev/null");
  if (!accounting.extra_conf.empty()) text.heading("EXTRA CONFIG").raw(accounting.extra_conf);
  if (const std::string merged = merged_parameters(accounting.extra_conf, auth_parameters(jwks)); !merged.empty()) {
    text.heading("MERGED CONFIG").raw(merged);
  }
  return text.str();
}

}  // namespace bascule::op
