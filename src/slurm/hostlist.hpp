// Hostlists: "rack[1-2]-gpu[008-012],login" stands for eleven names.
// Grammar: items separated by commas; an item is letters, digits, '-', '_', '.' and brackets; a bracket holds numbers
// and ascending ranges separated by commas; a leading zero fixes the width. Several brackets in an item multiply, the
// last one turning fastest. Empty text, empty items, spaces, nested or unclosed brackets and descending ranges are
// errors. Source: scontrol(1) "show hostnames", "show hostlist"; slurm.conf(5) NodeName.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace bascule::slurm {

// What is wrong with the text, and where.
class HostlistError final : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

struct HostlistLimits {
  std::size_t names = 1'000'000;
  std::size_t bytes = std::size_t{16} << 20;  // of the text
};

// A parsed hostlist. Names are not made until asked for; repeated names count each time, as in Slurm.
class Hostlist final {
 public:
  Hostlist() = default;
  // Throws HostlistError.
  static Hostlist parse(std::string_view text, HostlistLimits limits = {});

  std::size_t count() const noexcept { return count_; }
  bool contains(std::string_view name) const noexcept;
  // In the order of the text. The view is valid during the call.
  void for_each(const std::function<void(std::string_view)>& use) const;
  std::vector<std::string> expand() const;

 private:
  struct Range {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    std::uint32_t width = 0;  // digits at least
  };
  struct Part {  // literal text, then one number of `ranges` (none: the item ends with the text)
    std::string text;
    std::vector<Range> ranges;
  };
  using Item = std::vector<Part>;
  class Parser;

  std::vector<Item> items_;
  std::size_t count_ = 0;
};

// Parse and expand; what is wrong as a sentence.
std::expected<std::vector<std::string>, std::string> expand_hostlist(std::string_view text, HostlistLimits limits = {});

// nullopt: it cannot be read.
std::optional<bool> hostlist_contains(std::string_view text, std::string_view name);

// The shortest form Slurm itself writes: neighbours in the order given that differ only in their last number share a
// bracket, numbers that follow each other at one width become a range. Names are taken as they are.
std::string format_hostlist(std::span<const std::string> names);

}  // namespace bascule::slurm
