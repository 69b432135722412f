// The objects of a state behind the API server's paths, in memory: enough for the owner walk of the scheduler, which so
// is the same code offline.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/manual_loop.hpp"
#include "bridge/owners.hpp"
#include "net/http.hpp"

namespace bascule::bridge {

class SimulatedApi final {
 public:
  // All outlive this.
  SimulatedApi(ManualLoop& loop, const std::vector<json::Value>& objects, json::Interner& interner);
  SimulatedApi(const SimulatedApi&) = delete;
  SimulatedApi& operator=(const SimulatedApi&) = delete;
  ~SimulatedApi();

  Owners::Found root_of(PodPtr pod);

 private:
  Task<net::ServerResponse> serve(const net::ServerRequest& request) const;

  ManualLoop& loop_;
  std::map<std::string, const json::Value*> objects_;  // by path
  // What the file has of a group and version, by their path: resources by name, as discovery tells them.
  std::map<std::string, std::map<std::string, json::Value>> kinds_;
  std::unique_ptr<net::Transport> transport_;
  std::unique_ptr<kube::Client> client_;
  std::unique_ptr<kube::Informer<kube::Job>> jobs_;  // never started: a Job is read as its owners are
  std::unique_ptr<Owners> owners_;
};

}  // namespace bascule::bridge
