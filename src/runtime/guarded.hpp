// A handler for those alone whom Kubernetes lets: the bearer token of each request is checked by a TokenReview, and the
// user's right by a SubjectAccessReview for the verb (get) and path, as kube-rbac-proxy and controller-runtime's secure
// metrics do. Verdicts are kept for a minute, so a scrape costs no calls.
#pragma once

#include "kube/client.hpp"
#include "net/http.hpp"

namespace bascule::runtime {

// 401 without a token Kubernetes knows, 403 without the right, 503 while that cannot be learnt, or while four others
// are asked about. `kube` outlives it; best a client for this alone, since whoever reaches the port has questions
// asked.
net::Handler guarded(kube::Client& kube, net::Handler handler);

}  // namespace bascule::runtime
