#include "kube/client.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/manual_loop.hpp"
#include "base/utf8.hpp"
#include "kube/discovery.hpp"
#include "net/loopback.hpp"

namespace bascule::kube {
namespace {

using namespace std::chrono_literals;

struct KubeClient : testing::Test {
  ManualLoop loop;
  std::vector<net::ServerRequest> seen;
  std::vector<net::ServerResponse> answers;  // in order; the last one stays
  net::Fault fault;
  net::Handler handler = [this](const net::ServerRequest& request, std::stop_token) { return serve(request); };
  std::unique_ptr<net::Transport> transport =
      net::make_loopback(loop, handler, [this](const net::Request&) { return fault; });

  Task<net::ServerResponse> serve(const net::ServerRequest& request) {
    seen.push_back(request);
    net::ServerResponse response = answers.empty() ? net::ServerResponse{.body = "{}"} : answers.front();
    if (answers.size() > 1) answers.erase(answers.begin());
    co_return response;
  }
  static net::ServerResponse status(int code, std::string reason, std::string details = R"({"name":"x"})") {
    return {
        .status = code,
        .body = fmt::format(
            R"({{"kind":"Status","apiVersion":"v1","status":"Failure","message":"words","reason":"{}","details":{},"code":{}}})",
            reason, details, code)};
  }
  static net::ServerResponse later(net::ServerResponse response, std::string seconds) {
    response.headers.add("Retry-After", std::move(seconds));
    return response;
  }

