#include "operator/config/partition_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace bascule::op {

namespace {

constexpr std::string_view kBlanks = " \t\v\f";

// In lower case: Slurm does not regard it.
constexpr std::array<std::string_view, 47> kOptions = {"allocnodes",
                                                       "allowaccounts",
                                                       "allowgroups",
                                                       "allowqos",
                                                       "alternate",
                                                       "cpubind",
                                                       "default",
                                                       "defaulttime",
                                                       "defcpupergpu",
                                                       "defmempercpu",
                                                       "defmempergpu",
                                                       "defmempernode",
                                                       "denyaccounts",
                                                       "denyqos",
                                                       "disablerootjobs",
                                                       "exclusive",
                                                       "exclusivetopo",
                                                       "exclusiveuser",
                                                       "gracetime",
                                                       "hidden",
                                                       "lln",
                                                       "maxcpuspernode",
                                                       "maxcpuspersocket",
                                                       "maxmempercpu",
                                                       "maxmempernode",
                                                       "maxnodes",
                                                       "maxtime",
                                                       "minnodes",
                                                       "nodes",
                                                       "oversubscribe",
                                                       "overtimelimit",
                                                       "powerdownonidle",
                                                       "preemptmode",
                                                       "priority",
                                                       "priorityjobfactor",
                                                       "prioritytier",
                                                       "qos",
                                                       "reqresv",
                                                       "resumetimeout",
                                                       "rootonly",
                                                       "selecttypeparameters",
                                                       "shared",
                                                       "state",
                                                       "suspendtime",
                                                       "suspendtimeout",
                                                       "topology",
                                                       "tresbillingweights"};

std::string_view skip_blanks(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(kBlanks), text.size()));
}

}  // namespace

std::string_view partition_line(std::string_view config) noexcept {
  config = config.substr(0, config.find_first_of("\r\n"));
  return config.substr(0, config.find_last_not_of(" \t\\") + 1);
}

std::optional<std::string> partition_fault(std::string_view config) {
  std::string_view rest = partition_line(config);
  rest = rest.substr(0, rest.find('#'));
  for (rest = skip_blanks(rest); !rest.empty(); rest = skip_blanks(rest)) {
    std::string_view word = rest.substr(0, rest.find_first_of(" \t\v\f="));
    rest = skip_blanks(rest.substr(word.size()));
    if (!word.empty() && word.find_last_of("-*+/") == word.size() - 1) word.remove_suffix(1);  // as in +=
    if (word.empty() || !rest.starts_with('=')) return fmt::format("'{}' is no Key=value", word.empty() ? "=" : word);
    if (std::ranges::find(kOptions, lowered(word)) == kOptions.end()) {
      return fmt::format("{} is no option of a partition in slurm.conf", word);
    }
    rest = skip_blanks(rest.substr(1));
    if (rest.empty()) return fmt::format("{} has no value", word);
    const std::size_t quote = rest.starts_with('"') ? rest.find('"', 1) : std::string_view::npos;
    const std::string_view value =
        rest.substr(0, quote == std::string_view::npos ? rest.find_first_of(kBlanks) : quote + 1);
    rest.remove_prefix(value.size());
  }
  return std::nullopt;
}

}  // namespace bascule::op
