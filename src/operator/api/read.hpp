// Custom resources from the JSON the API server sends. Absent fields get their defaults, unknown ones are ignored: the
// CRD of a newer release may know more than we do.
#pragma once

#include <stdexcept>
#include <string>

#include "json/value.hpp"
#include "operator/api/types.hpp"

namespace bascule::op {

// A field has another type or value than its API says. what() is one sentence: object, field, remedy. Nothing can be
// decided for this object until its owner mends it.
class BadObject final : public std::runtime_error {
 public:
  BadObject(std::string object, std::string field, const std::string& sentence)
      : std::runtime_error(sentence), object_(std::move(object)), field_(std::move(field)) {}
  // "NodeSet slurm/gpu"
  const std::string& object() const noexcept { return object_; }
  // "spec.replicas"
  const std::string& field() const noexcept { return field_; }

 private:
  std::string object_;
  std::string field_;
};

// All throw BadObject.
Controller read_controller(const json::Value& object);
Accounting read_accounting(const json::Value& object);
RestApi read_restapi(const json::Value& object);
LoginSet read_loginset(const json::Value& object);
NodeSet read_nodeset(const json::Value& object);
// What a NodeSet should not say either, though it can be read.
void check_nodeset(const json::Value& object);
Token read_token(const json::Value& object);

}  // namespace bascule::op
