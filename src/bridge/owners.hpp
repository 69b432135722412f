// Finds the object whose annotations speak for a pod: its controller, as far as we may read it. Jobs come from an
// informer, others by a get that is remembered for a while; a pod nobody controls, or whose controller is of a kind we
// do not know, speaks for itself.
#pragma once

#include <string>
#include <unordered_map>
#include <variant>

#include "bridge/unit.hpp"
#include "kube/client.hpp"
#include "kube/informer.hpp"

namespace bascule::bridge {

class Owners final {
 public:
  // Both outlive this.
  Owners(kube::Client& client, const kube::Informer<kube::Job>& jobs) : client_(client), jobs_(jobs) {}

  // The root, or why it is not known yet.
  Task<std::variant<Root, std::string>> root_of(PodPtr pod, std::stop_token stop);

 private:
  struct Remembered {
    Root root;
    TimePoint at{};
  };
  kube::Client& client_;
  const kube::Informer<kube::Job>& jobs_;
  json::Interner interner_;
  std::unordered_map<Uid, Remembered> remembered_;
};

}  // namespace bascule::bridge
