// Cases for the Kubernetes libraries, and the comparison of their answers with ours.
//   strategic_oracle generate COUNT SEED     cases, one JSON object a line (see tools/oracle/go/main.go)
//   strategic_oracle apply                   reads {"kind","type","from","patch"} a line, writes {"value"} or {"error"}
//   strategic_oracle check [GOLDEN COUNT]    reads answered cases, prints what differs and "N passed, N failed";
//                                            writes the first COUNT that are short as golden lines
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <string>

#include "json/patch.hpp"
#include "json/random_objects.hpp"
#include "json/strategic.hpp"

namespace {

using namespace bascule::json;

constexpr std::string_view kKinds[] = {"Pod",
                                       "Node",
                                       "Deployment",
                                       "Service",
                                       "ServiceAccount",
                                       "StatefulSet",
                                       "DaemonSet",
                                       "Job",
                                       "CronJob",
                                       "PersistentVolumeClaim",
                                       "ResourceClaim",
                                       "PodDisruptionBudget",
                                       "MutatingWebhookConfiguration"};

Value attempt(const std::function<Value()>& f) {
  try {
    return Object{{"value", f()}};
  } catch (const PatchError& error) {
    return Object{{"error", error.what()}};
  }
}

void generate(std::uint64_t count, std::uint64_t seed) {
  for (std::uint64_t i = 0; i < count; ++i) {
    random::Objects random(seed + i, 1 + i % 4);
    // Half of them of the kinds that are patched most.
    const std::string_view kind = kKinds[random.pick(random.one_in(2) ? 5 : std::size(kKinds) - 1)];
    const StrategicSchema schema = StrategicSchema::of(kind);
    const Object from = random.object(schema.type());
    const Object to = random.changed(from, schema.type());
    Object line{{"kind", kind}, {"from", from}, {"to", to}, {"patch", random.patch(from, schema.type())}};
    const Value diff = attempt([&] { return diff_strategic(from, to, schema); });
    if (const Value* value = find(diff, {"value"})) line["diff"] = *value;
    line["merge_diff"] = diff_merge(from, to);
    line["json_diff"] = diff_patch(from, to);
    line["json_patch"] = random.json_patch(Value(from));
    std::puts(dump(line).c_str());
  }
}

// The API server's decoder drops directives that were left in a new part of the object; we never put them there.
Value undirected(const Value& value) {
  if (const Object* object = value.if_object()) {
    Object out;
    for (const auto& [key, item] : *object) {
      if (key != kRetainKeys && !is_list_directive(key)) out[key] = undirected(item);
    }
    return out;
  }
  if (const Array* array = value.if_array()) {
    Array out;
    for (const Value& item : *array) out.push_back(undirected(item));
    return out;
  }
  return value;
}

bool null_in_list(const Value& value, bool inside = false) {
  if (value.is_null()) return inside;
  const auto test = [&](const Value& item, bool in) { return null_in_list(item, in); };
  if (const Object* object = value.if_object()) {
    return std::ranges::any_of(*object, [&](const auto& pair) { return test(pair.value(), inside); });
  }
  if (const Array* array = value.if_array()) {
    return std::ranges::any_of(*array, [&](const Value& item) { return test(item, true); });
  }
  return false;
}

class Checker {
 public:
  explicit Checker(std::string_view golden, std::size_t count) : golden_left_(count) {
    if (count > 0) golden_.open(std::string(golden));
  }

