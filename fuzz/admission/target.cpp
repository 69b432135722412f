// Arbitrary bytes as the body of a review, with three configurations: every answer is JSON with a verdict or a 400.
#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.hpp"
#include "bridge/webhook.hpp"

using namespace bascule;

namespace {

void check(const bridge::Config& config, std::string_view path, std::string_view body, const json::Object* labels) {
  const net::ServerResponse response = bridge::respond(config, path, body, labels);
  if (response.status == 400) {
    BASCULE_CHECK(response.body.size() > 1, "a refusal says why");
    return;
  }
  BASCULE_CHECK(response.status == 200, "200 or 400");
  const json::Value answer = json::parse(response.body);
  const json::Value* allowed = json::find(answer, {"response", "allowed"});
  BASCULE_CHECK(allowed != nullptr && allowed->is_bool(), "a verdict");
  if (!allowed->get_bool()) {
    BASCULE_CHECK(!json::string_at(answer, {"response", "status", "message"}).empty(), "a refusal says why");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bridge::Config kListed =
      bridge::parse_config("{managedNamespaces: [hpc], trustedUsers: ['system:serviceaccount:s:*']}", "fuzz", false);
  static const bridge::Config kSelected =
      bridge::parse_config("managedNamespaceSelector: {matchLabels: {team: hpc}}", "fuzz", false);
  static const json::Object kLabels{{"team", "hpc"}};
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  for (const std::string_view path : {bridge::kMutatePath, bridge::kValidatePath}) {
    check(kListed, path, body, nullptr);
    check(kSelected, path, body, nullptr);
    check(kSelected, path, body, &kLabels);
  }
  return 0;
}
