// A gang of pods, twelve nodes and a Slurm that answers, for tests of the plan.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bridge/names.hpp"
#include "bridge/node_table.hpp"
#include "bridge/unit_plan.hpp"

namespace bascule::bridge {

using namespace std::chrono_literals;

struct GangTest : ::testing::Test {
  GangTest() {
    config.partition = "p";
    view.uid = Uid("scheduling.x-k8s.io/ns/g");
    view.root = Root{};
    view.root->kind = "PodGroup";
    view.root->key = {"ns", "g"};
    view.root->gang = Gang{2, {}};
    slurm.synced = slurm.nodes_synced = slurm.reachable = true;
    slurm.full_as_of = now;
    for (int i = 1; i <= 12; ++i) add_node("n" + std::to_string(i));
  }

  NodePtr add_node(const std::string& name) {
    auto node = std::make_shared<kube::Node>();
    node->meta.key = {"", name};
    node->meta.uid = Uid("node-" + name);
    node->allocatable = {{interner("cpu"), Quantity(8)},
                         {interner("memory"), Quantity(std::int64_t{32} << 30)},
                         {interner("pods"), Quantity(110)}};
    nodes.on_node(nullptr, node);
    auto record = std::make_shared<slurm::Node>();
    record->name = name;
    record->partitions = {"p"};
    nodes.on_slurm_node(nullptr, record);
    return node;
  }
  std::shared_ptr<kube::Pod> add_pod(const std::string& name) {
    auto pod = std::make_shared<kube::Pod>();
    pod->meta.key = {"ns", name};
    pod->meta.uid = Uid("uid-" + name);
    pod->meta.labels = {{interner(names::kPodGroup), interner("g")}};
    pod->phase = kube::PodPhase::kPending;
    view.pods.push_back(pod);
    return pod;
  }
  // Of another unit, with a job of its own.
  PodPtr another_on(const std::string& node) {
    auto pod = std::make_shared<kube::Pod>();
    pod->meta.key = {"ns", "another"};
    pod->meta.uid = Uid("another");
    bind(*pod, 5, node);
    return pod;
  }
  void mark(kube::Pod& pod, std::uint32_t job) {
    pod.meta.labels = {{interner(names::kSlurmJobId), interner(std::to_string(job))}};
    pod.meta.finalizers = {interner(names::kFinalizer)};
  }
  void bind(kube::Pod& pod, std::uint32_t job, const std::string& node) {
    mark(pod, job);
    pod.node_name = interner(node);
    pod.phase = kube::PodPhase::kRunning;
  }
  // A job whose record names `pods`.
  void add_job(std::uint32_t id, slurm::JobState state, std::vector<std::string> pods, std::string hosts = {}) {
    auto job = std::make_shared<slurm::Job>();
    job->id = JobId{id};
    job->states.base = state;
    job->nodes = std::move(hosts);
    JobRecord record;
    record.unit = view.uid;
    for (const std::string& pod : pods) record.uids.emplace_back("uid-" + pod);
    record.spec = "other";
    view.jobs.push_back({job, record, now});
  }
  UnitPlan plan() { return plan_unit(config, self, view, slurm, nodes, memory, now, wall); }
  static std::vector<std::string> bound(const UnitPlan& plan) {
    std::vector<std::string> out;
    for (const UnitPlan::Bind& bind : plan.binds)
      out.push_back(bind.pod->meta.key.name + "@" + bind.node->meta.key.name);
    return out;
  }

  json::Interner interner;
  Config config;
  Identity self{"bridge", "cluster"};
  UnitView view;
  SlurmView slurm;
  NodeTable nodes;
  UnitMemory memory;
  TimePoint now{1h};
  WallTime wall{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};
};

}  // namespace bascule::bridge
