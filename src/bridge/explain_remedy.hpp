// What to do about what the scheduler says of a pod that waits, in plain words. Pure.
#pragma once

#include <string>
#include <string_view>

namespace bascule::bridge {

// About a condition of ours (Waiting::reason and message); empty: nothing but wait.
std::string remedy_of(std::string_view reason, std::string_view message);
// The job that such a message says is in Slurm's queue: such a pod is bound as soon as it runs. Empty: none.
std::string queued_job(std::string_view message);

}  // namespace bascule::bridge
