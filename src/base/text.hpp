// Text as the outside world writes it: ASCII letters, blanks and tabs.
#pragma once

#include <string>
#include <string_view>

namespace bascule {

// Letters A to Z made small; all else stays.
std::string lowered(std::string_view text);
// Without blanks and tabs at both ends; a view into `text`.
std::string_view trimmed(std::string_view text) noexcept;

}  // namespace bascule
