// The events of one object, for people: from events.k8s.io, or from the core API where whoever asks may read only those
// (the role `view` names them alone).
#pragma once

#include <string>

#include "base/async.hpp"
#include "json/value.hpp"
#include "kube/client.hpp"

namespace bascule::kube {

struct ReadEvents {
  json::Value list = json::Object{};  // an EventList of either API
  std::string problem = {};           // why they could not be read; empty: they were
};

// They are never worth failing for: whatever goes wrong is the problem.
Task<ReadEvents> read_events(Client& client, std::string kind, NamespacedName key, std::string uid);

}  // namespace bascule::kube
