#include "kube/event_read.hpp"

#include <optional>

#include "kube/event_list.hpp"

namespace bascule::kube {

namespace {

const Resource kCoreEvents{"", "v1", "events", "Event", true};

// nullopt: whoever asks has no right to this API's.
Task<std::optional<json::Value>> list_events(Client& client, const Resource& resource, std::string ns,
                                             std::string fields) {
  try {
    co_return co_await client.list(resource, std::move(ns), {"", std::move(fields)});
  } catch (const Forbidden&) {
  }
  co_return std::nullopt;
}

}  // namespace

Task<ReadEvents> read_events(Client& client, std::string kind, NamespacedName key, std::string uid) {
  ReadEvents out;
  try {
    auto list = co_await list_events(client, resources::kEvents, key.ns, "regarding.name=" + key.name);
    if (!list) list = co_await list_events(client, kCoreEvents, key.ns, "involvedObject.name=" + key.name);
    if (list) {
      out.list = events_about(*list, kind, uid);
    } else {
      out.problem = "you may not read them";
    }
  } catch (const Error& error) {
    out.problem = error.what();
  }
  co_return out;
}

}  // namespace bascule::kube
