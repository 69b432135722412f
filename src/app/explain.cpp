// `bascule explain KIND/NAME`: what Kubernetes knows of a pod or a gang and of its Slurm jobs, of a node, or of an
// object of the operator, in plain words.
#include <iostream>

#include "app/process.hpp"
#include "app/terminal.hpp"
#include "base/log.hpp"
#include "bridge/explain_read.hpp"
#include "kube/config.hpp"
#include "operator/explain/read.hpp"

namespace bascule::app {

namespace {

enum class Subject : std::uint8_t { kPod, kNode, kPodGroup, kLeaderWorkerSet };

// kubectl's names, short ones too, and with an API group ("podgroup.scheduling.x-k8s.io/ring").
Subject subject_of(std::string_view word, const std::string& object) {
  if (word == "pod" || word == "pods" || word == "po") return Subject::kPod;
  if (word == "node" || word == "nodes" || word == "no") return Subject::kNode;
  if (word == "podgroup" || word == "podgroups" || word == "pg") return Subject::kPodGroup;
  if (word == "lws" || word == "leaderworkerset" || word == "leaderworkersets") return Subject::kLeaderWorkerSet;
  throw UsageError(
      "explain: expected pod, podgroup, lws, node, nodeset, controller, loginset, restapi, accounting or token, a "
      "slash and a name, not \"" +
      object + "\"");
}

void print(const json::Value& value) {
  std::cout << json::dump_pretty(value);
}

Task<> explain(kube::Client& client, Subject subject, NamespacedName key, bool as_json) {
  if (subject == Subject::kPod || subject == Subject::kNode) {
    const bridge::Explanation explanation = subject == Subject::kPod
                                                ? co_await bridge::read_pod_explanation(client, key)
                                                : co_await bridge::read_node_explanation(client, key.name);
    if (as_json) {
      print(bridge::to_json(explanation));
    } else {
      std::cout << bridge::to_text(explanation, colours_wanted());
    }
    co_return;
  }
  const auto kind =
      subject == Subject::kPodGroup ? bridge::GroupObject::kPodGroup : bridge::GroupObject::kLeaderWorkerSet;
  const std::vector<bridge::GroupExplanation> groups = co_await bridge::read_group_explanations(client, kind, key);
  json::Array list;
  std::string text;
  for (const bridge::GroupExplanation& group : groups) {
    list.push_back(bridge::to_json(group));
    text += (text.empty() ? "" : "\n") + bridge::to_text(group, colours_wanted());
  }
  if (as_json) {
    print(json::Object{{"groups", std::move(list)}});
  } else {
    std::cout << text;
  }
}

Task<> explain_of_operator(kube::Client& client, const kube::Resource& resource, NamespacedName key, bool as_json) {
  const op::explain::Explanation explanation = co_await op::explain::read_explanation(client, resource, std::move(key));
  if (as_json) {
    print(op::explain::to_json(explanation));
  } else {
    std::cout << op::explain::to_text(explanation, client.loop().wall(), colours_wanted());
  }
}

}  // namespace

int run_explain(const ExplainOptions& options) {
  log::configure(log::Level::kError, log::Format::kText);
  const std::size_t slash = options.object.find('/');
  std::string_view word = std::string_view(options.object).substr(0, slash);
  word = word.substr(0, word.find('.'));
  const kube::Resource* resource = op::explain::resource_of(word);
  const Subject subject = resource != nullptr ? Subject::kPod : subject_of(word, options.object);
  const std::string name = slash == std::string::npos ? "" : options.object.substr(slash + 1);
  if (name.empty() || name.find('/') != std::string::npos) {
    throw UsageError("explain: expected a name after the kind, as in pod/train-0, not \"" + options.object +
                     "\"; -n chooses the namespace");
  }
  net::IoLoop loop;
  kube::Connection connection(loop, kube::load_config({options.kube.kubeconfig, options.kube.context}),
                              {.user_agent = "bascule-explain/" BASCULE_VERSION});
  const NamespacedName key{options.kube.ns.empty() ? connection.default_namespace() : options.kube.ns, name};
  const bool as_json = options.output == "json";
  run_to_end(loop, resource != nullptr ? explain_of_operator(connection.client(), *resource, key, as_json)
                                       : explain(connection.client(), subject, key, as_json));
  return 0;
}

}  // namespace bascule::app
