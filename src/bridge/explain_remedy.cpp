#include "bridge/explain_remedy.hpp"

#include <fmt/format.h>

#include <map>

#include "bridge/explain_claim.hpp"

namespace bascule::bridge {

namespace {

const std::map<std::string_view, std::string_view> kRemedies{
    {"InsufficientPods", "Create the pods that are missing: Slurm gets one job for all when they are there."},
    {"InvalidRequest",
     "Correct what the sentence names on the object whose annotations count (the Job, the group, "
     "or the pod itself)."},
    {"SlurmRefused",
     "It is tried again, ever less often. Correct account, partition, QOS or size if Slurm's words "
     "are about them."},
    {"SlurmUnreachable", "It goes on as soon as Slurm answers: `scontrol ping`, then the log of slurmrestd."},
    {"SlurmUnknown", "It goes on as soon as Slurm's tables are known again; nothing is guessed until then."},
    {"SubmitInDoubt", "Nothing to do: within half a minute it is known, and a second job is never submitted."},
    {"Submitting", "Nothing to do: a matter of a moment."},
    {"ForeignJob",
     "Remove the label scheduler.slinky.slurm.net/slurm-jobid from the pod (an administrator may): a new job is "
     "submitted then. Where its job was lost by an overwritten admin comment, cancel that first."},
    {"SlurmStarting",
     "Nothing to do: a matter of a second, or as long as Slurm boots a node or runs PrologSlurmctld. If it lasts, "
     "`scontrol ping` and the log of slurmrestd."},
    {"GangClosed", "Make a new group for new pods."},
    {"OwnerUnknown", "Create the object that is named, or correct the pod's owner or group."},
    {"NodeRefused",
     "The job is given back after 30 seconds and the pod waits for another; see to the node, or "
     "cordon it."},
    {"KubernetesRefused",
     "Whoever refuses is named: an admission policy (Gatekeeper, ValidatingAdmissionPolicy) or a missing right of "
     "the bridge. It is tried again; the job is given back after 30 seconds."},
    {"KubernetesFails",
     "It goes on as soon as the API server does what it is asked. If a webhook is named, see to its pods: with "
     "failurePolicy Fail nothing it watches can be changed while they are away."},
    {"VolumeNotReady",
     "See to the claim that is named: `kubectl describe pvc`. It goes on when the claim has its volume."},
    {"SlurmJobEnded", "A new job is submitted in a moment. If it keeps ending, `sacct -j ID` tells why."}};

// The job that a message begins with.
std::string_view job_in(std::string_view message) {
  constexpr std::string_view kBegin = "Slurm job ";
  if (!message.starts_with(kBegin)) return {};
  message.remove_prefix(kBegin.size());
  return message.substr(0, message.find_first_not_of("0123456789"));
}

// Of the reason "SlurmJob" and a state: the job neither waits nor runs.
std::string remedy_of_state(std::string_view state, std::string_view job) {
  if (state == "SUSPENDED") return fmt::format("`scontrol resume {}` lets it go on.", job);
  return fmt::format("`scontrol show job {}` tells what Slurm does with it; what comes next follows by itself.", job);
}

}  // namespace

std::string queued_job(std::string_view message) {
  const std::string_view job = job_in(message);
  if (job.empty() || !message.substr(message.find(job) + job.size()).starts_with(" is PENDING")) return {};
  return std::string(job);
}

std::string remedy_of(std::string_view reason, std::string_view message) {
  if (std::string remedy = device_remedy(message); !remedy.empty()) return remedy;
  if (message.find("; Kubernetes does not let pod ") != std::string_view::npos) reason = "KubernetesRefused";
  if (const auto it = kRemedies.find(reason); it != kRemedies.end()) return std::string(it->second);
  if (!queued_job(message).empty()) return {};
  if (reason == "Unschedulable") {
    if (!job_in(message).empty()) return "Nothing to do: a matter of a moment.";
    return "Make a node fit, or change the pod: its node selector, affinity, tolerations or size.";
  }
  constexpr std::string_view kState = "SlurmJob";
  if (reason.starts_with(kState)) return remedy_of_state(reason.substr(kState.size()), job_in(message));
  return {};
}

}  // namespace bascule::bridge
