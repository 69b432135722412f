// From pods and their root object to the external job that stands for them. Pure.
// Precedence, lowest first: configuration and Slurm's defaults, what the workload and its pods say, annotations of the
// root. Every fault of the annotations is reported at once, each with its key, its value and what was expected.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bridge/config.hpp"
#include "bridge/record.hpp"
#include "bridge/unit.hpp"
#include "slurm/types.hpp"

namespace bascule::bridge {

// A request that cannot be translated: sentences for the user.
struct DescriptionFaults {
  std::vector<std::string> faults;
};

// How many nodes: exactly as many as there are pods, one task each; for a gang that shares its nodes (exclusive off) as
// many tasks as pods on one node or more. min-nodes and max-nodes cannot change that (a node without a pod would lie
// idle, a pod without a node would wait for ever), so they are checked and not sent.
// Everything of the job but its record, node lists and hold. `pods` are the unit's pods in the unit's order, not empty.
std::expected<slurm::JobDescription, DescriptionFaults> describe_job(const Config& config, const Root& root,
                                                                     const std::vector<PodPtr>& pods);

// What it gives each of its pods; nullopt: whole nodes.
std::optional<TaskSize> task_size(const slurm::JobDescription& job);
// The pod, by a job of its own, would ask for no more than each pod of a job with this record has. False where that
// cannot be told.
bool has_room_for(const JobRecord& record, const Config& config, const Root& root, const PodPtr& pod);
// What configuration and annotations say and an administrator may change while the job waits, whatever its pods and
// nodes: partition, QOS, time limit, priority ... One fingerprint a field, for the record, and how long they can be.
std::string asked_of(const slurm::JobDescription& job);
inline constexpr std::size_t kLongestAsked = 150;
// Leaves out of an update the fields that are wanted as they were when `before` was taken: they were sent then, and
// whoever changed them since knew why.
void leave_unchanged(slurm::JobDescription& job, std::string_view before);
// Whether the partition is one of these.
bool keeps_partition(const slurm::JobDescription& job, std::string_view before);

// The same over annotations alone, for admission. Keys are whole; others than slurmjob.slinky.slurm.net/* are passed
// over.
using AnnotationViews = std::vector<std::pair<std::string_view, std::string_view>>;
std::vector<std::string> annotation_faults(const AnnotationViews& annotations);
// Whether the nodes shall be the job's alone.
bool asks_exclusive(const AnnotationViews& annotations);
// Annotations against the devices the containers ask for by class.
std::vector<std::string> annotation_conflicts(const AnnotationViews& annotations, bool cpu_class, bool gpu_class);
// Misspelt, retired and ineffective keys. slurm-bridge passes over them in silence, so they are not faults. And nodes
// that are shared although the pods ask for `gpu`, a GPU of a device plugin (empty: for none): kubelet chooses it.
std::vector<std::string> annotation_warnings(const AnnotationViews& annotations, std::string_view gpu);
bool is_gpu_of_plugin(std::string_view resource);
// The same of the object whose annotations count for these pods.
std::vector<std::string> root_warnings(const Root& root, const std::vector<PodPtr>& pods);

// A text from a user for a sentence: in quotes, cut at 100 bytes (at a character's edge).
std::string in_quotes(std::string_view text);

}  // namespace bascule::bridge
