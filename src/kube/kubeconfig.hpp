// The text of kubeconfig files to a Config: kubectl's rules of merging, without touching the system.
//  - Of each value and each named entry the first file that has it wins; entries are not mixed.
//  - Relative paths are meant from the file they stand in; inline data goes before a path.
// Source: "Organizing Cluster Access Using kubeconfig Files"; kubeconfig (v1) reference.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "kube/config.hpp"

namespace bascule::kube {

struct KubeconfigFile {
  std::string path;  // absolute
  std::string text;
};

// `context` empty: current-context. `readable` tells whether a file that is named can be read. Throws ConfigError with
// one line a fault.
Config build_config(const std::vector<KubeconfigFile>& files, std::string_view context,
                    const std::function<bool(const std::string& path)>& readable);

}  // namespace bascule::kube
