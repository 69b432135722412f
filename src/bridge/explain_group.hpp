// Where a gang stands between Kubernetes and Slurm, in plain words: who is there, which job each counts on, what the
// others wait for. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "bridge/unit.hpp"
#include "json/value.hpp"

namespace bascule::bridge {

struct GroupExplanation {
  struct Member {
    std::string pod;     // name; its namespace is the group's
    std::string stands;  // one or two words: runs, starts, waits, gated, going, done, failed, other scheduler
    std::string job;     // Slurm job id by its label, or empty
    std::string node;
    std::string why;  // of those that wait: the scheduler's sentence; of those on nodes: what is wrong with their job
    std::string reason;  // of those that wait: the condition's word
  };
  std::string group;            // "PodGroup ns/name", "LeaderWorkerSet ns/name, group 0"
  std::uint32_t minimum = 0;    // that must start together; 0: not known
  std::size_t present = 0;      // members that count towards it: live, ours, without gates, or done
  std::string verdict;          // one sentence: what is the matter now
  std::string next;             // what happens next, or what to do
  std::vector<Member> members;  // by rank
};

// `root`: the group's object, or why it is not known (Owners::Found). `pods`: those that name it, any scheduler's.
GroupExplanation explain_group(const Group& group, const std::variant<Root, std::string>& root,
                               std::vector<PodPtr> pods);
std::string to_text(const GroupExplanation& explanation, bool colours);
json::Value to_json(const GroupExplanation& explanation);

// "PodGroup ns/name", "LeaderWorkerSet ns/name, group 0" by one of its pods, which may be null.
std::string name_of_group(const Group& group, const PodPtr& member);

}  // namespace bascule::bridge
