#include "kube/event_list.hpp"

#include <algorithm>

namespace bascule::kube {

namespace {

// The same field by its name in events.k8s.io, then in the core API.
std::string_view either(const json::Value& event, std::string_view name, std::string_view core_name) {
  const std::string_view text = json::string_at(event, {name});
  return text.empty() ? json::string_at(event, {core_name}) : text;
}

}  // namespace

std::vector<PastEvent> newest_events(const json::Value& list, std::size_t most) {
  std::vector<PastEvent> out;
  const json::Array* items = json::array_at(list, {"items"});
  if (items == nullptr) return out;
  for (const json::Value& event : *items) {
    std::string_view time = json::string_at(event, {"series", "lastObservedTime"});
    if (time.empty()) time = json::string_at(event, {"eventTime"});
    if (time.empty()) time = either(event, "deprecatedLastTimestamp", "lastTimestamp");
    out.push_back({std::string(time), std::string(json::string_at(event, {"reason"})),
                   std::string(either(event, "note", "message"))});
  }
  std::ranges::sort(out);
  if (out.size() > most) out.erase(out.begin(), out.end() - static_cast<std::ptrdiff_t>(most));
  return out;
}

json::Value events_about(const json::Value& list, std::string_view kind, std::string_view uid) {
  json::Array out;
  const json::Array* items = json::array_at(list, {"items"});
  for (std::size_t i = 0; items != nullptr && i < items->size(); ++i) {
    const json::Value& event = (*items)[i];
    const json::Value* about = json::find(event, {"regarding"});
    if (about == nullptr) about = json::find(event, {"involvedObject"});
    if (about == nullptr || json::string_at(*about, {"kind"}) != kind) continue;
    const std::string_view named = json::string_at(*about, {"uid"});
    if (named.empty() || named == uid) out.push_back(event);
  }
  return json::Object{{"items", std::move(out)}};
}

}  // namespace bascule::kube
