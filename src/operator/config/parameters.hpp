// Options that are comma lists of which the operator needs certain members. A line of the user's would replace ours,
// since the last one counts; so a line with both comes last.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace bascule::op {

// Option -> members that must be in it.
using Required = std::map<std::string, std::set<std::string>>;

struct Option {
  std::string key;  // as it is spelled; Slurm does not regard the case
  std::string value;
};

// Key=value as Slurm reads them, in order: comments, continuations, several on a line, values in quotes.
std::vector<Option> options_of(std::string_view conf);
// The same: keys in lower case, the last of a key counts.
std::map<std::string, std::string> parse_options(std::string_view conf);

// A line for each option of `required` that `conf` sets too: ours and the user's members, sorted, ours where both name
// one. Members are compared without regard to case and kept as they are spelled. No newline at the end.
std::string merged_parameters(std::string_view conf, const Required& required);

// What daemons authenticate with: AuthInfo, and AuthAltParameters as a line of its own says it.
inline constexpr std::string_view kAuthInfo = "use_client_ids";
std::string auth_alt_parameters(bool jwks);
Required auth_parameters(bool jwks);

}  // namespace bascule::op
