#include "testing/fake_api.hpp"

#include <gtest/gtest.h>

#include "net/loopback.hpp"
#include "testing/objects.hpp"
#include "testing/run.hpp"

namespace bascule::testing {
namespace {

using namespace std::chrono_literals;
using json::Object;
using json::Value;

struct Answer {
  int status = 0;
  Value body;
  std::string text;
  net::Headers headers;
  std::string reason() const { return std::string(json::string_at(body, {"reason"})); }
  std::string message() const { return std::string(json::string_at(body, {"message"})); }
  std::string string(json::Path path) const { return std::string(json::string_at(body, path)); }
};

// A watch that a test reads event by event.
struct Watching {
  std::unique_ptr<net::BodyStream> body;
  std::string rest;
};

struct FakeApiTest : ::testing::Test {
  ManualLoop loop;
  FakeApi api{loop, options()};
  net::FaultPlan wire;
  std::unique_ptr<net::Transport> transport =
      net::make_loopback(loop, api.handler(), [this](const net::Request& r) { return wire ? wire(r) : net::Fault{}; });

  static FakeApiOptions options() {
    FakeApiOptions out;
    out.history = 50;
    return out;
  }

  Answer call(std::string method, std::string target, const Value& body = nullptr,
              std::string_view type = "application/json") {
    net::Request request{.method = std::move(method), .target = std::move(target), .headers = {}, .body = {}};
    request.headers.set("User-Agent", "tester/1.0");
    if (!body.is_null()) {
      request.body = json::dump(body);
      request.headers.set("Content-Type", std::string(type));
    }
    const net::Response response = run(loop, transport->call(std::move(request), {.deadline = loop.now() + 30s}));
    Answer out{.status = response.status, .body = {}, .text = response.body, .headers = response.headers};
    if (response.headers.get("Content-Type") == "application/json") out.body = json::parse(response.body);
    return out;
  }
  Answer get(std::string target) { return call("GET", std::move(target)); }
  Answer post(std::string target, const Value& body) { return call("POST", std::move(target), body); }
  Answer put(std::string target, const Value& body) { return call("PUT", std::move(target), body); }
  Answer merge(std::string target, std::string_view patch) {
    return call("PATCH", std::move(target), json::parse(patch), "application/merge-patch+json");
  }
  Answer apply(std::string target, std::string_view object) {
    return call("PATCH", std::move(target), json::parse(object), "application/apply-patch+yaml");
  }
  Answer del(std::string target, const Value& body = nullptr) { return call("DELETE", std::move(target), body); }

