#include "operator/reconcile/nodes_watch.hpp"

namespace bascule::op::reconcile {

ClusterStand NodesWatch::last(const NamespacedName& controller) const {
  const auto found = known_.find(controller);
  if (found == known_.end()) return {};
  ClusterStand stand = found->second.stand;
  // Of long ago, and nodes may have been resumed.
  if (loop_.now() >= found->second.due && stand.rest == NodesStand::kClear) stand.rest = NodesStand::kAsked;
  return stand;
}

ClusterStand NodesWatch::look(const NamespacedName& controller) {
  Known& known = known_[controller];
  if (loop_.now() >= known.due && !std::exchange(known.asking, true)) spawn(gate_, ask(controller));
  return last(controller);
}

void NodesWatch::let_go(const NamespacedName& controller) {
  const auto found = known_.find(controller);
  if (found != known_.end() && (found->second.asking || loop_.now() >= found->second.due)) known_.erase(found);
}

Task<> NodesWatch::ask(NamespacedName controller) {
  ClusterStand stand = co_await ask_(controller, stopping_.get_token());
  const auto found = known_.find(controller);
  if (found == known_.end()) co_return;
  found->second = {.stand = std::move(stand), .due = loop_.now() + kAgain};
  wake_(controller);
}

Task<> NodesWatch::stop() {
  stopping_.request_stop();
  co_await gate_.close();
}

}  // namespace bascule::op::reconcile