  void check(const Value& line) {
    const Value& from = line.at("from");
    const Value& to = line.at("to");
    const Value& patch = line.at("patch");
    const StrategicSchema schema = StrategicSchema::of(string_at(line, {"kind"}));
    const Value equal_to = Object{{"value", to}};
    const Value no_answer = Object{{"error", "refused"}};
    same(line, "our diff, applied by them", answer(line, "diff_applied", no_answer),
         line.at("diff").is_null() ? no_answer : equal_to);
    const Value their_diff = answer(line, "their_diff", no_answer);
    if (const Value* theirs = find(their_diff, {"value"})) {
      same(line, "their diff, applied by us", answer(line, "their_diff_applied", no_answer),
           attempt([&] { return strategic_merged(from, *theirs, schema); }));
    }
    const Value ours = attempt([&] { return strategic_merged(from, patch, schema); });
    same(line, "a random strategic patch", answer(line, "patch_applied", no_answer), ours);
    same(line, "our merge diff, applied by them", answer(line, "merge_diff_applied", no_answer), equal_to);
    if (!null_in_list(patch)) {  // their merge patch drops them, RFC 7396 keeps them
      same(line, "a random merge patch", answer(line, "merge_patch_applied", no_answer),
           attempt([&] { return merged(from, patch); }));
    }
    same(line, "our JSON patch, applied by them", answer(line, "json_diff_applied", no_answer), equal_to);
    const Value by_us = attempt([&] { return patched(from, line.at("json_patch")); });
    if (!laxer(by_us)) same(line, "a random JSON patch", answer(line, "json_patch_applied", no_answer), by_us);
    keep(line, answer(line, "patch_applied", no_answer));
  }

  int finish() const {
    for (const auto& [what, count] : counts_)
      fmt::print("  {:<36} {:>6} agree, {} of them refuse\n", what, count.first, count.second);
    fmt::print("{} passed, {} failed\n", passed_, failed_);
    return failed_ == 0 && passed_ > 0 ? 0 : 1;
  }

 private:
  static Value answer(const Value& line, std::string_view name, const Value& none) {
    const Value* found = find(line, {"answers", name});
    return found ? *found : none;
  }

  // What RFC 6902 forbids and theirs does: copy or replace what is not there, move a value into itself.
  static bool laxer(const Value& ours) {
    const std::string_view error = string_at(ours, {"error"});
    const bool missing = error.contains("is not there") && (error.contains(": copy ") || error.contains(": replace "));
    return missing || error.contains("moved into itself");
  }

  void same(const Value& line, std::string_view what, const Value& theirs, const Value& ours) {
    const Value* a = find(theirs, {"value"});
    const Value* b = find(ours, {"value"});
    if (a && b ? equal(undirected(*a), undirected(*b)) : !a && !b) {
      ++passed_;
      auto& count = counts_[std::string(what)];
      ++count.first;
      if (!a) ++count.second;
      return;
    }
    if (++failed_ > 10) return;
    fmt::print(stderr, "differs: {}\n  case   {}\n  theirs {}\n  ours   {}\n", what, dump(line), dump(theirs),
               dump(ours));
  }

  void keep(const Value& line, const Value& answer) {
    if (golden_left_ == 0) return;
    Object golden{{"kind", line.at("kind")}, {"from", line.at("from")}, {"patch", line.at("patch")}};
    if (const Value* value = find(answer, {"value"})) golden["result"] = *value;
    const std::string text = dump(golden);
    if (text.size() < 60 || text.size() > 1500) return;
    golden_ << text << '\n';
    --golden_left_;
  }

  std::ofstream golden_;
  std::size_t golden_left_;
  std::size_t passed_ = 0;
  std::size_t failed_ = 0;
  std::map<std::string, std::pair<std::size_t, std::size_t>> counts_;
};

Value apply(const Value& line) {
  const Value& from = line.at("from");
  const Value& patch = line.at("patch");
  const std::string_view type = string_at(line, {"type"});
  return attempt([&] {
    if (type == "json") return patched(from, patch);
    if (type == "merge") return merged(from, patch);
    return undirected(strategic_merged(from, patch, StrategicSchema::of(string_at(line, {"kind"}))));
  });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view mode = argc > 1 ? argv[1] : "";
  if (mode == "generate" && argc == 4) {
    generate(std::stoull(argv[2]), std::stoull(argv[3]));
    return 0;
  }
  if (mode == "check" && (argc == 2 || argc == 4)) {
    Checker checker(argc == 4 ? argv[2] : "", argc == 4 ? std::stoull(argv[3]) : 0);
    for (std::string line; std::getline(std::cin, line);) checker.check(parse(line));
    return checker.finish();
  }
  if (mode == "apply" && argc == 2) {
    for (std::string line; std::getline(std::cin, line);) std::puts(dump(apply(parse(line))).c_str());
    return 0;
  }
  fmt::print(
      stderr,
      "usage: strategic_oracle generate COUNT SEED | strategic_oracle check [GOLDEN COUNT] | strategic_oracle apply\n");
  return 2;
}
