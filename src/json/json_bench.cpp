// Splitter and hot reader on a list of pods of about 8 KB, patches on a pod of about 10 KB.
#include <benchmark/benchmark.h>

#include <string>

#include "json/hot.hpp"
#include "json/intern.hpp"
#include "json/patch.hpp"
#include "json/split.hpp"
#include "json/strategic.hpp"

namespace bascule::json {
namespace {

Value pod(int number, int containers) {
  Value pod =
      parse(R"({"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","labels":{"app":"x","team":"y"}},
    "spec":{"schedulerName":"slurm-bridge","tolerations":[{"key":"a","operator":"Exists"}],"containers":[]},
    "status":{"phase":"Pending","conditions":[{"type":"Ready","status":"False"},{"type":"PodScheduled","status":"True"}]}})");
  at_or_create(pod, {"metadata", "name"}) = "pod-" + std::to_string(number);
  at_or_create(pod, {"metadata", "uid"}) = "6f1c7d1e-0000-4000-8000-" + std::to_string(100000000000 + number);
  for (int i = 0; i < 30; ++i) {
    at_or_create(pod, {"metadata", "annotations"}).is_null();
    at_or_create(pod, {"metadata", "annotations", "example.com/annotation-" + std::to_string(i)}) =
        std::string(60, 'v');
  }
  Array& list = find(pod, {"spec", "containers"})->get_array();
  for (int i = 0; i < containers; ++i) {
    Object container{{"name", "container-" + std::to_string(i)}, {"image", "registry.example.com/team/image:1.2.3"}};
    Array env;
    for (int n = 0; n < 20; ++n)
      env.push_back(Object{{"name", "VAR_" + std::to_string(n)}, {"value", std::string(40, 'e')}});
    container["env"] = std::move(env);
    container["resources"] = parse(R"({"requests":{"cpu":"100m","memory":"1Gi"},"limits":{"cpu":"2"}})");
    container["volumeMounts"] = parse(R"([{"name":"a","mountPath":"/a"},{"name":"b","mountPath":"/b"}])");
    list.push_back(std::move(container));
  }
  return pod;
}

const std::string& pod_list() {
  static const std::string text = [] {
    Array items;
    for (int i = 0; i < 500; ++i) items.push_back(pod(i, 3));
    return dump(Object{
        {"kind", "PodList"}, {"apiVersion", "v1"}, {"metadata", Object{{"resourceVersion", "1"}}}, {"items", items}});
  }();
  return text;
}

template <class F>
void split_list(F&& f) {
  const std::string_view text = pod_list();
  ListSplitter splitter;
  for (std::size_t at = 0; at < text.size(); at += 65536) {
    splitter.feed(text.substr(at, 65536));
    while (const auto item = splitter.next()) f(*item);
  }
  splitter.finish();
}

void list_splitter(benchmark::State& state) {
  for (auto _ : state) {
    split_list([](std::string_view item) { benchmark::DoNotOptimize(item.data()); });
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * pod_list().size()));
}
BENCHMARK(list_splitter)->Unit(benchmark::kMillisecond);

void list_split_and_read(benchmark::State& state) {
  Interner interner;
  for (auto _ : state) {
    split_list([&](std::string_view item) {
      hot::parser().parse_padded(item, [&](std::string_view key, hot::Value value) {
        if (key == "metadata") {
          value.fields([&](std::string_view name, hot::Value v) {
            if (name == "labels") {
              v.fields([&](std::string_view label, hot::Value text) {
                benchmark::DoNotOptimize(interner(label));
                benchmark::DoNotOptimize(interner(text.string().value_or("")));
              });
            } else if (name == "name" || name == "namespace" || name == "uid") {
              benchmark::DoNotOptimize(interner(v.string().value_or("")));
            }
          });
        } else if (key == "spec") {
          value.fields([&](std::string_view name, hot::Value v) {
            if (name == "schedulerName") benchmark::DoNotOptimize(interner(v.string().value_or("")));
          });
        }
      });
    });
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * pod_list().size()));
}
BENCHMARK(list_split_and_read)->Unit(benchmark::kMillisecond);

void intern(benchmark::State& state) {
  Interner interner;
  const InternedString held = interner("topology.kubernetes.io/zone");
  for (auto _ : state) benchmark::DoNotOptimize(interner("topology.kubernetes.io/zone"));
}
BENCHMARK(intern);

struct Pair {
  Value from = pod(1, 5);
  Value to = from;
  Pair() {
    at_or_create(to, {"spec", "nodeName"}) = "node-7";
    at_or_create(to, {"metadata", "labels", "job"}) = "1234";
    find(to, {"spec", "containers"})->get_array()[2].get_object()["image"] = "other";
  }
};

void strategic_diff(benchmark::State& state) {
  const Pair pair;
  const auto schema = StrategicSchema::of("Pod");
  for (auto _ : state) benchmark::DoNotOptimize(diff_strategic(pair.from, pair.to, schema));
  state.SetLabel(std::to_string(dump(pair.from).size()) + " bytes");
}
BENCHMARK(strategic_diff)->Unit(benchmark::kMicrosecond);

void strategic_apply(benchmark::State& state) {
  const Pair pair;
  const auto schema = StrategicSchema::of("Pod");
  const Value patch = diff_strategic(pair.from, pair.to, schema);
  for (auto _ : state) benchmark::DoNotOptimize(strategic_merged(pair.from, patch, schema));
}
BENCHMARK(strategic_apply)->Unit(benchmark::kMicrosecond);

void value_copy(benchmark::State& state) {
  const Pair pair;
  for (auto _ : state) benchmark::DoNotOptimize(Value(pair.from));
}
BENCHMARK(value_copy)->Unit(benchmark::kMicrosecond);

void json_patch_diff(benchmark::State& state) {
  const Pair pair;
  for (auto _ : state) benchmark::DoNotOptimize(diff_patch(pair.from, pair.to));
}
BENCHMARK(json_patch_diff)->Unit(benchmark::kMicrosecond);

void value_parse(benchmark::State& state) {
  const std::string text = dump(pod(1, 5));
  for (auto _ : state) benchmark::DoNotOptimize(parse(text));
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * text.size()));
}
BENCHMARK(value_parse)->Unit(benchmark::kMicrosecond);

void value_dump(benchmark::State& state) {
  const Value value = pod(1, 5);
  std::size_t bytes = 0;
  for (auto _ : state) bytes += dump(value).size();
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes));
}
BENCHMARK(value_dump)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace bascule::json
