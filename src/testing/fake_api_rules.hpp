// What a kind's own rules are in the API server: defaults, what may not be said, what may not change.
// Only what Bascule can run into; sources named at each rule in the .cpp.
#pragma once

#include "base/loop.hpp"
#include "testing/fake_api_store.hpp"

namespace bascule::testing {

// Defaults of the decoded request, before admission.
void set_defaults(const ApiResource& resource, json::Value& object);
// System-set parts of a new object, after admission: initial status, a Job's selector (its uid is set).
void set_initial_state(const ApiResource& resource, json::Value& object, WallTime now);
// Throws ApiFailure 422.
void check_new(const ApiResource& resource, const json::Value& object);
void check_change(const ApiResource& resource, const json::Value& before, const json::Value& after);

// The pod holds or may come to hold a node: it is deleted with grace.
bool pod_needs_grace(const json::Value& pod);
std::vector<std::string> finalizers_of(const json::Value& object);
void set_condition(json::Value& object, std::string_view type, std::string_view status, std::string_view reason,
                   std::string_view message, WallTime now);

}  // namespace bascule::testing
