// The operator's admission webhook over HTTP: an AdmissionReview in, an AdmissionReview out. What cannot be understood
// is answered 400 with a sentence; the API server then applies the failure policy.
#pragma once

#include "base/loop.hpp"
#include "kube/client.hpp"
#include "net/http.hpp"
#include "operator/webhook/review.hpp"

namespace bascule::op {

struct WebhookOptions {
  // All look-ups of one review together: what is not known by then stays unknown. Below the API server's own patience,
  // so that a slow look-up costs a check, not the request.
  Duration look_up_for = std::chrono::seconds(3);
};

// `kube` and its loop outlive the handler. Other paths are 404, other methods 405.
net::Handler make_webhook(kube::Client& kube, WebhookOptions options = {});

}  // namespace bascule::op
