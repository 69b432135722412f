// What an answer of slurmrestd means: which of slurm::Error's kinds, in which words. Pure.
#pragma once

#include <string>
#include <string_view>

#include "net/http.hpp"
#include "slurm/decode.hpp"
#include "slurm/error.hpp"

namespace bascule::slurm {

// A call as it is spoken of in messages and metrics.
struct CallName {
  std::string operation;  // "submit_job": a metric's label
  std::string doing;      // "submitting job \"train\"": begins the sentence
  bool writes = false;    // after a senseless answer the effect is unknown
};

// Throws what a transport's error means. kStopped goes on as it is.
[[noreturn]] void throw_transport(const CallName& call, const net::Error& error);
// Throws for an answer in Slurm's JSON that says no: the first entry of `complaints`.
[[noreturn]] void throw_complaint(const CallName& call, int http, const std::vector<Complaint>& complaints,
                                  const std::vector<Complaint>& warnings);
// Throws for an answer that is not Slurm's JSON: proxies, text/plain of slurmrestd, an empty or truncated body.
[[noreturn]] void throw_foreign(const CallName& call, int http, std::string_view body, std::string_view what);

// Slurm's number says that the token was not taken.
bool says_unauthorized(int http, const std::vector<Complaint>& complaints) noexcept;

}  // namespace bascule::slurm
