#include "app/terminal.hpp"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace bascule::app {

bool colours_wanted() {
  const char* refused = std::getenv("NO_COLOR");
  if (refused != nullptr && *refused != '\0') return false;
  const char* terminal = std::getenv("TERM");
  if (terminal == nullptr || std::string_view(terminal) == "dumb") return false;
  return isatty(STDOUT_FILENO) != 0;
}

}  // namespace bascule::app
