// What the simulated processes ask the API server for, held against the chart's roles: a right that is missing would
// show only in a cluster, one that nobody uses never.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "testing/fake_api.hpp"

namespace bascule::bridge {

inline constexpr const char* kSchedulerAgent = "slurm-bridge-scheduler";
inline constexpr const char* kControllersAgent = "slurm-bridge-controllers";

class Rights final {
 public:
  // Of this program's run; judged at its end.
  static Rights& of_chart();
  // Counts the calls of clients that have one of the names above.
  void watch(::bascule::testing::FakeApi& api);
  void used(std::string_view agent, const ::bascule::testing::ApiCall& call);
  std::vector<std::string> missing() const { return {missing_.begin(), missing_.end()}; }
  std::vector<std::string> unused() const;

 private:
  struct Right {
    std::string agent, verb, group, resource;
    std::vector<std::string> names;  // empty: any
    bool used = false;
  };
  Rights();

  std::vector<Right> rights_;
  std::set<std::string> missing_;
};

}  // namespace bascule::bridge
