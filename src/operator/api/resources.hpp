// The API resources the operator works with, besides those of kube/resource.hpp.
#pragma once

#include "kube/resource.hpp"

namespace bascule::op {

inline const kube::Resource kControllers{"slinky.slurm.net", "v1beta1", "controllers", "Controller", true};
inline const kube::Resource kAccountings{"slinky.slurm.net", "v1beta1", "accountings", "Accounting", true};
inline const kube::Resource kRestApis{"slinky.slurm.net", "v1beta1", "restapis", "RestApi", true};
inline const kube::Resource kLoginSets{"slinky.slurm.net", "v1beta1", "loginsets", "LoginSet", true};
inline const kube::Resource kNodeSets{"slinky.slurm.net", "v1beta1", "nodesets", "NodeSet", true};
inline const kube::Resource kTokens{"slinky.slurm.net", "v1beta1", "tokens", "Token", true};

using kube::resources::kConfigMaps;
using kube::resources::kSecrets;
using kube::resources::kStatefulSets;
inline const kube::Resource kServices{"", "v1", "services", "Service", true};
inline const kube::Resource kClaims{"", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", true};
inline const kube::Resource kDeployments{"apps", "v1", "deployments", "Deployment", true};
inline const kube::Resource kRevisions{"apps", "v1", "controllerrevisions", "ControllerRevision", true};
inline const kube::Resource kBudgets{"policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", true};
inline const kube::Resource kServiceMonitors{"monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor", true};

}  // namespace bascule::op
