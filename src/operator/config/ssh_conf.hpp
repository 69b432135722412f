// sshd_config and authorized_keys of login and worker pods (sshd_config(5)), and the cluster's DNS domain.
#pragma once

#include <string>
#include <string_view>

namespace bascule::op {

std::string login_sshd_config(std::string_view extra);
std::string worker_sshd_config(std::string_view extra);
std::string authorized_keys(std::string_view keys);

// Of the text of /etc/resolv.conf: what follows "svc." in the first such search domain, else cluster.local.
std::string cluster_domain(std::string_view resolv_conf);

}  // namespace bascule::op
