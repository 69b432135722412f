#include "testing/fake_api_webhook.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/base64.hpp"
#include "json/patch.hpp"

namespace bascule::testing {

using json::Object;
using json::Value;

namespace {

bool matches(const Webhook& hook, const Admission& admission) {
  const auto has = [](const std::vector<std::string>& list, const std::string& what) {
    return std::ranges::find(list, what) != list.end();
  };
  return has(hook.kinds, admission.resource.name.kind) && has(hook.operations, admission.operation) &&
         hook.subresource == admission.subresource && (!hook.selects || hook.selects(admission));
}

std::string review(const Admission& admission, const std::string& uid) {
  const kube::Resource& r = admission.resource.name;
  Object request{{"uid", uid},
                 {"kind", Object{{"group", r.group}, {"version", r.version}, {"kind", r.kind}}},
                 {"resource", Object{{"group", r.group}, {"version", r.version}, {"resource", r.resource}}},
                 {"requestKind", Object{{"group", r.group}, {"version", r.version}, {"kind", r.kind}}},
                 {"name", admission.key.name},
                 {"namespace", admission.key.ns},
                 {"operation", admission.operation},
                 {"userInfo", Object{{"username", "system:admin"}}},
                 {"object", admission.object},
                 {"oldObject", admission.old ? *admission.old : Value()},
                 {"dryRun", admission.dry_run}};
  if (!admission.subresource.empty()) request["subResource"] = admission.subresource;
  return json::dump(
      Object{{"kind", "AdmissionReview"}, {"apiVersion", "admission.k8s.io/v1"}, {"request", std::move(request)}});
}

// Applies the verdict; throws ApiFailure when it is no, and std::exception when it is not understood.
void take_answer(const Webhook& hook, const std::string& uid, const std::string& body, Admission& admission) {
  const Value answer = json::parse(body);
  const Object* response = json::object_at(answer, {"response"});
  if (!response) throw std::runtime_error("webhook response was absent");
  if (json::string_at(answer, {"response", "uid"}) != uid) throw std::runtime_error("expected response.uid=" + uid);
  if (!json::bool_at(answer, {"response", "allowed"})) {
    const std::string_view message = json::string_at(answer, {"response", "status", "message"});
    const auto code = static_cast<int>(json::int_at(answer, {"response", "status", "code"}).value_or(400));
    const std::string_view reason = json::string_at(answer, {"response", "status", "reason"});
    throw ApiFailure(code < 400 ? 400 : code, std::string(reason),
                     fmt::format("admission webhook \"{}\" denied the request{}{}", hook.name,
                                 message.empty() ? " without explanation" : ": ", message));
  }
  const std::string_view patch = json::string_at(answer, {"response", "patch"});
  if (patch.empty()) return;
  if (!hook.mutating) throw std::runtime_error("a validating webhook must not patch");
  const auto text = base64_decode(patch);
  if (!text) throw std::runtime_error("the patch is not base64");
  json::apply_patch(admission.object, json::parse(*text));
}

Task<> call_one(Loop& loop, net::Transport& far, const Webhook& hook, Duration timeout, std::string uid,
                Admission& admission) {
  std::string why;
  try {
    net::Request request{
        .method = "POST", .target = hook.path + "?timeout=10s", .headers = {}, .body = review(admission, uid)};
    request.headers.set("Content-Type", "application/json");
    const net::Response response = co_await far.call(std::move(request), {.deadline = loop.now() + timeout});
    if (response.status != 200) throw std::runtime_error(fmt::format("status {}: {}", response.status, response.body));
    take_answer(hook, uid, response.body, admission);
  } catch (const ApiFailure&) {
    throw;
  } catch (const std::exception& e) {
    why = e.what();
  }
  if (!why.empty() && !hook.ignore_failure) {
    throw ApiFailure::internal(fmt::format("failed calling webhook \"{}\": {}", hook.name, why));
  }
}

struct Hooks {
  Loop& loop;
  net::Transport& far;
  std::vector<Webhook> list;
  Duration timeout;
  std::uint64_t reviews = 0;
};

Task<> call_all(std::shared_ptr<Hooks> hooks, Admission& admission) {
  for (const bool mutating : {true, false}) {
    for (const Webhook& hook : hooks->list) {
      if (hook.mutating != mutating || !matches(hook, admission)) continue;
      std::string uid = fmt::format("review-{}", ++hooks->reviews);
      co_await call_one(hooks->loop, hooks->far, hook, hooks->timeout, std::move(uid), admission);
    }
  }
}

}  // namespace

AdmissionHook call_webhooks(Loop& loop, net::Transport& far, std::vector<Webhook> hooks, Duration timeout) {
  const auto shared = std::make_shared<Hooks>(Hooks{loop, far, std::move(hooks), timeout, 0});
  return [shared](Admission& admission) { return call_all(shared, admission); };
}

}  // namespace bascule::testing
