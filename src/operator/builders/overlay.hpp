// What a user writes over our containers and pods, by Kubernetes' strategic merge, with what the operator cannot do
// without put back. A field that is present counts, also false, 0 and ""; null is as good as absent; directives
// ($patch and the like) are not obeyed: a template is no patch.
#pragma once

#include <string_view>

#include "json/value.hpp"
#include "operator/builders/object.hpp"

namespace bascule::op {

// `field` is where the patch stands, for sentences ("spec.slurmd"). Throws BadObject for what cannot be merged.
//  - args: ours, then the user's. The name stays ours.
//  - probes and hooks: one handler, the user's if there is one; thresholds alone keep our handler.
//  - env: one source. ports: by name, else by number and protocol; the number of a port of ours stays.
//  - capabilities that we add stay added.
json::Value overlay_container(json::Value base, const json::Value& patch, const Subject& subject,
                              std::string_view field);

//  - containers and initContainers: by name as above; others come after ours.
//  - volumes: the user's replaces ours of the same name.
//  - tolerations and DNS search domains of ours stay.
json::Value overlay_pod_spec(json::Value base, const json::Value& patch, const Subject& subject);

}  // namespace bascule::op
