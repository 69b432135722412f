// What the terminal wants.
#pragma once

namespace bascule::app {

// Standard output is a terminal that knows colours, and NO_COLOR is not set (https://no-color.org).
bool colours_wanted();

}  // namespace bascule::app
