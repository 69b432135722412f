// The command line: subcommands, flags, help. Each process of a cluster is a subcommand of the one program.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/options.hpp"

namespace CLI {
class App;
}

namespace bascule::app {

// Fills in `options`, which outlives it, when it parses.
std::shared_ptr<CLI::App> make_command_line(Options& options);

// The words after the program's name as the originals take them, for the commands that are one of theirs: `-flag` is
// `--flag`, and a flag that needs no word may be followed by `true`.
std::vector<std::string> as_go_reads(const CLI::App& app, std::vector<std::string> words);

}  // namespace bascule::app
