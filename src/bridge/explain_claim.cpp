#include "bridge/explain_claim.hpp"

#include <fmt/format.h>

#include <map>
#include <vector>

namespace bascule::bridge {

namespace {

constexpr std::size_t kMostNamed = 8;

// By pool, in the claim's order.
std::string devices_of(const json::Value& claim) {
  const json::Array* results = json::array_at(claim, {"status", "allocation", "devices", "results"});
  if (results == nullptr) return {};
  std::map<std::string, std::vector<std::string>> pools;
  for (const json::Value& one : *results) {
    const std::string pool =
        fmt::format("of pool {} ({})", json::string_at(one, {"pool"}), json::string_at(one, {"driver"}));
    pools[pool].emplace_back(json::string_at(one, {"device"}));
  }
  std::string out;
  for (const auto& [pool, names] : pools) {
    if (!out.empty()) out += ", ";
    for (std::size_t i = 0; i < names.size() && i < kMostNamed; ++i) out += (i == 0 ? "" : ", ") + names[i];
    if (names.size() > kMostNamed) out += fmt::format(" and {} more", names.size() - kMostNamed);
    out += " " + pool;
  }
  return out;
}

// The word after `before`, up to a blank or the end.
std::string_view word_after(std::string_view text, std::string_view before) {
  const std::size_t at = text.find(before);
  if (at == std::string_view::npos) return {};
  text.remove_prefix(at + before.size());
  return text.substr(0, text.find_first_of(" ;,"));
}

std::string command(std::string_view verb, std::string_view claim) {
  const std::size_t slash = claim.find('/');
  if (slash == std::string_view::npos) return {};
  return fmt::format("`kubectl {} resourceclaim {} -n {}`", verb, claim.substr(slash + 1), claim.substr(0, slash));
}

}  // namespace

ClaimStand stand_of_claim(const NamespacedName& key, const json::Value* claim) {
  ClaimStand out{key, ClaimStand::State::kAbsent, {}, {}};
  if (claim == nullptr) return out;
  out.devices = devices_of(*claim);
  out.since = json::string_at(*claim, {"metadata", "creationTimestamp"});
  if (const auto deleted = json::string_at(*claim, {"metadata", "deletionTimestamp"}); !deleted.empty()) {
    out.state = ClaimStand::State::kGoing;
    out.since = deleted;
  } else {
    const bool allocated = json::find(*claim, {"status", "allocation"}) != nullptr;
    out.state = allocated ? ClaimStand::State::kAllocated : ClaimStand::State::kOpen;
  }
  return out;
}

std::string print(const ClaimStand& stand) {
  std::string out = stand.key.str();
  switch (stand.state) {
    case ClaimStand::State::kAbsent:
      return out + " does not exist";
    case ClaimStand::State::kOpen:
      out += " without devices yet";
      break;
    case ClaimStand::State::kAllocated:
      out += " allocated";
      break;
    case ClaimStand::State::kGoing:
      out += " being deleted";
      break;
  }
  if (!stand.devices.empty()) out += ": " + stand.devices;
  if (!stand.since.empty()) out += ", since " + stand.since;
  return out;
}

std::string device_remedy(std::string_view message) {
  const std::string_view holder = word_after(message, "is held by claim ");
  if (!holder.empty()) {
    return fmt::format(
        "{} says whose it is (reservedFor, ownerReferences). It goes on when that pod has ended; a claim "
        "that nobody needs any more is deleted by {}.",
        command("get -o yaml", holder), command("delete", holder));
  }
  if (message.find("has no devices for the pod: ") != std::string_view::npos) {
    return "The job is given back after 30 seconds and the pod waits for another. Compare what Slurm counts "
           "(`scontrol show node`) with what the driver publishes (`kubectl get resourceslices`).";
  }
  if (message.find("devices are not claimed yet: ") == std::string_view::npos) return {};
  const std::string_view named = word_after(message, "ResourceClaim ");
  if (message.find("is not this bridge's") != std::string_view::npos) {
    return fmt::format(
        "Somebody else made a claim of that name: {} makes room, and the bridge makes its own a second "
        "later.",
        command("delete", named));
  }
  if (message.find("is being deleted") != std::string_view::npos) {
    return fmt::format(
        "It is made anew as soon as the old one has gone. If that lasts, something else keeps it: {} "
        "shows its finalizers.",
        command("get -o yaml", named));
  }
  return "Nothing to do: it is tried again each second, and after another claim or somebody's change in between it "
         "works. If it lasts, look at the log of the scheduler.";
}

}  // namespace bascule::bridge
