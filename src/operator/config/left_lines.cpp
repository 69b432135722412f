#include "operator/config/left_lines.hpp"

#include <algorithm>
#include <cctype>
#include <optional>
#include <utility>

#include "operator/config/parameters.hpp"

namespace bascule::op {

namespace {

constexpr std::string_view kNodeSet = "NodeSet=";
constexpr std::string_view kPartition = "PartitionName=";

std::string_view next_line(std::string_view& text) {
  const std::size_t end = text.find('\n');
  const std::string_view line = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return line;
}

std::string_view word_of(std::string_view line) {
  return line.substr(0, line.find(' '));
}

std::optional<LeftLine> read(std::string_view line) {
  const bool partition = line.starts_with(kPartition);
  if (!partition && !line.starts_with(kNodeSet)) return std::nullopt;
  const std::string_view name = word_of(line).substr((partition ? kPartition : kNodeSet).size());
  return LeftLine{std::string(name), partition, std::string(line), {}};
}

std::vector<LeftLine> read_all(std::string_view lines) {
  std::vector<LeftLine> out;
  while (!lines.empty()) {
    auto line = read(next_line(lines));
    if (!line) continue;
    if (!out.empty()) line->after = word_of(out.back().text);
    out.push_back(*std::move(line));
  }
  return out;
}

// Ours alone: up to the next heading.
std::string_view section_of(std::string_view conf) {
  const std::string heading = std::string("\n### ") + std::string(kNodeSetHeading) + " ###\n";
  const std::size_t at = conf.find(heading);
  if (at == std::string_view::npos) return {};
  conf.remove_prefix(at + heading.size());
  return conf.substr(0, conf.starts_with('#') ? 0 : conf.find("\n#"));
}

bool says(const std::vector<Option>& options, const LeftLine& line) {
  const std::string_view key = line.partition ? kPartition : kNodeSet;
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  return std::ranges::any_of(options, [&](const Option& option) {
    return option.value == line.name && std::ranges::equal(option.key, key.substr(0, key.size() - 1), same);
  });
}

}  // namespace

std::vector<LeftLine> left_lines(std::string_view in_place, std::string_view wanted, std::string_view extra_conf) {
  const std::vector<LeftLine> now = read_all(wanted);
  const std::vector<Option> own = options_of(extra_conf);
  std::vector<LeftLine> out = read_all(section_of(in_place));
  std::erase_if(out, [&](const LeftLine& line) {
    const auto is_it = [&line](const LeftLine& one) {
      return one.name == line.name && one.partition == line.partition;
    };
    return says(own, line) || std::ranges::any_of(now, is_it);
  });
  return out;
}

std::string closed_partition(std::string_view line) {
  std::string out;
  while (!line.empty()) {
    const std::string_view word = word_of(line);
    line.remove_prefix(std::min(line.size(), word.size() + 1));
    const auto is = [&word](std::string_view key) {
      return word.size() >= key.size() && std::ranges::equal(word.substr(0, key.size()), key, [](char a, char b) {
               return std::tolower(static_cast<unsigned char>(a)) == b;
             });
    };
    if (!word.empty() && !is("state=") && !is("default=")) out += std::string(word) + " ";
  }
  return out + "State=DRAIN";
}

std::string merged_lines(std::string_view wanted, std::span<const LeftLine> left) {
  std::vector<std::string> lines;
  while (!wanted.empty()) lines.emplace_back(next_line(wanted));
  for (const LeftLine& one : left) {
    auto at = lines.begin();
    if (!one.after.empty()) {
      at = std::ranges::find(lines, std::string_view(one.after), word_of);
      if (at != lines.end()) ++at;
    }
    lines.insert(at, one.text);
  }
  std::string out;
  for (const std::string& line : lines) out += line + '\n';
  return out;
}

}  // namespace bascule::op
