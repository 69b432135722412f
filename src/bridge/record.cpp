#include "bridge/record.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "json/value.hpp"

namespace bascule::bridge {

namespace {

constexpr json::ParseLimits kLimits{.depth = 8, .bytes = kMaxRecord};
constexpr std::int64_t kVersion = 1;

// "ns/name" and nothing else: slurm-bridge writes no other form, and a bare word in foreign JSON must not name a pod.
std::optional<std::vector<NamespacedName>> parse_pods(const json::Value& value) {
  const json::Array* list = value.if_array();
  if (list == nullptr || list->empty()) return std::nullopt;
  std::vector<NamespacedName> pods;
  pods.reserve(list->size());
  for (const json::Value& item : *list) {
    const auto* text = item.if_string();
    if (text == nullptr) return std::nullopt;
    NamespacedName pod = NamespacedName::parse(json::view(*text));
    if (pod.ns.empty() || pod.name.empty() || pod.name.find('/') != std::string::npos) return std::nullopt;
    pods.push_back(std::move(pod));
  }
  return pods;
}

std::optional<std::vector<Uid>> parse_uids(const json::Array* list) {
  if (list == nullptr) return std::nullopt;
  std::vector<Uid> uids;
  uids.reserve(list->size());
  for (const json::Value& item : *list) {
    const auto* text = item.if_string();
    if (text == nullptr || text->empty()) return std::nullopt;
    uids.emplace_back(json::view(*text));
  }
  return uids;
}

json::Object print_task(const TaskSize& task) {
  json::Object out{{"cpus", task.cpus}};
  if (task.memory) out["memory"] = *task.memory;
  if (!task.gres.empty()) out["gres"] = task.gres;
  return out;
}

std::uint32_t parse_cpus(const json::Value& value, json::Path path) {
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(json::int_at(value, path).value_or(0), 0, std::numeric_limits<std::int32_t>::max()));
}

std::optional<TaskSize> parse_task(const json::Value& value) {
  if (json::object_at(value, {"bascule", "task"}) == nullptr) return std::nullopt;
  TaskSize task{parse_cpus(value, {"bascule", "task", "cpus"})};
  const auto memory = json::int_at(value, {"bascule", "task", "memory"});
  if (memory && *memory >= 0) task.memory = static_cast<std::uint64_t>(*memory);
  task.gres = json::string_at(value, {"bascule", "task", "gres"});
  return task;
}

}  // namespace

std::string print_record(const JobRecord& record) {
  json::Array pods;
  for (const NamespacedName& pod : record.pods) pods.emplace_back(pod.str());
  if (record.legacy) return json::dump(json::Object{{"pods", std::move(pods)}});
  json::Array uids;
  for (const Uid& uid : record.uids) uids.emplace_back(uid.str());
  json::Object own{
      {"v", kVersion}, {"bridge", record.bridge}, {"cluster", record.cluster}, {"unit", record.unit.str()}};
  if (!record.owner.empty()) own["owner"] = record.owner.str();
  if (record.cpus > 0) own["cpus"] = record.cpus;
  if (record.task) own["task"] = print_task(*record.task);
  own["spec"] = record.spec;
  if (!record.asked.empty()) own["asked"] = record.asked;
  own["uids"] = std::move(uids);
  if (!record.note.empty() && record.note.size() <= kMaxNote) own["note"] = record.note;
  json::Object whole{{"pods", std::move(pods)}, {"bascule", std::move(own)}};
  std::string text = json::dump(whole);
  if (record.note.empty() || text.size() <= kMaxRecord) return text;
  whole["bascule"].get_object().erase("note");
  return json::dump(whole);
}

std::size_t room_for_pods(const JobRecord& record) {
  const auto printed = [](const std::string& text) { return json::dump(json::Value(text)).size() + 1; };  // a comma
  JobRecord bare = record;
  bare.pods.clear();
  bare.uids.clear();
  bare.note.clear();
  std::size_t size = print_record(bare).size();
  std::size_t room = 0;
  while (room < record.pods.size() && room < record.uids.size()) {
    size += printed(record.pods[room].str()) + printed(record.uids[room].str());
    if (size > kMaxRecord) break;
    ++room;
  }
  return room;
}

std::optional<JobRecord> parse_record(std::string_view admin_comment) {
  // Most foreign comments are empty or plain words: do not wake the parser for them.
  if (admin_comment.empty() || admin_comment.front() != '{' || admin_comment.size() > kLimits.bytes) {
    return std::nullopt;
  }
  json::Value value;
  try {
    value = json::parse(admin_comment, kLimits);
  } catch (const json::ParseError&) {
    return std::nullopt;
  }
  const json::Value* listed = json::find(value, {"pods"});
  if (listed == nullptr) return std::nullopt;
  auto pods = parse_pods(*listed);
  if (!pods) return std::nullopt;

  JobRecord record;
  record.pods = std::move(*pods);
  const json::Object* own = json::object_at(value, {"bascule"});
  if (own == nullptr) {
    // slurm-bridge writes exactly one member; any other company makes the comment somebody else's.
    if (value.as_object().size() != 1) return std::nullopt;
    record.legacy = true;
    return record;
  }
  if (json::int_at(value, {"bascule", "v"}) != kVersion) return std::nullopt;
  record.bridge = json::string_at(value, {"bascule", "bridge"});
  record.cluster = json::string_at(value, {"bascule", "cluster"});
  record.unit = Uid(json::string_at(value, {"bascule", "unit"}));
  record.owner = Uid(json::string_at(value, {"bascule", "owner"}));
  record.cpus = parse_cpus(value, {"bascule", "cpus"});
  record.task = parse_task(value);
  record.note = json::string_at(value, {"bascule", "note"});
  record.spec = json::string_at(value, {"bascule", "spec"});
  record.asked = json::string_at(value, {"bascule", "asked"});
  auto uids = parse_uids(json::array_at(value, {"bascule", "uids"}));
  if (record.bridge.empty() || record.cluster.empty() || record.unit.empty() || !uids ||
      uids->size() != record.pods.size()) {
    return std::nullopt;
  }
  record.uids = std::move(*uids);
  return record;
}

std::string fingerprint(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3u;
  }
  std::array<char, 16> digits{};
  for (std::size_t i = 0; i < digits.size(); ++i) {
    digits[digits.size() - 1 - i] = "0123456789abcdef"[(hash >> (4 * i)) & 0xf];
  }
  return {digits.data(), digits.size()};
}

}  // namespace bascule::bridge
