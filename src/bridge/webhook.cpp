#include "bridge/webhook.hpp"

#include "kube/admission_http.hpp"

namespace bascule::bridge {

namespace {

Verdict decide(const Config& config, std::string_view path, const Review& review, const json::Object* labels) {
  const Managed state = managed(config, review.ns, labels);
  return path == kMutatePath ? mutate(config, review, state) : validate(config, review, state);
}

struct Webhook {
  const Config& config;
  NamespaceLabels labels_of;

  Task<net::ServerResponse> serve(const net::ServerRequest& request, std::stop_token stop) const {
    const std::string_view target = request.target;
    const std::string_view path = target.substr(0, target.find('?'));
    if (path != kMutatePath && path != kValidatePath)
      co_return kube::admission_refusal(404, "no webhook has this path");
    if (request.method != "POST") co_return kube::admission_refusal(405, "an AdmissionReview comes by POST");
    const auto document = kube::parse_admission_review(request.body);
    const auto review = document ? kube::read_admission_review(*document) : std::unexpected(document.error());
    if (!review) co_return kube::admission_refusal(400, review.error());
    std::optional<json::Object> labels;
    const bool decides = path == kValidatePath || review->operation == kube::AdmissionOperation::kCreate;
    const bool asks = labels_of != nullptr && decides && needs_namespace(config, *review);
    if (asks) labels = co_await labels_of(std::string(review->ns), stop);
    co_return kube::admission_response(*review, decide(config, path, *review, labels ? &*labels : nullptr));
  }
};

}  // namespace

net::ServerResponse respond(const Config& config, std::string_view path, std::string_view body,
                            const json::Object* labels) {
  const auto document = kube::parse_admission_review(body);
  const auto review = document ? kube::read_admission_review(*document) : std::unexpected(document.error());
  if (!review) return kube::admission_refusal(400, review.error());
  return kube::admission_response(*review, decide(config, path, *review, labels));
}

net::Handler make_webhook(const Config& config, NamespaceLabels labels) {
  auto webhook = std::make_shared<const Webhook>(Webhook{config, std::move(labels)});
  // The handler owns the webhook; the server keeps the handler for as long as a request runs.
  return [webhook](const net::ServerRequest& request, std::stop_token stop) {
    return webhook->serve(request, std::move(stop));
  };
}

}  // namespace bascule::bridge
