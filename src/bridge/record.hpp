// The record an external job carries in its admin_comment: whose it is. It is the only link from Slurm back to
// Kubernetes, so a lost answer or a crash after submit heals by finding the job again, and nobody else's job is ever
// touched.
//
// {"pods":["ns/name",...],"bascule":{"v":1,"bridge":B,"cluster":C,"unit":U,"owner":O,"cpus":N,"task":T,"spec":S,"asked":A,
//  "uids":["...",...],"note":N}}
// `pods` is what slurm-bridge writes and reads; `uids` are the pods' UIDs in the same order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/strong.hpp"

namespace bascule::bridge {

// What each pod was given of a node that its job shares with others.
struct TaskSize {
  std::uint32_t cpus = 0;
  std::optional<std::uint64_t> memory = {};  // MiB; 0: all of the node's; nullopt: Slurm's default
  std::string gres = {};                     // "gres/gpu=1,gres/gpu:TYPE=2"
  friend bool operator==(const TaskSize&, const TaskSize&) = default;
};

struct JobRecord {
  std::string bridge;   // scheduler name: several bridges may share one Slurm
  std::string cluster;  // uid of the namespace kube-system
  Uid unit;             // what the job stands for: a pod's UID, or a gang's
  std::string spec;     // fingerprint of the description last sent (see fingerprint())
  std::vector<NamespacedName> pods;
  std::vector<Uid> uids;
  bool legacy = false;                // written by slurm-bridge: only `pods` is known
  std::uint32_t cpus = 0;             // of each pod, when several may share a node of the job; 0: one pod a node
  Uid owner = {};                     // controller of a single pod, which makes its successor; empty: none, or a gang
  std::optional<TaskSize> task = {};  // nullopt: its nodes are its own
  std::string note = {};              // what somebody had written over the record, kept where there is room
  std::string asked = {};  // fingerprints of what people may change for the job (see asked_of()); empty: not known
  friend bool operator==(const JobRecord&, const JobRecord&) = default;
};

// In bytes. Longer comments are foreign, so whoever writes a record names no more pods than room_for_pods().
inline constexpr std::size_t kMaxRecord = std::size_t{1} << 20;

inline constexpr std::size_t kMaxNote = 1024;

std::string print_record(const JobRecord& record);
// How many of its pods, from the first on, a record of kMaxRecord can name.
std::size_t room_for_pods(const JobRecord& record);
// nullopt: not a record (foreign JSON, other text, a version we do not know, too long).
std::optional<JobRecord> parse_record(std::string_view admin_comment);

// 16 hexadecimal digits of FNV-1a 64: stable across versions and machines.
std::string fingerprint(std::string_view text);

}  // namespace bascule::bridge
