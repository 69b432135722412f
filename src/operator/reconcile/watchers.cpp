#include "operator/reconcile/watchers.hpp"

namespace bascule::op::reconcile {

void Watchers::note(const std::string& reader, const std::string& thing) {
  readers_[thing].insert(reader);
  noted_[reader].insert(thing);
  if (const auto look = fresh_.find(reader); look != fresh_.end()) look->second.insert(thing);
}

void Watchers::finish(const std::string& reader) {
  const auto look = fresh_.find(reader);
  if (look == fresh_.end()) return;
  for (const std::string& thing : noted_[reader]) {
    if (!look->second.contains(thing)) drop(reader, thing);
  }
  noted_[reader] = std::move(look->second);
  fresh_.erase(look);
}

void Watchers::forget(const std::string& reader) {
  const auto noted = noted_.find(reader);
  if (noted == noted_.end()) return;
  for (const std::string& thing : noted->second) drop(reader, thing);
  noted_.erase(noted);
  fresh_.erase(reader);
}

const std::set<std::string>& Watchers::of(const std::string& thing) const {
  static const std::set<std::string> kNobody;
  const auto found = readers_.find(thing);
  return found == readers_.end() ? kNobody : found->second;
}

void Watchers::drop(const std::string& reader, const std::string& thing) {
  const auto found = readers_.find(thing);
  if (found == readers_.end()) return;
  found->second.erase(reader);
  if (found->second.empty()) readers_.erase(found);
}

}  // namespace bascule::op::reconcile
