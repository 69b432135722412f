// Events as people read them: the newest of a list, each with the time it was last seen. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "json/value.hpp"

namespace bascule::kube {

struct PastEvent {
  std::string time;  // RFC 3339
  std::string reason;
  std::string note;
  friend auto operator<=>(const PastEvent&, const PastEvent&) = default;
};

// Of an EventList (events.k8s.io/v1, or v1) as the API server gives it: at most `most`, newest last.
std::vector<PastEvent> newest_events(const json::Value& list, std::size_t most);

// Those of the list that are about this object, not about an earlier one of its name. One that names no uid counts.
json::Value events_about(const json::Value& list, std::string_view kind, std::string_view uid);

}  // namespace bascule::kube
