// The API resources the operator works with.
#pragma once

#include "kube/resource.hpp"

namespace bascule::op::reconcile {

inline const kube::Resource kControllers{"slinky.slurm.net", "v1beta1", "controllers", "Controller", true};
inline const kube::Resource kAccountings{"slinky.slurm.net", "v1beta1", "accountings", "Accounting", true};
inline const kube::Resource kRestApis{"slinky.slurm.net", "v1beta1", "restapis", "RestApi", true};
inline const kube::Resource kLoginSets{"slinky.slurm.net", "v1beta1", "loginsets", "LoginSet", true};
inline const kube::Resource kNodeSets{"slinky.slurm.net", "v1beta1", "nodesets", "NodeSet", true};
inline const kube::Resource kTokens{"slinky.slurm.net", "v1beta1", "tokens", "Token", true};

inline const kube::Resource kSecrets{"", "v1", "secrets", "Secret", true};
inline const kube::Resource kConfigMaps{"", "v1", "configmaps", "ConfigMap", true};
inline const kube::Resource kServices{"", "v1", "services", "Service", true};
inline const kube::Resource kStatefulSets{"apps", "v1", "statefulsets", "StatefulSet", true};
inline const kube::Resource kDeployments{"apps", "v1", "deployments", "Deployment", true};
inline const kube::Resource kBudgets{"policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", true};
inline const kube::Resource kServiceMonitors{"monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor", true};

}  // namespace bascule::op::reconcile
