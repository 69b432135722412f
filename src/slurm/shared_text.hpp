// Text that repeats from job to job (a partition, an account, a reason), kept once a thread and gone with its last
// handle. A handle is 8 bytes, and of the thread that made it: so is a slurm::Job.
#pragma once

#include <compare>
#include <concepts>
#include <string>
#include <string_view>

#include "json/intern.hpp"

namespace bascule::slurm {

class SharedText final {
 public:
  SharedText() = default;
  SharedText(std::string_view text) : text_(interner()(text)) {}
  SharedText(const char* text) : SharedText(std::string_view(text)) {}
  SharedText(const std::string& text) : SharedText(std::string_view(text)) {}
  std::string_view view() const noexcept { return text_.view(); }
  operator std::string_view() const noexcept { return view(); }
  std::string str() const { return text_.str(); }
  bool empty() const noexcept { return text_.empty(); }
  friend bool operator==(const SharedText&, const SharedText&) = default;
  friend std::strong_ordering operator<=>(const SharedText&, const SharedText&) = default;
  template <std::convertible_to<std::string_view> Text>
  friend bool operator==(const SharedText& a, const Text& b) noexcept {
    return a.view() == std::string_view(b);
  }

  // What this thread's handles hold.
  static json::Interner& interner() {
    thread_local json::Interner texts;
    return texts;
  }

 private:
  json::InternedString text_;
};

inline std::string_view format_as(const SharedText& text) noexcept {
  return text.view();
}

}  // namespace bascule::slurm