  Watching watch(const std::string& target) {
    net::Request request{.method = "GET", .target = target, .headers = {}, .body = {}};
    auto response = run(loop, transport->open(std::move(request), {.deadline = loop.now() + 30s}));
    EXPECT_EQ(response.status, 200);
    return {std::move(response.body), {}};
  }
  // The next event, nullopt when none comes within `wait`; null at the end of the stream.
  std::optional<Value> next(Watching& w, Duration wait = 1s) {
    while (true) {
      if (const auto end = w.rest.find('\n'); end != std::string::npos) {
        Value event = json::parse(w.rest.substr(0, end));
        w.rest.erase(0, end + 1);
        return event;
      }
      try {
        const std::string_view piece = run(loop, w.body->read(loop.now() + wait, {}));
        if (piece.empty()) return Value();
        w.rest += piece;
      } catch (const net::Error& e) {
        if (e.kind() == net::Error::Kind::kDeadline) return std::nullopt;
        throw;
      }
    }
  }
  // "ADDED a", "MODIFIED b" ... as far as they come at once.
  std::vector<std::string> events(Watching& w) {
    std::vector<std::string> out;
    while (const auto event = next(w, 10ms)) {
      if (event->is_null()) {
        out.emplace_back("END");
        break;
      }
      out.push_back(std::string(json::string_at(*event, {"type"})) + " " +
                    std::string(json::string_at(*event, {"object", "metadata", "name"})));
    }
    return out;
  }
  std::string version() { return std::to_string(api.store().version()); }
  void pods(int count, Object labels = {}) {
    for (int i = 0; i < count; ++i) {
      api.create(kube::resources::kPods, make_pod({.name = "p" + std::to_string(i), .labels = labels}));
    }
  }
};

constexpr const char* kPods = "/api/v1/namespaces/default/pods";
using Strings = std::vector<std::string>;

TEST_F(FakeApiTest, CreatesAndGets) {
  const Answer made = post(kPods, make_pod({.name = "a"}));
  EXPECT_EQ(made.status, 201);
  EXPECT_EQ(made.string({"kind"}), "Pod");
  EXPECT_EQ(made.string({"apiVersion"}), "v1");
  EXPECT_EQ(made.string({"status", "phase"}), "Pending");
  EXPECT_EQ(made.string({"metadata", "uid"}).size(), 36u);
  EXPECT_EQ(made.string({"metadata", "creationTimestamp"}), "2026-01-01T01:00:00Z");
  EXPECT_EQ(json::int_at(made.body, {"metadata", "generation"}), 1);
  EXPECT_EQ(made.string({"spec", "restartPolicy"}), "Always");
  const Answer got = get(std::string(kPods) + "/a");
  EXPECT_TRUE(json::equal(got.body, made.body));

  const Answer twice = post(kPods, make_pod({.name = "a"}));
  EXPECT_EQ(twice.status, 409);
  EXPECT_EQ(twice.reason(), "AlreadyExists");
  EXPECT_EQ(twice.message(), "pods \"a\" already exists");
  EXPECT_EQ(twice.string({"details", "kind"}), "pods");
  EXPECT_EQ(get(std::string(kPods) + "/b").reason(), "NotFound");

  Value generated = make_pod({.name = ""});
  generated.at("metadata").get_object() = Object{{"generateName", "gen-"}};
  const Answer named = post(kPods, generated);
  EXPECT_EQ(named.string({"metadata", "name"}).size(), 9u);
  EXPECT_EQ(named.string({"metadata", "namespace"}), "default");

  EXPECT_EQ(post("/api/v1/namespaces/other/pods", make_pod({.name = "x"})).status, 400);
  EXPECT_EQ(post(kPods, make_pod({.name = "Bad_Name"})).status, 422);
  EXPECT_EQ(post(kPods, make_node({.name = "x"})).status, 400);
}

TEST_F(FakeApiTest, UpdatesKeepWhatOthersOwn) {
  pods(1);
  Answer got = get(std::string(kPods) + "/p0");
  Value changed = got.body;
  json::at_or_create(changed, {"metadata", "labels", "x"}) = "1";
  json::at_or_create(changed, {"status", "phase"}) = "Running";
  const Answer put_1 = put(std::string(kPods) + "/p0", changed);
  EXPECT_EQ(put_1.status, 200);
  EXPECT_EQ(put_1.string({"metadata", "labels", "x"}), "1");
  EXPECT_EQ(put_1.string({"status", "phase"}), "Pending") << "status is written by its subresource";
  EXPECT_EQ(json::int_at(put_1.body, {"metadata", "generation"}), 1);
  const Answer old = put(std::string(kPods) + "/p0", changed);
  EXPECT_EQ(old.status, 409);
  EXPECT_EQ(old.reason(), "Conflict");

  Value status = put_1.body;
  json::at_or_create(status, {"status", "phase"}) = "Running";
  json::at_or_create(status, {"spec", "priority"}) = 99;
  const Answer put_2 = put(std::string(kPods) + "/p0/status", status);
  EXPECT_EQ(put_2.string({"status", "phase"}), "Running");
  EXPECT_EQ(json::int_at(put_2.body, {"spec", "priority"}), 0);

  const auto before = api.store().version();
  EXPECT_EQ(merge(std::string(kPods) + "/p0", R"({"metadata":{"labels":{"x":"1"}}})").status, 200);
  EXPECT_EQ(api.store().version(), before) << "nothing changed, nothing written";
  const Answer frozen = merge(std::string(kPods) + "/p0", R"({"spec":{"nodeName":"n1"}})");
  EXPECT_EQ(frozen.status, 422);
  EXPECT_EQ(frozen.reason(), "Invalid");
  EXPECT_EQ(merge(std::string(kPods) + "/p0", R"({"metadata":{"resourceVersion":"1","labels":{"y":"2"}}})").status,
            409);
  EXPECT_EQ(merge(std::string(kPods) + "/p0", R"({"metadata":{"uid":"other","labels":{"y":"2"}}})").status, 409);
}

TEST_F(FakeApiTest, PatchesInEveryForm) {
  pods(1);
  const std::string path = std::string(kPods) + "/p0";
  const Answer a = call("PATCH", path, json::parse(R"([{"op":"add","path":"/metadata/labels","value":{"a":"1"}}])"),
                        "application/json-patch+json");
  EXPECT_EQ(a.string({"metadata", "labels", "a"}), "1");
  EXPECT_EQ(call("PATCH", path, json::parse(R"([{"op":"test","path":"/metadata/name","value":"q"}])"),
                 "application/json-patch+json")
                .status,
            422);
  const Answer s =
      call("PATCH", path + "/status", json::parse(R"({"status":{"conditions":[{"type":"Ready","status":"True"}]}})"),
           "application/strategic-merge-patch+json");
  EXPECT_EQ(s.status, 200);
  const Answer s2 =
      call("PATCH", path + "/status", json::parse(R"({"status":{"conditions":[{"type":"Other","status":"True"}]}})"),
           "application/strategic-merge-patch+json");
  EXPECT_EQ(json::array_at(s2.body, {"status", "conditions"})->size(), 2u);
  EXPECT_EQ(call("PATCH", path, Object(), "application/json").status, 415);
  api.add_resource({"slinky.slurm.net", "v1beta1", "nodesets", "NodeSet", true});
  EXPECT_EQ(call("PATCH", "/apis/slinky.slurm.net/v1beta1/namespaces/default/nodesets/a", Object(),
                 "application/strategic-merge-patch+json")
                .status,
            415);
}

TEST_F(FakeApiTest, WatchesWhatChanges) {
  pods(2, {{"app", "x"}});
  Watching w = watch("/api/v1/pods?watch=1&resourceVersion=" + version());
  Watching labelled = watch("/api/v1/pods?watch=1&labelSelector=app%3Dx&resourceVersion=" + version());
  Watching initial = watch("/api/v1/pods?watch=1&fieldSelector=metadata.name%3Dp1");
  EXPECT_EQ(events(initial), (Strings{"ADDED p1"}));
  merge(std::string(kPods) + "/p0", R"({"metadata":{"labels":{"app":"y"}}})");
  merge(std::string(kPods) + "/p0", R"({"metadata":{"labels":{"app":"z"}}})");
  merge(std::string(kPods) + "/p0", R"({"metadata":{"labels":{"app":"x"}}})");
  del(std::string(kPods) + "/p0");
  EXPECT_EQ(events(w), (Strings{"MODIFIED p0", "MODIFIED p0", "MODIFIED p0", "DELETED p0"}));
  EXPECT_EQ(events(labelled), (Strings{"DELETED p0", "ADDED p0", "DELETED p0"}));
  EXPECT_EQ(events(initial), Strings{});
  EXPECT_EQ(api.watches(), 3u);
}

}  // namespace
}  // namespace bascule::testing