  template <class T>
  T run(Task<T> task) {
    std::optional<T> value;
    std::exception_ptr error;
    Gate gate(loop);
    spawn(gate, [](Task<T> t, std::optional<T>& v, std::exception_ptr& e) -> Task<> {
      try {
        v = co_await std::move(t);
      } catch (...) {
        e = std::current_exception();
      }
    }(std::move(task), value, error));
    loop.run_until([&] { return gate.count() == 0; }, 10min);
    if (error) std::rethrow_exception(error);
    return std::move(*value);
  }
  template <class E>
  E caught(Task<json::Value> task) {
    try {
      run(std::move(task));
    } catch (const E& error) {
      return error;
    }
    throw std::logic_error("nothing was thrown");
  }
};

TEST_F(KubeClient, paths) {
  EXPECT_EQ(resource_path(resources::kPods, "a b", "c", "status"), "/api/v1/namespaces/a%20b/pods/c/status");
  EXPECT_EQ(resource_path(resources::kPods, ""), "/api/v1/pods");
  EXPECT_EQ(resource_path(resources::kNodes, "", "n"), "/api/v1/nodes/n");
  EXPECT_EQ(resource_path(resources::kJobs, "x", "y"), "/apis/batch/v1/namespaces/x/jobs/y");
}

TEST_F(KubeClient, writes_say_what_they_are) {
  Client client(loop, *transport, {});
  run(client.patch(resources::kPods, {"a", "p"}, PatchType::kApply, json::Object{{"x", 1}}, "status", {.force = true}));
  EXPECT_EQ(seen.back().method, "PATCH");
  EXPECT_EQ(seen.back().target, "/api/v1/namespaces/a/pods/p/status?fieldManager=bascule&force=true");
  EXPECT_EQ(seen.back().headers.get("content-type"), "application/apply-patch+yaml");
  EXPECT_EQ(seen.back().body, R"({"x":1})");
  run(client.create(resources::kPods, "a", json::Object{}, {.field_manager = "m", .dry_run = true}));
  EXPECT_EQ(seen.back().target, "/api/v1/namespaces/a/pods?fieldManager=m&dryRun=All");
  run(client.remove(resources::kPods, {"a", "p"}, {.uid = Uid("u"), .grace_seconds = 0, .propagation = "Background"}));
  EXPECT_EQ(seen.back().method, "DELETE");
  EXPECT_EQ(
      seen.back().body,
      R"({"kind":"DeleteOptions","apiVersion":"v1","preconditions":{"uid":"u"},"gracePeriodSeconds":0,"propagationPolicy":"Background"})");
  run(client.remove_collection(resources::kPods, "a", {.labels = "x=y,z"}));
  EXPECT_EQ(seen.back().target, "/api/v1/namespaces/a/pods?labelSelector=x%3Dy%2Cz");
  run(client.create_sub(resources::kPods, {"a", "p"}, "binding", json::Object{}));
  EXPECT_EQ(seen.back().target, "/api/v1/namespaces/a/pods/p/binding?fieldManager=bascule");
}

// What the API server keeps as bytes (a ControllerRevision's data) it writes anew with each patch, and refuses the
// patch when that is no longer the same.
TEST_F(KubeClient, bodies_are_as_go_writes_them) {
  Client client(loop, *transport, {});
  run(client.create(resources::kPods, "a", json::Object{{"<&>", "\u2028x\u2029\u2027\u00e9 \""}}));
  EXPECT_EQ(seen.back().body, "{\"\\u003c\\u0026\\u003e\":\"\\u2028x\\u2029\u2027\u00e9 \\\"\"}");
}

TEST_F(KubeClient, refusals_have_types) {
  Client client(loop, *transport, {});
  const auto get = [&] { return client.get(resources::kPods, {"a", "p"}); };
  answers = {status(404, "NotFound")};
  EXPECT_STREQ(caught<NotFound>(get()).what(), "getting pods a/p: words (HTTP 404 NotFound)");
  answers = {status(404, "NotFound", "{}")};
  caught<NotServed>(get());
  answers = {{.status = 404, .body = "404 page not found\n"}};
  EXPECT_STREQ(caught<NotServed>(get()).what(), "getting pods a/p: 404 page not found (HTTP 404)");
  answers = {status(409, "AlreadyExists")};
  caught<AlreadyExists>(get());
  answers = {status(409, "Conflict")};
  caught<Conflict>(get());
  answers = {status(410, "Expired")};
  caught<Gone>(get());
  answers = {status(401, "Unauthorized")};
  caught<Unauthorized>(get());
  answers = {status(403, "Forbidden")};
  EXPECT_EQ(caught<Forbidden>(get()).reason(), "Forbidden");
  answers = {status(422, "Invalid")};
  EXPECT_EQ(caught<Invalid>(get()).code(), 422);
  answers = {status(500, "InternalError")};
  caught<ServerError>(get());
  answers = {status(504, "Timeout", R"({"causes":[{"reason":"ResourceVersionTooLarge"}]})")};
  caught<VersionTooLarge>(get());
  answers = {later(status(503, "ServiceUnavailable"), "7")};
  EXPECT_EQ(caught<TooManyRequests>(get()).retry_after, 7s);
  answers = {{.status = 200, .body = "<html>"}};
  caught<Malformed>(get());
  answers = {{.status = 302, .body = ""}};
  caught<Malformed>(get());
  EXPECT_EQ(seen.size(), 14U) << "nothing is tried again";
}

// What others wrote becomes part of conditions, which Kubernetes keeps as UTF-8: it must come back as it was sent.
TEST_F(KubeClient, a_foreign_page_is_quoted_in_whole_characters) {
  Client client(loop, *transport, {});
  for (const std::string& page : {std::string(199, 'a') + "\xC3\xBC", std::string("gr\xFC\xDF")}) {
    answers = {{.status = 502, .body = page}};
    const std::string said = caught<ServerError>(client.get(resources::kPods, {"a", "p"})).what();
    EXPECT_EQ(with_valid_utf8(said), said);
  }
}

TEST_F(KubeClient, no_answer) {
  Client client(loop, *transport, {});
  const auto create = [&] { return client.create(resources::kPods, "a", json::Object{}); };
  fault.kind = net::Fault::Kind::kUnreachable;
  EXPECT_FALSE(caught<Unreachable>(create()).may_have_happened);
  fault.kind = net::Fault::Kind::kBreakAfter;
  EXPECT_TRUE(caught<Unreachable>(create()).may_have_happened);
  fault.kind = net::Fault::Kind::kStall;
  const TimePoint begin = loop.now();
  EXPECT_TRUE(caught<Unreachable>(create()).may_have_happened);
  EXPECT_EQ(loop.now() - begin, 30s);
  std::stop_source stop;
  loop.call_at(loop.now() + 1s, [&] { stop.request_stop(); });
  EXPECT_EQ(caught<net::Error>(client.get(resources::kPods, {"a", "p"}, {}, stop.get_token())).kind(),
            net::Error::Kind::kStopped);
}

TEST_F(KubeClient, comes_again_when_told_so_within_the_deadline) {
  Client client(loop, *transport, {});
  answers = {later(status(429, "TooManyRequests"), "2"), later(status(429, "TooManyRequests"), "0"), {.body = "{}"}};
  const TimePoint begin = loop.now();
  run(client.create(resources::kPods, "a", json::Object{}));
  EXPECT_EQ(seen.size(), 3U);
  EXPECT_EQ(loop.now() - begin, 2100ms);
  seen.clear();
  answers = {later(status(429, "TooManyRequests"), "2")};
  caught<TooManyRequests>(client.get(resources::kPods, {"a", "p"}));
  EXPECT_EQ(seen.size(), 10U);
  seen.clear();
  answers = {later(status(429, "TooManyRequests"), "31")};
  caught<TooManyRequests>(client.get(resources::kPods, {"a", "p"}));
  EXPECT_EQ(seen.size(), 1U);
  // Without Retry-After it is an answer: an eviction that a disruption budget forbids.
  answers = {status(429, "TooManyRequests")};
  caught<TooManyRequests>(client.get(resources::kPods, {"a", "p"}));
  EXPECT_EQ(seen.size(), 2U);
}

TEST_F(KubeClient, a_refused_token_is_renewed_once) {
  int asked = 0, refreshed = 0;
  ClientOptions options;
  options.token = [&](bool refresh) -> Task<std::string> {
    ++asked;
    refreshed += refresh ? 1 : 0;
    return [](std::string token) -> Task<std::string> { co_return token; }(refresh ? "new" : "old");
  };
  Client client(loop, *transport, std::move(options));
  answers = {status(401, "Unauthorized"), {.body = "{}"}};
  run(client.get(resources::kPods, {"a", "p"}));
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].headers.get("Authorization"), "Bearer old");
  EXPECT_EQ(seen[1].headers.get("Authorization"), "Bearer new");
  answers = {status(401, "Unauthorized")};
  caught<Unauthorized>(client.get(resources::kPods, {"a", "p"}));
  EXPECT_EQ(seen.size(), 4U);
  EXPECT_EQ(refreshed, 2);
  EXPECT_EQ(asked, 4);
}

