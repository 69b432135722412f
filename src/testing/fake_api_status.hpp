// The Status objects of a Kubernetes API server, thrown inside the fake one and answered as real ones are.
// Source: Kubernetes API conventions, "Response Status Kind".
#pragma once

#include <exception>
#include <string>
#include <string_view>

#include "json/value.hpp"
#include "kube/resource.hpp"
#include "net/http.hpp"

namespace bascule::testing {

class ApiFailure final : public std::exception {
 public:
  ApiFailure(int code, std::string reason, std::string message, json::Object details = {})
      : code_(code), reason_(std::move(reason)), message_(std::move(message)), details_(std::move(details)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  int code() const noexcept { return code_; }
  const std::string& reason() const noexcept { return reason_; }
  // The Status object.
  json::Value status() const;
  net::ServerResponse response() const;

  // `resource` names the kind in messages ("pods", "jobs.batch").
  static ApiFailure not_found(const kube::Resource& resource, std::string_view name);
  static ApiFailure already_exists(const kube::Resource& resource, std::string_view name);
  static ApiFailure conflict(const kube::Resource& resource, std::string_view name, std::string_view why);
  static ApiFailure modified(const kube::Resource& resource, std::string_view name);
  static ApiFailure invalid(const kube::Resource& resource, std::string_view name, std::string_view field,
                            std::string_view why, std::string_view cause = "FieldValueInvalid");
  static ApiFailure bad_request(std::string_view why);
  static ApiFailure not_served();
  static ApiFailure expired(std::string_view why);
  static ApiFailure too_many(int retry_after_seconds);
  static ApiFailure internal(std::string_view why);
  static ApiFailure forbidden(const kube::Resource& resource, std::string_view name, std::string_view why);

 private:
  int code_;
  std::string reason_;
  std::string message_;
  json::Object details_;
};

// {"kind":"Status","status":"Success",...}, the answer to a deletion or a binding.
json::Value success_status(int code = 0, json::Object details = {});
net::ServerResponse json_response(int status, std::string body);

}  // namespace bascule::testing
