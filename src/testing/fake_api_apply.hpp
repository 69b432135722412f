// Server-side apply: who owns which field, and what applying a configuration makes of an object.
// Simpler than the real one: lists merge by the patch merge key of the built-in types (one key, where the real server
// knows several for ports); lists of custom resources are replaced whole; a creation by POST owns nothing.
// Source: Kubernetes documentation "Server-Side Apply".
#pragma once

#include <string>
#include <string_view>

#include "base/loop.hpp"
#include "json/strategic.hpp"
#include "testing/fake_api_store.hpp"

namespace bascule::testing {

struct ApplyRequest {
  std::string manager;
  bool force = false;
  std::string subresource = {};
  WallTime now = {};
};

// `live` is null when the object does not exist; neither value carries kind or apiVersion. Throws ApiFailure 409 naming
// the fields that another manager owns and that the configuration would change, unless forced.
json::Value applied(const ApiResource& resource, const json::Value* live, const json::Value& configuration,
                    const ApplyRequest& request);

// After a write that was no apply: fields it changed leave the other managers and go to `manager`, as an Update entry.
// Does nothing while nobody has applied the object.
void take_ownership(const ApiResource& resource, const json::Value& before, json::Value& after,
                    const ApplyRequest& request);

}  // namespace bascule::testing
