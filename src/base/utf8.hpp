// UTF-8 as RFC 3629 has it, in text that others wrote.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace bascule {

// Length of the well-formed sequence at the start of `text`, which is not empty; 0 when there is none.
std::size_t utf8_length(std::string_view text) noexcept;

// At most `most` bytes, never half a character.
std::string_view cut_utf8(std::string_view text, std::size_t most) noexcept;

// Each byte that is part of no well-formed sequence replaced by U+FFFD.
std::string with_valid_utf8(std::string_view text);

}  // namespace bascule
