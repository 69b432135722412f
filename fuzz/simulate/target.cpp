// Arbitrary bytes as a state: decisions with a reason each, or one of the two faults.
#include <cstdint>
#include <string_view>

#include "base/check.hpp"
#include "base/log.hpp"
#include "bridge/simulate.hpp"

using namespace bascule;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  log::configure(log::Level::kError, log::Format::kText);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  json::Interner interner;
  try {
    const bridge::ClusterState state = bridge::read_state(text, {}, interner);
    const bridge::Simulation simulation = bridge::simulate(state, interner);
    for (const bridge::SimulatedStep& decision : simulation.decisions) {
      BASCULE_CHECK(!decision.why.empty() && !decision.unit.empty(), "a decision says what it is about and why");
    }
    BASCULE_CHECK(!bridge::to_text(simulation, false).empty(), "there is something to print");
    (void)json::dump(bridge::to_json(simulation));
  } catch (const bridge::StateFault&) {
  } catch (const bridge::ConfigFaults&) {
  }
  return 0;
}
