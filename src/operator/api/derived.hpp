// What follows from a custom resource alone: names, addresses, labels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "operator/api/types.hpp"

namespace bascule::op {

inline constexpr std::int64_t kMaxOrdinalPadding = 20;

// How many slurmctld pods: one and its backups.
std::int64_t replicas(const Controller& controller) noexcept;

// The port everyone dials: that of the Service, or of the outside daemon. slurmctld also listens on it, since it is
// reached through the Service and, by its backups, directly.
std::int64_t slurmctld_port(const Controller& controller) noexcept;
// For --conf-server: HOST:PORT.
std::string conf_server(const Controller& controller);

std::string slurmdbd_host(const Accounting& accounting);
std::int64_t slurmdbd_port(const Accounting& accounting) noexcept;

// http://HOST:PORT of slurmrestd's Service.
std::string rest_url(const RestApi& api);

// The Slurm name of a NodeSet, also the feature its nodes carry: the first word of the template's hostname without
// dashes around it, or the name of the object. Letters, digits, '-', '.', '_' whatever the user wrote, so that it
// cannot break a line of slurm.conf or an argument.
std::string slurm_name(const NodeSet& set);
bool host_network(const PodTemplate& pod_template) noexcept;

// In selectors of every child: never changes.
StringMap selector_labels(names::App app, std::string_view instance);
// The same and the component.
StringMap child_labels(names::App app, std::string_view instance);
// As the scale subresource wants it: app.kubernetes.io/instance=N,app.kubernetes.io/name=A
std::string selector_text(names::App app, std::string_view instance);

// The Secret a Token produces unless it names one: NAME-jwt-USER. A user whose name cannot be part of an object's name
// is written with dashes and a hash.
std::string token_secret(std::string_view token, std::string_view user);

}  // namespace bascule::op
