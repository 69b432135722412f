#include "operator/config/parameters.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/text.hpp"
#include "operator/api/names.hpp"

namespace bascule::op {

namespace {

// foo=bar -> foo
std::string option_of(std::string_view member) {
  return lowered(member.substr(0, member.find('=')));
}

std::string_view next_part(std::string_view& rest, char separator) {
  const std::size_t end = rest.find(separator);
  const std::string_view part = rest.substr(0, end);
  rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  return part;
}

std::string_view next_word(std::string_view& rest) {
  const std::string_view word = rest.substr(0, rest.find_first_of(" \t"));
  rest = trimmed(rest.substr(word.size()));
  return word;
}

// Key=value, several on a line; blanks may stand around the sign, and in a value in quotes.
void take_line(std::string_view line, std::vector<Option>& options) {
  for (line = trimmed(line); !line.empty();) {
    const std::string_view key = trimmed(line.substr(0, line.find_first_of("= \t")));
    line = trimmed(line.substr(key.size()));
    if (!line.starts_with('=')) continue;  // a word of something else
    line = trimmed(line.substr(1));
    std::string_view value;
    if (const std::size_t quote = line.find('"', 1); line.starts_with('"') && quote != std::string_view::npos) {
      value = line.substr(1, quote - 1);
      line = trimmed(line.substr(quote + 1));
    } else {
      value = next_word(line);
    }
    if (!key.empty() && !value.empty()) options.emplace_back(std::string(key), std::string(value));
  }
}

}  // namespace

std::vector<Option> options_of(std::string_view conf) {
  std::vector<Option> options;
  std::string pending;
  while (!conf.empty()) {
    std::string_view line = next_part(conf, '\n');
    line = line.substr(0, line.find('#'));
    if (line.ends_with('\r')) line.remove_suffix(1);
    line = line.substr(0, line.find_last_not_of(" \t") + 1);
    if (line.empty()) continue;
    const bool more = line.ends_with('\\');
    pending += line.substr(0, line.size() - (more ? 1 : 0));
    if (more) continue;
    take_line(pending, options);
    pending.clear();
  }
  take_line(pending, options);
  return options;
}

std::map<std::string, std::string> parse_options(std::string_view conf) {
  std::map<std::string, std::string> options;
  for (Option& option : options_of(conf)) options[lowered(option.key)] = std::move(option.value);
  return options;
}

std::string merged_parameters(std::string_view conf, const Required& required) {
  const std::map<std::string, std::string> options = parse_options(conf);
  std::string text;
  for (const auto& [key, needed] : required) {
    const auto own = options.find(lowered(key));
    if (own == options.end()) continue;
    std::set<std::string> members = needed;
    std::set<std::string> known;
    for (const std::string& member : needed) known.insert(option_of(member));
    for (std::string_view rest = own->second; !rest.empty();) {
      const std::string_view member = trimmed(next_part(rest, ','));
      if (!member.empty() && known.insert(option_of(member)).second) members.emplace(member);
    }
    std::string value = fmt::format("{}", fmt::join(members, ","));
    if (value.find_first_of(" \t") != std::string::npos) {
      value.insert(0, 1, '"');
      value += '"';
    }
    text += fmt::format("{}{}={}", text.empty() ? "" : "\n", key, value);
  }
  return text;
}

std::string auth_alt_parameters(bool jwks) {
  std::string text = fmt::format("jwt_key={}/{}", names::kSlurmEtc, names::kJwtKeyFile);
  if (jwks) text += fmt::format(",jwks={}/{}", names::kSlurmEtc, names::kJwksFile);
  return text;
}

Required auth_parameters(bool jwks) {
  const std::string members = auth_alt_parameters(jwks);
  std::set<std::string> keys;
  for (std::string_view rest = members; !rest.empty();) keys.emplace(next_part(rest, ','));
  return {{"AuthAltParameters", std::move(keys)}, {"AuthInfo", {std::string(kAuthInfo)}}};
}

}  // namespace bascule::op
