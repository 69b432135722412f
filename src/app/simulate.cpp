// `bascule simulate STATE`: what the scheduler would do about a file of cluster state. Contacts nobody.
#include "bridge/simulate.hpp"

#include <fmt/format.h>

#include <chrono>
#include <iostream>
#include <iterator>

#include "app/options.hpp"
#include "app/terminal.hpp"
#include "base/file.hpp"
#include "base/log.hpp"

namespace bascule::app {

namespace {

constexpr std::size_t kMaxState = std::size_t{1} << 30;  // all pods and jobs of a large cluster

std::string read_input(const std::string& name) {
  if (name == "-") return {std::istreambuf_iterator<char>(std::cin), {}};
  auto text = read_file(name, kMaxState);
  if (!text) throw UsageError(fmt::format("simulate: {}: {}", name, text.error().why));
  return *std::move(text);
}

}  // namespace

int run_simulate(const SimulateOptions& options) {
  log::configure(log::Level::kError, log::Format::kText);
  json::Interner interner;
  bridge::StateDefaults defaults{std::chrono::system_clock::now(), {}};
  if (!options.config.empty()) defaults.config = bridge::load_config(options.config, false);
  bridge::ClusterState state;
  try {
    state = bridge::read_state(read_input(options.file), defaults, interner);
  } catch (const bridge::StateFault& fault) {
    throw UsageError("simulate: " + options.file + ": " + fault.what());
  }
  const bridge::Simulation simulation = bridge::simulate(state, interner);
  if (options.output == "json") {
    std::cout << json::dump_pretty(bridge::to_json(simulation));
  } else {
    std::cout << bridge::to_text(simulation, colours_wanted());
  }
  return 0;
}

}  // namespace bascule::app
