// Admission: one review from text to text, and one description.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include "bridge/description.hpp"
#include "bridge/record.hpp"
#include "bridge/webhook.hpp"

namespace bascule::bridge {
namespace {

// About 5 KB, as the API server sends a pod with two containers, volumes and managed fields.
std::string review() {
  std::string containers;
  for (int i = 0; i < 2; ++i) {
    containers += fmt::format(
        R"({}{{"name":"c{}","image":"registry.example.com/team/image:1.2.3","command":["/bin/sh","-c","sleep 30"],
        "env":[{{"name":"A","value":"1"}},{{"name":"B","valueFrom":{{"fieldRef":{{"fieldPath":"metadata.name"}}}}}}],
        "resources":{{"requests":{{"cpu":"1","memory":"1Gi"}},"limits":{{"cpu":"1","memory":"1Gi"}}}},
        "volumeMounts":[{{"name":"kube-api-access","readOnly":true,"mountPath":"/var/run/secrets/kubernetes.io"}}],
        "terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File",
        "imagePullPolicy":"IfNotPresent"}})",
        i == 0 ? "" : ",", i);
  }
  std::string fields;
  for (int i = 0; i < 40; ++i)
    fields += fmt::format(R"({}"f:field{}":{{"f:name":{{}},"f:value":{{}}}})", i ? "," : "", i);
  return fmt::format(
      R"({{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{{"uid":"705ab4f5-6393-11e8-b7cc",
      "kind":{{"group":"","version":"v1","kind":"Pod"}},"resource":{{"group":"","version":"v1","resource":"pods"}},
      "requestKind":{{"group":"","version":"v1","kind":"Pod"}},"name":"","namespace":"slurm-bridge",
      "operation":"CREATE","userInfo":{{"username":"system:serviceaccount:kube-system:job-controller",
      "groups":["system:serviceaccounts","system:authenticated"]}},"object":{{"kind":"Pod","apiVersion":"v1",
      "metadata":{{"generateName":"sleep-","namespace":"slurm-bridge","labels":{{"batch.kubernetes.io/job-name":"sleep",
      "job-name":"sleep"}},"ownerReferences":[{{"apiVersion":"batch/v1","kind":"Job","name":"sleep","uid":"x",
      "controller":true}}],"managedFields":[{{"manager":"kube-controller-manager","operation":"Update",
      "fieldsV1":{{{}}}}}]}},"spec":{{"volumes":[{{"name":"kube-api-access","projected":{{"sources":[{{"serviceAccountToken":
      {{"expirationSeconds":3607,"path":"token"}}}}]}}}}],"containers":[{}],"restartPolicy":"Never",
      "schedulerName":"default-scheduler","tolerations":[{{"key":"node.kubernetes.io/not-ready","operator":"Exists",
      "effect":"NoExecute","tolerationSeconds":300}}]}},"status":{{}}}},"oldObject":null,"dryRun":false}}}})",
      fields, containers);
}

void admission(benchmark::State& state, std::string_view path) {
  const std::string body = review();
  Config config;
  config.managed_namespaces = {"slurm-bridge"};
  for (auto _ : state) benchmark::DoNotOptimize(respond(config, path, body, nullptr));
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * body.size()));
  state.counters["bytes"] = static_cast<double>(body.size());
}
BENCHMARK_CAPTURE(admission, mutate, kMutatePath);
BENCHMARK_CAPTURE(admission, validate, kValidatePath);

void record(benchmark::State& state) {
  const std::string text = print_record({"slurm-bridge-scheduler",
                                         "c0ffee00-1111-2222-3333-444455556666",
                                         Uid("u"),
                                         "0123456789abcdef",
                                         {{"slurm-bridge", "sleep-abcde"}},
                                         {Uid("u")},
                                         false});
  for (auto _ : state) benchmark::DoNotOptimize(parse_record(text));
}
BENCHMARK(record);

void describe(benchmark::State& state) {
  json::Interner strings;
  auto pod = std::make_shared<kube::Pod>();
  pod->meta.key = {"slurm-bridge", "sleep-abcde"};
  pod->requests = {{strings("cpu"), *Quantity::parse("1500m")}, {strings("memory"), *Quantity::parse("1Gi")}};
  Root root;
  root.annotations = {{strings("slurmjob.slinky.slurm.net/timelimit"), strings("5")}};
  const std::vector<PodPtr> pods{pod};
  const Config config;
  for (auto _ : state) benchmark::DoNotOptimize(describe_job(config, root, pods));
}
BENCHMARK(describe);

}  // namespace
}  // namespace bascule::bridge
