#include "testing/fake_api_status.hpp"

#include <fmt/format.h>

namespace bascule::testing {

namespace {

json::Object details_of(const kube::Resource& resource, std::string_view name) {
  json::Object details;
  if (!name.empty()) details["name"] = name;
  if (!resource.group.empty()) details["group"] = resource.group;
  details["kind"] = resource.resource;
  return details;
}

std::string qualified(const kube::Resource& resource) {
  return resource.group.empty() ? resource.resource : resource.resource + "." + resource.group;
}

json::Value status_object(std::string_view status, std::string_view message, std::string_view reason,
                          const json::Object& details, int code) {
  json::Object out{{"kind", "Status"}, {"apiVersion", "v1"}, {"metadata", json::Object()}, {"status", status}};
  if (!message.empty()) out["message"] = message;
  if (!reason.empty()) out["reason"] = reason;
  if (!details.empty()) out["details"] = details;
  if (code != 0) out["code"] = code;
  return out;
}

}  // namespace

json::Value ApiFailure::status() const {
  return status_object("Failure", message_, reason_, details_, code_);
}

net::ServerResponse ApiFailure::response() const {
  net::ServerResponse response = json_response(code_, json::dump(status()));
  if (const auto* after = details_.if_contains("retryAfterSeconds")) {
    response.headers.set("Retry-After", std::to_string(after->to_number<int>()));
  }
  return response;
}

ApiFailure ApiFailure::not_found(const kube::Resource& resource, std::string_view name) {
  return {404, "NotFound", fmt::format("{} \"{}\" not found", qualified(resource), name), details_of(resource, name)};
}

ApiFailure ApiFailure::already_exists(const kube::Resource& resource, std::string_view name) {
  return {409, "AlreadyExists", fmt::format("{} \"{}\" already exists", qualified(resource), name),
          details_of(resource, name)};
}

ApiFailure ApiFailure::conflict(const kube::Resource& resource, std::string_view name, std::string_view why) {
  return {409, "Conflict",
          fmt::format("Operation cannot be fulfilled on {} \"{}\": {}", qualified(resource), name, why),
          details_of(resource, name)};
}

ApiFailure ApiFailure::modified(const kube::Resource& resource, std::string_view name) {
  return conflict(resource, name,
                  "the object has been modified; please apply your changes to the latest version and try again");
}

ApiFailure ApiFailure::invalid(const kube::Resource& resource, std::string_view name, std::string_view field,
                               std::string_view why, std::string_view cause) {
  json::Object details;
  if (!name.empty()) details["name"] = name;
  if (!resource.group.empty()) details["group"] = resource.group;
  details["kind"] = resource.kind;
  details["causes"] = json::Array{json::Object{{"reason", cause}, {"message", why}, {"field", field}}};
  const std::string kind = resource.group.empty() ? resource.kind : resource.kind + "." + resource.group;
  return {422, "Invalid", fmt::format("{} \"{}\" is invalid: {}: {}", kind, name, field, why), std::move(details)};
}

ApiFailure ApiFailure::bad_request(std::string_view why) {
  return {400, "BadRequest", std::string(why)};
}

ApiFailure ApiFailure::not_served() {
  return {404, "NotFound", "the server could not find the requested resource"};
}

ApiFailure ApiFailure::expired(std::string_view why) {
  return {410, "Expired", std::string(why)};
}

ApiFailure ApiFailure::too_many(int retry_after_seconds) {
  return {429, "TooManyRequests", "too many requests, please try again later",
          json::Object{{"retryAfterSeconds", retry_after_seconds}}};
}

ApiFailure ApiFailure::internal(std::string_view why) {
  return {500, "InternalError", fmt::format("Internal error occurred: {}", why),
          json::Object{{"causes", json::Array{json::Object{{"message", why}}}}}};
}

ApiFailure ApiFailure::forbidden(const kube::Resource& resource, std::string_view name, std::string_view why) {
  return {403, "Forbidden", fmt::format("{} \"{}\" is forbidden: {}", qualified(resource), name, why),
          details_of(resource, name)};
}

json::Value success_status(int code, json::Object details) {
  return status_object("Success", "", "", details, code);
}

net::ServerResponse json_response(int status, std::string body) {
  net::ServerResponse response{.status = status, .headers = {}, .body = std::move(body), .stream = nullptr};
  response.headers.set("Content-Type", "application/json");
  return response;
}

}  // namespace bascule::testing
