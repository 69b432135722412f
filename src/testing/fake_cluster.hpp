// The rest of a Kubernetes cluster beside the fake API server: kubelets, the Job controller, the garbage collector, pod
// garbage collection, namespace deletion, node heartbeats. Each is a step over the server's state; nothing happens
// between steps. start() makes steps by the clock.
// They act from inside the server and so never fail, and are not counted as calls; pods made by the Job controller
// pass admission.
// Sources: "Pod Lifecycle", "Jobs", "Garbage Collection", "Dynamic Resource Allocation" of the Kubernetes
// documentation.
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "base/async.hpp"
#include "testing/fake_api.hpp"

namespace bascule::testing {

struct FakeClusterOptions {
  Duration tick = std::chrono::milliseconds(100);
  Duration pod_start = std::chrono::seconds(1);  // from bound to Running
  // From Running to its end; the annotation fake/run-for (Go duration in seconds, "7") overrides, "forever" never ends.
  // fake/exit: "1" makes the pod fail. Pods with restartPolicy Always run until they are deleted.
  Duration pod_run = std::chrono::seconds(10);
  Duration pod_stop = std::chrono::seconds(1);     // from deletion to its end, at most its grace
  Duration job_backoff = std::chrono::seconds(1);  // before a failed pod is made anew
  Duration missing_node = std::chrono::seconds(40);
  bool heartbeats = false;  // node leases, every 10 s
};

class FakeCluster final {
 public:
  explicit FakeCluster(FakeApi& api, FakeClusterOptions options = {});
  ~FakeCluster();  // after stop()

  void start();
  Task<> stop();

  // All of them once.
  void step();
  void kubelets();
  void jobs();
  void garbage();          // owner references, foreground and orphan deletion
  void pod_garbage();      // pods without node or whose node is gone
  void resource_claims();  // reservations of pods that are over or gone, and the protection of claims without any
  void namespaces();
  void heartbeats();

  // The kubelet of that node does nothing any more, or works again; its Node turns NotReady or Ready.
  void set_node_alive(const std::string& node, bool alive);
  // Whether claims are looked after.
  void set_claim_controller(bool works) {
    claim_controller_ = works;
    waiting_ = true;
  }

 private:
  void kubelet_of(const ObjectPtr& pod);
  void finish_pod(const ObjectPtr& pod, bool failed, std::string_view reason);
  void sync_claim(ApiTable& table, const ObjectPtr& claim);
  void sync_job(const ObjectPtr& job, const std::vector<ObjectPtr>& pods);
  void start_pods(const json::Value& job, std::int64_t wanted, std::set<std::int64_t> indexes);
  Task<> create_pod(json::Value pod, std::string job_uid);
  void drop_finalizer(ApiTable& table, const ObjectPtr& object, std::string_view finalizer);
  void write(ApiTable& table, const ObjectPtr& before, json::Value after, std::string_view subresource);
  // When something first was as it is; forgotten when the step that asks no longer does.
  TimePoint since(const std::string& what);
  void arm();

  FakeApi& api_;
  Loop& loop_;
  FakeClusterOptions options_;
  Gate gate_;
  Loop::TimerId timer_ = 0;
  std::unordered_map<std::string, TimePoint> seen_;
  std::unordered_map<std::string, int> creating_;
  std::set<std::string> dead_nodes_;
  std::uint64_t looked_at_ = 0;  // version at the last step
  bool claim_controller_ = true;
  bool waiting_ = true;  // something will happen by time alone
};

}  // namespace bascule::testing
