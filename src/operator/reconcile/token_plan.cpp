#include <fmt/format.h>

#include "base/base64.hpp"
#include "base/time.hpp"
#include "operator/api/read.hpp"
#include "operator/api/resources.hpp"
#include "operator/builders/token.hpp"
#include "operator/reconcile/plan.hpp"

namespace bascule::op::reconcile {

namespace {

std::string version_of(const json::Value* secret) {
  return secret ? std::string(json::string_at(*secret, {"metadata", "resourceVersion"})) : std::string();
}

bool is_good(const Token& token, std::string_view key, std::string_view jwt, WallTime now) {
  const std::optional<ReadToken> read = read_jwt(key, jwt);
  const std::optional<WallTime> due = refresh_due(token, read, now);
  return read && read->expires && *read->expires > now && (!due || *due > now);
}

}  // namespace

Plan plan_token(const json::Value& object, View& view, std::string_view id, WallTime now,
                const std::optional<WrittenToken>& last) {
  const Token token = read_token(object);
  Plan plan;
  const auto key = secret_bytes(view, token.jwt_key, "spec.jwtKeyRef");
  if (!key) {
    plan.wait(key.error());
    return plan;
  }
  if (key->empty()) {
    plan.faults.push_back({"EmptyKey", fmt::format("Secret {}: key {} is empty; put the cluster's JWT key there",
                                                   token.jwt_key.name, token.jwt_key.key)});
    return plan;
  }
  std::string stored;
  const json::Value* secret = view.find(kSecrets, token.secret.name);
  if (secret) {
    stored = base64_decode(json::string_at(*secret, {"data", token.secret.key})).value_or(std::string());
  }
  WrittenToken written{token.secret.name, token.secret.key, version_of(secret), {}};
  const bool unseen = last && last->secret == written.secret && last->key == written.key && last->over == written.over;
  if (unseen && is_good(token, *key, last->jwt, now)) {
    stored = last->jwt;
    plan.token = last;
  }
  std::optional<ReadToken> read = read_jwt(*key, stored);
  const std::optional<WallTime> due = refresh_due(token, read, now);
  if (stored.empty() || (due && *due <= now)) {
    stored = sign_jwt(*key, {std::string(id), token.username, now, token.lifetime});
    read = read_jwt(*key, stored);
    written.jwt = stored;
    plan.token = std::move(written);
  }
  plan.add(kSecrets, token_secret_object(token, stored));
  plan.wake = refresh_due(token, read, now);
  const bool valid = read && read->expires && *read->expires > now;
  if (valid && !plan.wake) plan.wake = read->expires;  // to say so
  if (!valid) {
    plan.faults.push_back({"Expired", fmt::format("the token in Secret {} is over or of another key, and spec.refresh "
                                                  "is false; delete the Secret, or set spec.refresh",
                                                  token.secret.name)});
  }
  if (read && read->issued) plan.status["issuedAt"] = print_rfc3339(*read->issued);
  return plan;
}

}  // namespace bascule::op::reconcile