TEST_F(KubeClient, flow_control) {
  std::vector<int> codes;
  Client client(loop, *transport,
                {.timeout = 5s, .qps = 2, .burst = 3, .report = [&](const CallReport& r) { codes.push_back(r.code); }});
  const TimePoint begin = loop.now();
  for (int i = 0; i < 7; ++i) run(client.get(resources::kPods, {"a", "p"}));
  EXPECT_EQ(loop.now() - begin, 2s);
  EXPECT_EQ(codes, std::vector<int>(7, 200));
  // Calls at once: those whose turn would come after their deadline are refused at once.
  Gate gate(loop);
  int done = 0, refused = 0;
  for (int i = 0; i < 20; ++i) {
    spawn(gate, [](Client& c, int& d, int& r) -> Task<> {
      try {
        co_await c.get(resources::kPods, {"a", "p"});
        ++d;
      } catch (const Unreachable& error) {
        EXPECT_FALSE(error.may_have_happened);
        ++r;
      }
    }(client, done, refused));
  }
  loop.advance(1min);
  EXPECT_EQ(done, 9) << "the turn of the tenth comes with its deadline";
  EXPECT_EQ(refused, 11);
}

TEST_F(KubeClient, lists_page_by_page) {
  Client client(loop, *transport, {});
  answers = {{.body = R"({"kind":"PodList","metadata":{"resourceVersion":"5","continue":"next"},"items":[{"a":1}]})"},
             {.body = R"({"kind":"PodList","metadata":{"resourceVersion":"5"},"items":[{"a":2},{"a":3}]})"}};
  json::Value list = run(client.list(resources::kPods, "ns", {.labels = "a=b"}));
  EXPECT_EQ(seen[0].target, "/api/v1/namespaces/ns/pods?labelSelector=a%3Db&limit=500");
  EXPECT_EQ(seen[1].target, "/api/v1/namespaces/ns/pods?labelSelector=a%3Db&limit=500&continue=next");
  EXPECT_EQ(list.at("items").as_array().size(), 3U);
  EXPECT_EQ(json::find(list, {"metadata", "continue"}), nullptr);
  seen.clear();
  answers = {{.body = R"({"metadata":{"resourceVersion":"5","continue":"next"},"items":[{"a":1}]})"},
             status(410, "Expired"),
             {.body = R"({"metadata":{"resourceVersion":"6"},"items":null})"}};
  list = run(client.list(resources::kPods));
  EXPECT_EQ(seen[2].target, "/api/v1/pods");
  EXPECT_TRUE(list.at("items").as_array().empty());
}

