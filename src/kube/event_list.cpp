#include "kube/event_list.hpp"

#include <algorithm>

namespace bascule::kube {

std::vector<PastEvent> newest_events(const json::Value& list, std::size_t most) {
  std::vector<PastEvent> out;
  const json::Array* items = json::array_at(list, {"items"});
  if (items == nullptr) return out;
  for (const json::Value& event : *items) {
    std::string_view time = json::string_at(event, {"series", "lastObservedTime"});
    if (time.empty()) time = json::string_at(event, {"eventTime"});
    if (time.empty()) time = json::string_at(event, {"deprecatedLastTimestamp"});
    out.push_back({std::string(time), std::string(json::string_at(event, {"reason"})),
                   std::string(json::string_at(event, {"note"}))});
  }
  std::ranges::sort(out);
  if (out.size() > most) out.erase(out.begin(), out.end() - static_cast<std::ptrdiff_t>(most));
  return out;
}

}  // namespace bascule::kube
