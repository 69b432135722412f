#include "kube/admission_http.hpp"

#include <fmt/format.h>

namespace bascule::kube {

std::expected<json::Value, std::string> parse_admission_review(std::string_view body) {
  try {
    return json::parse(body, {.depth = 64, .bytes = kMaxAdmissionReview});
  } catch (const json::ParseError& error) {
    return std::unexpected(fmt::format("the body is not JSON: {}", error.what()));
  }
}

net::ServerResponse admission_response(const AdmissionReview& review, const AdmissionVerdict& verdict) {
  net::ServerResponse response;
  response.headers.add("Content-Type", "application/json");
  response.body = json::dump(admission_answer(review, verdict));
  return response;
}

net::ServerResponse admission_refusal(int status, std::string_view sentence) {
  net::ServerResponse response;
  response.status = status;
  response.headers.add("Content-Type", "text/plain; charset=utf-8");
  response.body = fmt::format("{}\n", sentence);
  return response;
}

}  // namespace bascule::kube
