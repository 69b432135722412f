// The admission webhook's HTTP face: an AdmissionReview in, an AdmissionReview out, on slurm-bridge's paths.
// What cannot be understood is answered 400 with a sentence; the API server then applies the failure policy.
#pragma once

#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/loop.hpp"
#include "base/task.hpp"
#include "bridge/admission_review.hpp"
#include "bridge/config.hpp"
#include "net/http.hpp"

namespace bascule::bridge {

inline constexpr std::string_view kMutatePath = "/mutate--v1-pod";
inline constexpr std::string_view kValidatePath = "/validate--v1-pod";

// The labels of a namespace, asked only when a selector is configured and the pod itself does not decide. nullopt: not
// known. Must not throw.
using NamespaceLabels = std::function<Task<std::optional<json::Object>>(std::string ns, std::stop_token stop)>;

// `labels` may be nullptr: they are never known. `config` outlives the handler. Other paths are 404, other methods 405.
net::Handler make_webhook(const Config& config, NamespaceLabels labels);

// One exchange with what is known of the namespace at hand (nullptr: nothing). The status and the body.
net::ServerResponse respond(const Config& config, std::string_view path, std::string_view body,
                            const json::Object* labels);

}  // namespace bascule::bridge
