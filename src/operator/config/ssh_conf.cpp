#include "operator/config/ssh_conf.hpp"

#include <algorithm>

#include "operator/config/text.hpp"

namespace bascule::op {

namespace {

std::string sshd_config(std::string_view extra, bool login) {
  Text text(' ');
  text.heading("GENERAL").set("Include", "/etc/ssh/sshd_config.d/*.conf").set("UsePAM", "yes");
  if (login) text.set("X11Forwarding", "yes");
  text.set("Subsystem", "sftp internal-sftp");
  if (!login) text.set("AuthenticationMethods", "publickey password");
  return text.heading("EXTRA CONFIG").raw(extra).str();
}

}  // namespace

std::string login_sshd_config(std::string_view extra) {
  return sshd_config(extra, true);
}
std::string worker_sshd_config(std::string_view extra) {
  return sshd_config(extra, false);
}

std::string authorized_keys(std::string_view keys) {
  return Text().heading("SLINKY").raw(keys).str();
}

std::string cluster_domain(std::string_view resolv_conf) {
  constexpr std::string_view kBlank = " \t\r";
  constexpr std::string_view kPrefix = "svc.";
  while (!resolv_conf.empty()) {
    std::string_view line = resolv_conf.substr(0, resolv_conf.find('\n'));
    resolv_conf.remove_prefix(std::min(line.size() + 1, resolv_conf.size()));
    if (!line.starts_with("search")) continue;
    while (!line.empty()) {
      const std::string_view word = line.substr(0, line.find_first_of(kBlank));
      if (word.size() > kPrefix.size() && word.starts_with(kPrefix)) return std::string(word.substr(kPrefix.size()));
      line.remove_prefix(std::min(word.size() + 1, line.size()));
    }
  }
  return "cluster.local";
}

}  // namespace bascule::op
