// Parts of pods.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "json/value.hpp"
#include "operator/builders/object.hpp"

namespace bascule::op {

struct Mount {
  std::string_view volume;
  std::string path;
  bool read_only = false;
  std::string_view sub_path = {};
};
json::Array mounts(const std::vector<Mount>& list);

json::Object memory_volume(std::string_view name);
json::Object disk_volume(std::string_view name);
json::Object claim_volume(std::string_view name, std::string_view claim);

// A volume put together of files of ConfigMaps and Secrets; where two have a file, the later one's counts.
class Projection final {
 public:
  struct File {
    std::string_view key;
    std::string_view path;
    std::int64_t mode = 0;  // 0: the volume's
  };
  // No files: all keys under their own names.
  Projection& config_map(std::string_view name, const std::vector<File>& files = {});
  Projection& secret(std::string_view name, const std::vector<File>& files = {});
  // A reference to one key; nothing when empty.
  Projection& secret_key(const KeyRef& ref, std::string_view path, std::int64_t mode = 0);
  json::Object volume(std::string_view name, std::int64_t default_mode) const;

 private:
  Projection& add(std::string_view kind, std::string_view name, const std::vector<File>& files);
  json::Array sources_;
};

// By the daemon's own HTTP endpoints, or by a connection; port by name.
json::Object http_probe(std::string_view path, std::string_view port);
json::Object tcp_probe(std::string_view port);
// So many failures, ten seconds apart: for start-up and liveness.
json::Object patient(json::Object probe, int failures = 6);

json::Array container_port(std::string_view name, std::int64_t port);

// Never root, uid = gid.
json::Object container_user(std::int64_t uid);
json::Object pod_user(std::int64_t uid);

// Puts the image in that the user's patch did not give; throws BadObject when there is none at all. `field` is where
// the user writes it.
void ensure_image(json::Value& container, std::string_view fallback, const Subject& subject, std::string_view field);

// The sidecar that makes a pipe at `log` and copies it to its own output.
json::Value logfile_sidecar(const json::Value& patch, std::string_view log, std::string_view fallback_image,
                            const Subject& subject);

// Adds a required pod anti-affinity term; whatever the user asked for stays.
void require_apart(json::Value& pod_spec, json::Object label_selector, const Subject& subject);

}  // namespace bascule::op
