// `bascule explain pod/NAME`: what Kubernetes knows of a pod and of its Slurm job, in plain words. Reads only the API
// server, so it works wherever kubectl does.
#include <unistd.h>

#include <iostream>

#include "app/process.hpp"
#include "base/log.hpp"
#include "bridge/explain.hpp"
#include "kube/config.hpp"

namespace bascule::app {

namespace {

struct Facts {
  json::Value pod;
  json::Value events;
};

Task<> fetch(kube::Client& client, NamespacedName key, Facts& facts) {
  facts.pod = co_await client.get(kube::resources::kPods, key);
  facts.events = co_await client.list(kube::resources::kEvents, key.ns, {"", "regarding.name=" + key.name});
}

NamespacedName key_of(const ExplainOptions& options, const std::string& default_ns) {
  std::string_view name = options.object;
  for (const std::string_view prefix : {"pod/", "pods/", "po/"}) {
    if (name.starts_with(prefix)) {
      name.remove_prefix(prefix.size());
      return {options.ns.empty() ? default_ns : options.ns, std::string(name)};
    }
  }
  throw UsageError("explain: expected pod/NAME, not \"" + options.object + "\"");
}

}  // namespace

int run_explain(const ExplainOptions& options) {
  log::configure(log::Level::kError, log::Format::kText);
  net::IoLoop loop;
  kube::Connection connection(loop, kube::load_config({options.kubeconfig, options.context}),
                              {.user_agent = "bascule-explain/" BASCULE_VERSION});
  const NamespacedName key = key_of(options, connection.default_namespace());
  Facts facts;
  try {
    run_to_end(loop, fetch(connection.client(), key, facts));
  } catch (const kube::NotFound&) {
    std::cerr << "bascule: there is no pod " << key.str() << "; -n chooses the namespace\n";
    return 1;
  }
  const bridge::Explanation explanation = bridge::explain_pod(facts.pod, facts.events);
  if (options.output == "json") {
    std::cout << json::dump_pretty(bridge::to_json(explanation)) << "\n";
  } else {
    std::cout << bridge::to_text(explanation, isatty(STDOUT_FILENO) != 0);
  }
  return 0;
}

}  // namespace bascule::app
