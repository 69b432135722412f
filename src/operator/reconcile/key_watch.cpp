#include "operator/reconcile/key_watch.hpp"

namespace bascule::op::reconcile {

NodesStand KeyWatch::look(const NamespacedName& controller) {
  Known& known = known_[controller];
  if (loop_.now() < known.due) return known.stand;
  // Of long ago, and nodes may have been resumed.
  if (known.stand == NodesStand::kClear) known.stand = NodesStand::kAsked;
  const NodesStand stand = known.stand;
  if (!std::exchange(known.asking, true)) spawn(gate_, ask(controller));
  return stand;
}

Task<> KeyWatch::ask(NamespacedName controller) {
  const NodesStand stand = co_await ask_(controller, stopping_.get_token());
  const auto found = known_.find(controller);
  if (found == known_.end()) co_return;
  found->second = {.stand = stand, .due = loop_.now() + kAgain};
  wake_(controller);
}

Task<> KeyWatch::stop() {
  stopping_.request_stop();
  co_await gate_.close();
}

}  // namespace bascule::op::reconcile
