// Any text is a usable kubeconfig or is refused with a ConfigError that says why; what is usable has an address.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "kube/kubeconfig.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bascule::kube;
  if (size > 65536) return 0;
  std::string text(reinterpret_cast<const char*>(data), size);
  // A line of dashes between two files.
  constexpr std::string_view kCut = "\n=====\n";
  std::vector<KubeconfigFile> files;
  for (std::size_t at = text.find(kCut); at != std::string::npos; at = text.find(kCut)) {
    files.push_back({"/first/config", text.substr(0, at)});
    text.erase(0, at + kCut.size());
  }
  files.push_back({"/last/config", std::move(text)});
  try {
    const Config config = build_config(files, "", [](const std::string& path) { return path.size() % 7 != 0; });
    if (config.http.url.host.empty() && config.http.url.path.empty()) std::abort();
  } catch (const ConfigError& error) {
    if (std::string_view(error.what()).empty()) std::abort();
  }
  return 0;
}
