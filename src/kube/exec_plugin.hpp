// Credential plug-ins: a program that prints an ExecCredential. Source: client.authentication.k8s.io/v1.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kube/config.hpp"

namespace bascule::kube {

struct ProgramLimits {
  Duration timeout = std::chrono::seconds(30);
  std::size_t output = std::size_t{1} << 20;  // bytes of each stream; more ends the program
};
struct ProgramResult {
  int exit_code = -1;  // -1: it did not run, or ended by a signal or at a limit
  std::string out;
  std::string err;
  std::string fault;  // why exit_code is -1
  bool not_found = false;
};
// Runs a program to its end, without a terminal, in a process group of its own, which is killed at a limit. Blocks: not
// for the loop's thread. `env` is added to the environment. Never throws.
ProgramResult run_program(const std::string& command, const std::vector<std::string>& args,
                          const std::vector<std::pair<std::string, std::string>>& env, ProgramLimits limits = {});

// The environment variable KUBERNETES_EXEC_INFO.
std::string exec_info(const Config::Exec& exec);

struct ExecToken {
  std::string token;
  std::optional<WallTime> expires;  // nullopt: asked again only after a 401
};
// Throws Unauthorized with a sentence that names the program.
ExecToken read_exec_result(const Config::Exec& exec, const ProgramResult& result);

}  // namespace bascule::kube
