#include "bridge/webhook.hpp"

#include <fmt/format.h>

namespace bascule::bridge {

namespace {

net::ServerResponse plain(int status, std::string sentence) {
  net::ServerResponse response;
  response.status = status;
  response.headers.add("Content-Type", "text/plain; charset=utf-8");
  response.body = std::move(sentence) + "\n";
  return response;
}

std::expected<json::Value, std::string> parse_body(std::string_view body) {
  try {
    return json::parse(body, {.depth = 64, .bytes = kMaxReview});
  } catch (const json::ParseError& error) {
    return std::unexpected(fmt::format("the body is not JSON: {}", error.what()));
  }
}

Verdict decide(const Config& config, std::string_view path, const Review& review, const json::Object* labels) {
  const Managed state = managed(config, review.ns, labels);
  return path == kMutatePath ? mutate(config, review, state) : validate(config, review, state);
}

net::ServerResponse written(const Review& review, const Verdict& verdict) {
  net::ServerResponse response;
  response.headers.add("Content-Type", "application/json");
  response.body = json::dump(kube::admission_answer(review, verdict));
  return response;
}

struct Webhook {
  const Config& config;
  NamespaceLabels labels_of;

  Task<net::ServerResponse> serve(const net::ServerRequest& request, std::stop_token stop) const {
    const std::string_view target = request.target;
    const std::string_view path = target.substr(0, target.find('?'));
    if (path != kMutatePath && path != kValidatePath) co_return plain(404, "no webhook has this path");
    if (request.method != "POST") co_return plain(405, "an AdmissionReview comes by POST");
    const auto document = parse_body(request.body);
    const auto review = document ? kube::read_admission_review(*document) : std::unexpected(document.error());
    if (!review) co_return plain(400, review.error());
    std::optional<json::Object> labels;
    const bool decides = path == kValidatePath || review->operation == kube::AdmissionOperation::kCreate;
    const bool asks = labels_of != nullptr && decides && needs_namespace(config, *review);
    if (asks) labels = co_await labels_of(std::string(review->ns), stop);
    co_return written(*review, decide(config, path, *review, labels ? &*labels : nullptr));
  }
};

}  // namespace

net::ServerResponse respond(const Config& config, std::string_view path, std::string_view body,
                            const json::Object* labels) {
  const auto document = parse_body(body);
  const auto review = document ? kube::read_admission_review(*document) : std::unexpected(document.error());
  if (!review) return plain(400, review.error());
  return written(*review, decide(config, path, *review, labels));
}

net::Handler make_webhook(const Config& config, NamespaceLabels labels) {
  auto webhook = std::make_shared<const Webhook>(Webhook{config, std::move(labels)});
  // The handler owns the webhook; the server keeps the handler for as long as a request runs.
  return [webhook](const net::ServerRequest& request, std::stop_token stop) {
    return webhook->serve(request, std::move(stop));
  };
}

}  // namespace bascule::bridge
