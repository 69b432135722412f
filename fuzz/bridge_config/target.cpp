// Arbitrary text as configuration file, job record and node mark: a value or faults, nothing else.
#include <cstdint>
#include <string_view>

#include "base/check.hpp"
#include "bridge/config.hpp"
#include "bridge/node_facts.hpp"
#include "bridge/record.hpp"

using namespace bascule;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const bridge::Config config = bridge::parse_config(text, "fuzz", true);
    BASCULE_CHECK(!config.scheduler_name.empty() && !config.slurm_rest_api.empty(), "what was accepted is usable");
  } catch (const bridge::ConfigFaults& thrown) {
    BASCULE_CHECK(!thrown.faults.empty(), "a refusal says why");
  }
  if (const auto record = bridge::parse_record(text)) {
    BASCULE_CHECK(bridge::parse_record(bridge::print_record(*record)) == record, "records survive printing");
  }
  if (const auto mark = bridge::parse_mark(text)) {
    BASCULE_CHECK(bridge::parse_mark(bridge::print_mark(*mark)) == mark, "marks survive printing");
  }
  return 0;
}
