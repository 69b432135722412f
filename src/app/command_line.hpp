// The command line: subcommands, flags, help. Each process of a cluster is a subcommand of the one program.
#pragma once

#include <memory>

#include "app/options.hpp"

namespace CLI {
class App;
}

namespace bascule::app {

// Fills in `options`, which outlives it, when it parses.
std::shared_ptr<CLI::App> make_command_line(Options& options);

}  // namespace bascule::app
