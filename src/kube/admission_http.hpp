// Admission reviews over HTTP: what every admission webhook does alike before and after it decides.
#pragma once

#include <cstddef>
#include <expected>
#include <string>
#include <string_view>

#include "json/value.hpp"
#include "kube/admission_review.hpp"
#include "net/http.hpp"

namespace bascule::kube {

// Bytes of a request's body. An object is at most 1.5 MiB in etcd (3 MiB as JSON with escapes), and an update carries
// two.
inline constexpr std::size_t kMaxAdmissionReview = std::size_t{8} << 20;

// The document of a request's body, for read_admission_review(), which points into it. The error is a sentence for the
// caller.
std::expected<json::Value, std::string> parse_admission_review(std::string_view body);

net::ServerResponse admission_response(const AdmissionReview& review, const AdmissionVerdict& verdict);
// To a request that is no review.
net::ServerResponse admission_refusal(int status, std::string_view sentence);

}  // namespace bascule::kube