TEST_F(KubeClient, discovery) {
  Client client(loop, *transport, {});
  Discovery discovery(client);
  answers = {
      {.body = R"({"resources":[{"name":"jobsets","kind":"JobSet","namespaced":true},{"name":"jobsets/status"}]})"}};
  const Resource jobsets{"jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet", true};
  EXPECT_TRUE(run(discovery.serves(jobsets)));
  EXPECT_EQ(seen.back().target, "/apis/jobset.x-k8s.io/v1alpha2");
  EXPECT_TRUE(run(discovery.serves(jobsets)));
  EXPECT_EQ(seen.size(), 1U);
  answers = {{.status = 404, .body = "404 page not found"}};
  EXPECT_FALSE(run(discovery.serves({"x", "v1", "ys", "Y", true})));
  answers = {{.status = 500, .body = ""}};
  EXPECT_THROW(run(discovery.serves({"z", "v1", "ys", "Y", true})), ServerError);
  answers = {{.body = R"({"preferredVersion":{"version":"v2"},"versions":[{"version":"v1"},{"version":"v2"}]})"}};
  EXPECT_EQ(run(discovery.versions("x")), (std::vector<std::string>{"v2", "v1"}));
}

// Whoever may create a pod may name any group as its owner's.
TEST_F(KubeClient, discovery_keeps_nothing_for_ever) {
  Client client(loop, *transport, {});
  Discovery discovery(client);
  for (int i = 0; i < 1000; ++i) {
    answers = {{.status = 404, .body = "404 page not found"}};
    EXPECT_FALSE(run(discovery.serves({"g" + std::to_string(i), "v1", "ys", "Y", true})));
  }
  loop.advance(61s);
  answers = {{.status = 404, .body = "404 page not found"}};
  EXPECT_FALSE(run(discovery.serves({"last", "v1", "ys", "Y", true})));
  EXPECT_EQ(discovery.kept(), 1U);
  const std::size_t asked = seen.size();
  EXPECT_FALSE(run(discovery.serves({std::string(254, 'x'), "v1", "ys", "Y", true})));
  EXPECT_FALSE(run(discovery.serves({"x", std::string(64, 'v'), "ys", "Y", true})));
  EXPECT_EQ(seen.size(), asked) << "no API group has such a name";
}

}  // namespace
}  // namespace bascule::kube
