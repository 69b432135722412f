// Shell completion, made from the command line itself: subcommands, flags, and the words a flag takes.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace bascule::app {

// `shell`: bash, zsh or fish. A script that defines the completion of `app`'s name; it asks nobody when it runs.
std::string completion_script(const CLI::App& app, const std::string& shell);

}  // namespace bascule::app
