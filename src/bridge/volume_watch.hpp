// Keeps the Volumes of the scheduler, and has done what they say must be done before a pod is bound.
#pragma once

#include <functional>
#include <stop_token>

#include "base/async.hpp"
#include "bridge/volumes.hpp"
#include "kube/client.hpp"
#include "kube/informer.hpp"

namespace bascule::bridge {

class VolumeWatch final {
 public:
  // All outlive this. `changed` is called after every change, in the middle of it.
  VolumeWatch(kube::Client& kube, json::Interner& interner, Volumes& volumes, std::function<void()> changed);

  void start();
  Task<> stop();
  // Limits are not waited for: what a node cannot attach is kubelet's to say as well.
  bool synced() const { return claims_.synced() && objects_.synced() && classes_.synced(); }

  // As kube-scheduler does: a claim is told its node, or a free volume is given to it; others do the rest, and their
  // changes come back through the watch. What was changed meanwhile is left to the next try.
  Task<> make(Volumes::Binding binding, std::stop_token stop);

 private:
  kube::Client& kube_;
  kube::Informer<kube::DynamicObject> claims_, objects_, classes_, csi_nodes_, attachments_;
};

}  // namespace bascule::bridge
