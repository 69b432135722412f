// Admission webhooks of the fake API server, over any handler: reviews out, patches and verdicts in, as
// admission.k8s.io/v1 has it. Pass the result to FakeApi::set_admission.
// Source: "Dynamic Admission Control".
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "net/http.hpp"
#include "testing/fake_api.hpp"

namespace bascule::testing {

struct Webhook {
  std::string name;  // in messages
  std::string path;
  bool mutating = false;  // mutating ones are asked first
  std::vector<std::string> kinds = {"Pod"};
  std::vector<std::string> operations = {"CREATE"};
  std::string subresource = {};
  bool ignore_failure = false;                              // failurePolicy
  std::function<bool(const Admission&)> selects = nullptr;  // object and namespace selectors
};

// `far` and the loop outlive the hook. A call that fails or is not answered in `timeout` is refused, or ignored.
AdmissionHook call_webhooks(Loop& loop, net::Transport& far, std::vector<Webhook> hooks,
                            Duration timeout = std::chrono::seconds(10));

}  // namespace bascule::testing
