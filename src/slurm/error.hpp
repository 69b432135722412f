// What slurmrestd and slurmctld say no with, one type a decision. Numbers are Slurm's own (slurm_errno.h).
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace bascule::slurm {

class Error : public std::runtime_error {
 public:
  Error(int http, std::int32_t number, const std::string& message)
      : std::runtime_error(message), http_(http), number_(number) {}
  int http() const noexcept { return http_; }               // 0: no answer
  std::int32_t number() const noexcept { return number_; }  // 0: none given

 private:
  int http_;
  std::int32_t number_;
};

// No answer, or slurmrestd cannot reach slurmctld: nothing is known about the effect unless `surely_not_done`.
struct Unreachable final : Error {
  Unreachable(int http, std::int32_t number, const std::string& message, bool surely_not)
      : Error(http, number, message), surely_not_done(surely_not) {}
  bool surely_not_done;
};
// slurmctld looked at it and said no; unchanged it will be refused again.
struct Refused final : Error {
  using Error::Error;
};
// Slurm's number for a node's name that it does not know, in the path or in a list of a job's.
inline constexpr std::int32_t kInvalidNode = 2018;
// slurmctld itself says that this id or name does not exist (2017, 2018, or an answered list without it). A 404 without
// Slurm's own words is Malformed.
struct NotFound final : Error {
  using Error::Error;
};
// Token missing, expired or not accepted (401, 511, 1007).
struct Unauthorized final : Error {
  using Error::Error;
};
// Busy, try later (2016 and kin).
struct Busy final : Error {
  using Error::Error;
};
// Not what the REST API promises, or a version that is not served.
struct Malformed final : Error {
  using Error::Error;
};

}  // namespace bascule::slurm
