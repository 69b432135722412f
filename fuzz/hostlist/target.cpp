// A hostlist parses or is refused with a HostlistError; what parses expands to as many names as counted, contains them
// all, and formatting those and expanding again gives the same names.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "slurm/hostlist.hpp"

namespace {
void require(bool promise) {
  if (!promise) std::abort();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bascule::slurm;
  const HostlistLimits limits{.names = 2000, .bytes = 4096};
  Hostlist list;
  try {
    list = Hostlist::parse({reinterpret_cast<const char*>(data), size}, limits);
  } catch (const HostlistError&) {
    return 0;
  }
  const std::vector<std::string> names = list.expand();
  require(names.size() == list.count());
  for (const std::string& name : names) require(list.contains(name));
  require(Hostlist::parse(format_hostlist(names), {.names = 2000, .bytes = 1 << 20}).expand() == names);
  return 0;
}
