#include "kube/decode.hpp"
#include "kube/pod_resources.hpp"

namespace bascule::kube {

namespace {

constexpr std::string_view kDeviceClassPrefix = "deviceclass.resource.kubernetes.io/";

// Lists that are merged or sorted once all is read; they keep their memory from pod to pod.
struct Scratch {
  PodNeeds needs;
  std::vector<std::string> ephemeral;  // volumes with a claim of their own
  std::optional<std::int64_t> spec_grace;

  void clear() {
    needs.clear();
    ephemeral.clear();
    spec_grace.reset();
  }
};

PodPhase phase_of(std::string_view text) noexcept {
  if (text == "Pending") return PodPhase::kPending;
  if (text == "Running") return PodPhase::kRunning;
  if (text == "Succeeded") return PodPhase::kSucceeded;
  if (text == "Failed") return PodPhase::kFailed;
  return PodPhase::kUnknown;
}

void decode_limits(Value value, json::Interner& interner, ResourceList& requests, ResourceList& limits) {
  value.fields([&](std::string_view key, Value field) {
    if (key == "requests") {
      decode_resources(field, interner, requests);
    } else if (key == "limits") {
      decode_resources(field, interner, limits);
    }
  });
}

Protocol protocol_of(std::string_view text) noexcept {
  if (text == "UDP") return Protocol::kUdp;
  return text == "SCTP" ? Protocol::kSctp : Protocol::kTcp;
}

// Of "" and "0.0.0.0", every address, the first is kept.
void decode_port(Value value, json::Interner& interner, std::vector<HostPort>& ports) {
  HostPort out;
  value.fields([&](std::string_view key, Value field) {
    if (key == "hostPort") {
      const std::int64_t number = integer_or(field, 0);
      if (number > 0 && number < 65536) out.number = static_cast<std::uint16_t>(number);
    } else if (key == "protocol") {
      out.protocol = protocol_of(field.string().value_or(std::string_view()));
    } else if (key == "hostIP" && field.string() != "0.0.0.0") {
      out.ip = interned(field, interner);
    }
  });
  if (out.number != 0) ports.push_back(std::move(out));
}

void decode_container(Value value, json::Interner& interner, ContainerNeeds& needs, std::vector<HostPort>& ports,
                      InternedString& name_of) {
  value.fields([&](std::string_view key, Value field) {
    if (key == "name") {
      name_of = interned(field, interner);
    } else if (key == "resources") {
      decode_limits(field, interner, needs.requests, needs.limits);
    } else if (key == "restartPolicy") {
      needs.sidecar = field.string() == "Always";
    } else if (key == "ports") {
      field.items([&](Value item) { decode_port(item, interner, ports); });
    }
  });
}

Toleration decode_toleration(Value value, json::Interner& interner) {
  Toleration out;
  value.fields([&](std::string_view key, Value field) {
    if (key == "key") {
      out.key = interned(field, interner);
    } else if (key == "value") {
      out.value = interned(field, interner);
    } else if (key == "effect") {
      out.effect = interned(field, interner);
    } else if (key == "operator") {
      out.exists = field.string() == "Exists";
    } else if (key == "tolerationSeconds") {
      out.limited = !field.null();
    }
  });
  return out;
}

void decode_anti_affinity_term(Value value, PeerRules& peers) {
  bool of_hosts = false;
  value.fields([&](std::string_view key, Value field) {
    if (key == "topologyKey") of_hosts = field.string() == kHostTopology;
  });
  using AntiAffinity = PeerRules::AntiAffinity;
  if (!of_hosts) peers.anti_affinity = AntiAffinity::kWider;
  if (peers.anti_affinity == AntiAffinity::kNone) peers.anti_affinity = AntiAffinity::kOfHosts;
}

void decode_affinity(Value value, json::Interner& interner, Pod& pod) {
  value.fields([&](std::string_view key, Value field) {
    field.fields([&](std::string_view name, Value rule) {
      if (name != "requiredDuringSchedulingIgnoredDuringExecution" || rule.null()) return;
      if (key == "nodeAffinity") {
        pod.required_node_affinity = interner(rule.raw());
      } else if (key == "podAffinity") {
        rule.items([&](Value) { pod.peers.affinity = true; });
      } else if (key == "podAntiAffinity") {
        rule.items([&](Value term) { decode_anti_affinity_term(term, pod.peers); });
      }
    });
  });
}

void decode_volume(Value value, json::Interner& interner, Pod& pod, Scratch& scratch) {
  std::string_view name;
  bool ephemeral = false;
  value.fields([&](std::string_view key, Value field) {
    if (key == "name") {
      name = field.string().value_or(std::string_view());
    } else if (key == "ephemeral") {
      ephemeral = !field.null();
    } else if (key == "persistentVolumeClaim") {
      field.fields([&](std::string_view part, Value claim) {
        if (part == "claimName") pod.claims.push_back(interned(claim, interner));
      });
    }
  });
  if (ephemeral) scratch.ephemeral.emplace_back(name);
}

void decode_containers(Value value, json::Interner& interner, std::vector<ContainerNeeds>& into, Pod& pod, bool init) {
  value.items([&](Value item) {
    ContainerNeeds& needs = into.emplace_back();
    const std::size_t ports = pod.host_ports.size();
    InternedString name;
    decode_container(item, interner, needs, pod.host_ports, name);
    for (const auto& [resource, quantity] : needs.requests) {
      if (!resource.view().starts_with(kDeviceClassPrefix) || quantity.ceil() <= 0) continue;
      pod.device_requests.push_back({name, resource, quantity.ceil(), init && !needs.sidecar});
    }
    if (init && !needs.sidecar) pod.host_ports.resize(ports);  // gone before the pod runs
  });
}

void decode_spec(Value value, json::Interner& interner, Pod& pod, Scratch& scratch) {
  value.fields([&](std::string_view key, Value field) {
    if (key == "containers") {
      decode_containers(field, interner, scratch.needs.containers, pod, false);
    } else if (key == "initContainers") {
      decode_containers(field, interner, scratch.needs.init, pod, true);
    } else if (key == "nodeName") {
      pod.node_name = interned(field, interner);
    } else if (key == "schedulerName") {
      pod.scheduler_name = interned(field, interner);
    } else if (key == "priority") {
      pod.priority = static_cast<std::int32_t>(integer_or(field, 0));
    } else if (key == "overhead") {
      decode_resources(field, interner, scratch.needs.overhead);
    } else if (key == "resources") {
      decode_limits(field, interner, scratch.needs.pod_requests, scratch.needs.pod_limits);
    } else if (key == "nodeSelector") {
      pod.node_selector = decode_strings(field, interner);
    } else if (key == "tolerations") {
      field.items([&](Value item) { pod.tolerations.push_back(decode_toleration(item, interner)); });
    } else if (key == "affinity") {
      decode_affinity(field, interner, pod);
    } else if (key == "topologySpreadConstraints") {
      field.items([&](Value) { pod.peers.spread = true; });
    } else if (key == "schedulingGates") {
      field.items([&](Value item) {
        item.fields([&](std::string_view name, Value gate) {
          if (name == "name") pod.scheduling_gates.push_back(interned(gate, interner));
        });
      });
    } else if (key == "volumes") {
      field.items([&](Value item) { decode_volume(item, interner, pod, scratch); });
    } else if (key == "schedulingGroup") {
      field.fields([&](std::string_view name, Value group) {
        if (name == "podGroupName") pod.scheduling_group = interned(group, interner);
      });
    } else if (key == "resourceClaims") {
      field.items([&](Value) { pod.has_resource_claims = true; });
    } else if (key == "terminationGracePeriodSeconds") {
      scratch.spec_grace = field.integer();
    } else if (key == "activeDeadlineSeconds") {
      pod.active_deadline_seconds = field.integer();
    }
  });
}

void decode_status(Value value, json::Interner& interner, Pod& pod) {
  value.fields([&](std::string_view key, Value field) {
    if (key == "phase") {
      pod.phase = phase_of(field.string().value_or(std::string_view()));
    } else if (key == "reason") {
      pod.status_reason = interned(field, interner);
    } else if (key == "extendedResourceClaimStatus") {
      field.fields([&](std::string_view name, Value part) {
        if (name == "resourceClaimName") pod.extended_claim = interned(part, interner);
      });
    } else if (key == "conditions") {
      field.items([&](Value item) {
        NamedCondition read = decode_condition(item, interner);
        if (read.type == "PodScheduled") {
          pod.scheduled = std::move(read.condition);
        } else if (read.type.contains('/')) {
          pod.conditions.emplace_back(interner(read.type), std::move(read.condition));
        }
      });
    }
  });
}

}  // namespace

std::shared_ptr<const Pod> decode_pod(std::string_view text, json::Interner& interner) {
  thread_local Scratch scratch;
  scratch.clear();
  auto pod = std::make_shared<Pod>();
  json::hot::parse(text, [&](std::string_view key, Value value) {
    if (key == "metadata") {
      decode_meta(value, interner, pod->meta);
    } else if (key == "spec") {
      decode_spec(value, interner, *pod, scratch);
    } else if (key == "status") {
      decode_status(value, interner, *pod);
    }
  });
  pod->grace_seconds = pod->meta.deletion_grace_seconds.value_or(scratch.spec_grace.value_or(pod->grace_seconds));
  pod->requests = effective_requests(scratch.needs);
  pod->limits = effective_limits(scratch.needs);
  for (const std::string& volume : scratch.ephemeral) {
    pod->claims.push_back(interner(pod->meta.key.name + "-" + volume));
  }
  pod->requests.shrink_to_fit();
  pod->limits.shrink_to_fit();
  pod->tolerations.shrink_to_fit();
  scratch.clear();  // holds no strings of an interner that may die
  return pod;
}

}  // namespace bascule::kube
