#include "operator/webhook/common_rules.hpp"

#include <algorithm>

#include "base/utf8.hpp"

namespace bascule::op {

namespace {

constexpr std::size_t kMaxLabel = 63;
// StatefulSets label their pods with NAME-HASH, a dash and ten characters.
constexpr std::size_t kRevisionSuffix = 11;
constexpr std::string_view kName = "NAME";

constexpr bool is_lower_or_digit(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

}  // namespace

std::string_view name_of(const json::Value& object) noexcept {
  return json::string_at(object, {"metadata", "name"});
}
std::string_view namespace_of(const json::Value& object) noexcept {
  return json::string_at(object, {"metadata", "namespace"});
}

KeyOf key_of(const json::Value& object, std::string_view field) noexcept {
  return {json::string_at(object, {"spec", field, "name"}), json::string_at(object, {"spec", field, "key"})};
}

KeyOf jwt_key_of(const json::Value& object) noexcept {
  const bool newer = json::object_at(object, {"spec", "jwtKeyRef"}) != nullptr;
  return key_of(object, newer ? "jwtKeyRef" : "jwtHs256KeyRef");
}

bool is_dns_label(std::string_view text, bool letter_first) noexcept {
  if (text.empty() || text.size() > kMaxLabel || text.front() == '-' || text.back() == '-') return false;
  if (letter_first && text.front() >= '0' && text.front() <= '9') return false;
  return std::ranges::all_of(text, [](char c) { return is_lower_or_digit(c) || c == '-'; });
}

bool is_plain_word(std::string_view text) noexcept {
  return std::ranges::none_of(text, [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || c == '\x7f' || c == '#' || c == '"' || c == '\'' || c == '\\';
  });
}

std::string quoted(std::string_view text) {
  constexpr std::size_t kMost = 64;
  std::string out = "'";
  for (const char c : cut_utf8(text, kMost)) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') {
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out + (text.size() > kMost ? "...'" : "'");
}

void name_rules(const json::Value& object, std::string_view child, bool stateful_set, Findings& findings) {
  const std::string_view name = name_of(object);
  const std::size_t most = kMaxLabel - (child.size() - kName.size()) - (stateful_set ? kRevisionSuffix : 0);
  if (name.size() > most) {
    findings.fault("metadata.name", "has {} characters; at most {} are possible, since {} and more is named after it",
                   name.size(), most, child);
  }
  if (!name.empty() && name.size() <= kMaxLabel && !is_dns_label(name, true)) {
    findings.fault(
        "metadata.name",
        "{} cannot name a Service; it is made of lower-case letters, digits and '-' and begins with a letter",
        quoted(name));
  }
}

void jwt_key_rules(const json::Value& object, const json::Value* old, Findings& findings) {
  if (old == nullptr || jwt_key_of(*old) == jwt_key_of(object)) return;
  const KeyOf before = jwt_key_of(*old);
  findings.fault(
      "spec.jwtKeyRef",
      "cannot be changed, since tokens signed with the old key would be refused; leave it at name {} and key "
      "{}, and change the Secret's content to rotate the key",
      quoted(before.name), quoted(before.key));
}

void service_rules(const json::Value& object, std::string_view name, Findings& findings) {
  const json::Array* ips = json::array_at(object, {"spec", "service", "spec", "externalIPs"});
  if (ips != nullptr && !ips->empty()) {
    findings.warn("spec.service.spec.externalIPs",
                  "is not taken over into Service {}, since it lets traffic of others be intercepted (CVE-2020-8554); "
                  "use type LoadBalancer",
                  name);
  }
}

void external_rules(const json::Value& object, Findings& findings) {
  const std::string_view host = json::string_at(object, {"spec", "externalConfig", "host"});
  if (!is_plain_word(host)) {
    findings.fault("spec.externalConfig.host", "{} is not a host name or address", quoted(host));
  }
  if (!json::bool_at(object, {"spec", "external"})) return;
  if (host.empty() && json::object_at(object, {"spec", "externalConfig"}) != nullptr) {
    findings.fault("spec.externalConfig.host", "is empty; name the host where the daemon runs");
  }
  if (json::int_at(object, {"spec", "externalConfig", "port"}).value_or(1) == 0) {
    findings.fault("spec.externalConfig.port", "is 0; name the port the daemon listens on");
  }
}

void controller_ref_rules(const json::Value& object, const json::Value* old, Findings& findings) {
  const std::string_view name = json::string_at(object, {"spec", "controllerRef", "name"});
  if (name.empty()) {
    findings.fault("spec.controllerRef.name", "is empty; name the Controller of the cluster");
  }
  if (old == nullptr) return;
  const std::string_view before = json::string_at(*old, {"spec", "controllerRef", "name"});
  if (before != name) {
    findings.fault("spec.controllerRef", "cannot be changed from {} to {}; make a new object for the other cluster",
                   quoted(before), quoted(name));
  }
}

}  // namespace bascule::op
