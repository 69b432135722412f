// Paging, resume and expiry of watches, bookmarks, faults on demand, counting, speed.
#include "testing/fake_api_test.hpp"

namespace bascule::testing {
namespace {

Strings names(const Answer& list) {
  Strings out;
  for (const Value& item : *json::array_at(list.body, {"items"})) {
    out.emplace_back(json::string_at(item, {"metadata", "name"}));
  }
  return out;
}

TEST_F(FakeApiTest, PagesAreOneSnapshot) {
  pods(5);
  const Answer first = get(std::string(kPods) + "?limit=2");
  EXPECT_EQ(names(first), (Strings{"p0", "p1"}));
  EXPECT_EQ(json::int_at(first.body, {"metadata", "remainingItemCount"}), 3);
  del(std::string(kPods) + "/p2");
  pods(0);
  api.create(kube::resources::kPods, make_pod({.name = "p9"}));
  const std::string token = first.string({"metadata", "continue"});
  const Answer second = get(std::string(kPods) + "?limit=2&continue=" + token);
  EXPECT_EQ(names(second), (Strings{"p2", "p3"})) << "as it was when the list began";
  EXPECT_EQ(second.string({"metadata", "resourceVersion"}), first.string({"metadata", "resourceVersion"}));
  EXPECT_EQ(names(get(std::string(kPods) + "?limit=2&continue=" + token)), (Strings{"p2", "p3"})) << "asked again";
  const Answer last = get(std::string(kPods) + "?limit=2&continue=" + second.string({"metadata", "continue"}));
  EXPECT_EQ(names(last), Strings{"p4"});
  EXPECT_EQ(last.string({"metadata", "continue"}), "");
  EXPECT_EQ(names(get(std::string(kPods) + "?limit=2&resourceVersion=0")).size(), 5u) << "from the cache: whole";
  api.expire_continues();
  const Answer expired = get(std::string(kPods) + "?limit=2&continue=" + token);
  EXPECT_EQ(expired.status, 410);
  EXPECT_EQ(expired.reason(), "Expired");
  EXPECT_EQ(get(std::string(kPods) + "?resourceVersion=999999").status, 504);
}

TEST_F(FakeApiTest, Selects) {
  api.create(kube::resources::kPods, make_pod({.name = "a", .scheduler = "s", .labels = {{"k", "1"}, {"e", ""}}}));
  api.create(kube::resources::kPods, make_pod({.name = "b", .node = "n1", .labels = {{"k", "2"}}}));
  api.create(kube::resources::kPods, make_pod({.name = "c"}));
  const auto by = [&](const std::string& kind, const std::string& text) {
    return names(get(std::string(kPods) + "?" + kind + "Selector=" + net::percent_encode(text)));
  };
  EXPECT_EQ(by("label", "k"), (Strings{"a", "b"}));
  EXPECT_EQ(by("label", "!k"), (Strings{"c"}));
  EXPECT_EQ(by("label", "k in (1, 3),e"), (Strings{"a"}));
  EXPECT_EQ(by("label", "k notin (1)"), (Strings{"b", "c"}));
  EXPECT_EQ(by("label", "k!=1"), (Strings{"b", "c"}));
  EXPECT_EQ(by("label", "k>1"), (Strings{"b"}));
  EXPECT_EQ(by("field", "spec.nodeName=n1"), (Strings{"b"}));
  EXPECT_EQ(by("field", "spec.nodeName="), (Strings{"a", "c"}));
  EXPECT_EQ(by("field", "spec.schedulerName=s,status.phase!=Running"), (Strings{"a"}));
  EXPECT_EQ(by("field", "metadata.name==c"), (Strings{"c"}));
  const Answer bad = get(std::string(kPods) + "?fieldSelector=spec.foo%3D1");
  EXPECT_EQ(bad.status, 400);
  EXPECT_EQ(bad.message(), "field label not supported: spec.foo");
  EXPECT_EQ(get(std::string(kPods) + "?labelSelector=a%20b").status, 400);
}

TEST_F(FakeApiTest, WatchesResumeUntilHistoryEnds) {
  pods(2);
  const std::string from = version();
  for (int i = 0; i < 60; ++i) {
    api.patch(kube::resources::kPods, {"default", "p0"},
              Object{{"metadata", Object{{"labels", Object{{"i", std::to_string(i)}}}}}});
    if (i == 20) {
      Watching w = watch("/api/v1/pods?watch=1&resourceVersion=" + from);
      EXPECT_EQ(events(w).size(), 21u);
    }
  }
  Watching old = watch("/api/v1/pods?watch=1&resourceVersion=" + from);
  const auto error = next(old);
  ASSERT_TRUE(error);
  EXPECT_EQ(json::string_at(*error, {"type"}), "ERROR");
  EXPECT_EQ(json::int_at(*error, {"object", "code"}), 410);
  EXPECT_EQ(json::string_at(*error, {"object", "reason"}), "Expired");
  EXPECT_TRUE(next(old)->is_null());

  Watching idle = watch("/api/v1/pods?watch=1&resourceVersion=" + version());
  events(idle);
  api.store().compact();
  api.patch(kube::resources::kPods, {"default", "p1"}, json::parse(R"({"metadata":{"labels":{"x":"1"}}})"));
  EXPECT_EQ(events(idle), Strings{"MODIFIED p1"}) << "who has missed nothing goes on";
}

TEST_F(FakeApiTest, WatchesEndAndSendBookmarks) {
  pods(1);
  Watching w = watch("/api/v1/pods?watch=1&allowWatchBookmarks=true&timeoutSeconds=150&resourceVersion=" + version());
  EXPECT_EQ(events(w), Strings{});
  api.store().skip_versions(500);
  loop.advance(61s);
  const auto bookmark = next(w);
  EXPECT_EQ(json::string_at(*bookmark, {"type"}), "BOOKMARK");
  EXPECT_EQ(json::string_at(*bookmark, {"object", "kind"}), "Pod");
  EXPECT_EQ(json::string_at(*bookmark, {"object", "metadata", "resourceVersion"}), version());
  loop.advance(100s);
  EXPECT_EQ(json::string_at(*next(w), {"type"}), "BOOKMARK");
  EXPECT_TRUE(next(w)->is_null());
  Watching all =
      watch("/api/v1/pods?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
  EXPECT_EQ(json::string_at(*next(all), {"type"}), "ADDED");
  EXPECT_EQ(json::string_at(*next(all), {"object", "metadata", "annotations", "k8s.io/initial-events-end"}), "true");
  api.end_watches();
  EXPECT_EQ(events(all), Strings{"END"});
}

// As kube-apiserver's cacheWatcher: whoever has seen more than this server hears nothing, not that it is behind.
TEST_F(FakeApiTest, AWatchFromANewerVersionIsSilent) {
  pods(1);
  const std::string newer = std::to_string(std::stoull(version()) + 100);
  Watching w = watch("/api/v1/pods?watch=1&allowWatchBookmarks=true&timeoutSeconds=600&resourceVersion=" + newer);
  api.patch(kube::resources::kPods, {"default", "p0"}, json::parse(R"({"metadata":{"labels":{"x":"1"}}})"));
  loop.advance(3min);
  EXPECT_EQ(events(w), Strings{});
  api.store().skip_versions(200);
  loop.advance(61s);
  EXPECT_EQ(json::string_at(*next(w), {"type"}), "BOOKMARK");
}

TEST_F(FakeApiTest, MisbehavesWhenTold) {
  using Kind = ApiFault::Kind;
  pods(1);
  ApiFault fault;
  api.set_faults([&](const ApiCall&) { return fault; });
  const auto broken = [&] {
    try {
      get(std::string(kPods) + "/p0");
    } catch (const net::Error& e) {
      return std::string(net::to_string(e.kind()));
    }
    return std::string("none");
  };
  const auto fails = [&](ApiFault f, auto&& call) {
    fault = f;
    std::string out = "none";
    try {
      out = std::to_string(call().status);
    } catch (const net::Error& e) {
      out = e.kind() == net::Error::Kind::kDeadline ? "deadline" : "broken";
    }
    fault = {};
    return out;
  };
  const auto make = [&](const char* name) { return [this, name] { return post(kPods, make_pod({.name = name})); }; };
  EXPECT_EQ(fails({.kind = Kind::kStatus, .code = 429, .retry_after = 7}, make("a")), "429");
  EXPECT_EQ(fails({.kind = Kind::kStatus, .code = 409}, make("a")), "409");
  EXPECT_EQ(fails({.kind = Kind::kCutBefore}, make("a")), "broken");
  EXPECT_EQ(fails({.kind = Kind::kStallBefore}, make("a")), "deadline");
  EXPECT_EQ(api.count(kube::resources::kPods), 1u);
  EXPECT_EQ(fails({.kind = Kind::kStatusAfter, .code = 500}, make("a")), "500");
  EXPECT_EQ(fails({.kind = Kind::kCutAfter}, make("b")), "broken");
  EXPECT_EQ(fails({.kind = Kind::kStallAfter}, make("c")), "deadline");
  EXPECT_EQ(fails({.kind = Kind::kHalf}, make("d")), "broken");
  EXPECT_EQ(api.count(kube::resources::kPods), 5u);
  fault = {.kind = Kind::kStatus, .code = 429, .retry_after = 7};
  EXPECT_EQ(get(kPods).headers.get("Retry-After"), "7");
  EXPECT_EQ(broken(), "none");
  fault = {};
  api.remember();
  del(std::string(kPods) + "/a");
  fault = {.kind = Kind::kStale};
  EXPECT_EQ(names(get(kPods)).size(), 5u);
  EXPECT_EQ(get(std::string(kPods) + "/a").status, 200);
  fault = {};
  EXPECT_EQ(names(get(kPods)).size(), 4u);
}

TEST_F(FakeApiTest, WatchesMisbehaveWhenTold) {
  using Kind = ApiFault::Kind;
  pods(3);
  ApiFault fault{.kind = Kind::kSilent};
  api.set_faults([&](const ApiCall& call) { return call.verb == "watch" ? fault : ApiFault{}; });
  Watching silent = watch("/api/v1/pods?watch=1");
  EXPECT_FALSE(next(silent, 3h));
  fault = {.kind = Kind::kErrorEvent, .code = 410};
  Watching error = watch("/api/v1/pods?watch=1");
  EXPECT_EQ(json::int_at(*next(error), {"object", "code"}), 410);
  fault = {.kind = Kind::kHalf, .bytes = 100};
  Watching half = watch("/api/v1/pods?watch=1");
  EXPECT_THROW(next(half), net::Error);
  EXPECT_EQ(half.rest.size(), 100u);
  fault = {.after = 5s};
  Watching slow = watch("/api/v1/pods?watch=1");
  EXPECT_FALSE(next(slow, 4s));
  EXPECT_TRUE(next(slow, 2s));
}

TEST_F(FakeApiTest, CountsAndLogs) {
  pods(1);
  get(kPods);
  get(std::string(kPods) + "/p0");
  merge(std::string(kPods) + "/p0/status?fieldManager=me", R"({"status":{"phase":"Running"}})");
  merge(std::string(kPods) + "/zz", "{}");
  EXPECT_EQ(api.calls("list", "pods"), 1u);
  EXPECT_EQ(api.calls("patch", "pods/status"), 1u);
  EXPECT_EQ(api.calls("patch"), 2u);
  EXPECT_EQ(api.write_calls(), 2u);
  ASSERT_EQ(api.writes().size(), 2u);
  EXPECT_EQ(api.writes()[0].manager, "me");
  EXPECT_EQ(api.writes()[0].call.key.name, "p0");
  EXPECT_EQ(api.writes()[0].body, R"({"status":{"phase":"Running"}})");
  EXPECT_EQ(api.writes()[1].code, 404);
  api.reset_counts();
  EXPECT_EQ(api.write_calls(), 0u);
}

TEST_F(FakeApiTest, Discovers) {
  EXPECT_EQ(get("/readyz").text, "ok");
  EXPECT_EQ(get("/version").string({"major"}), "1");
  EXPECT_NE(get("/api/v1").text.find(R"("name":"pods/binding")"), std::string::npos);
  EXPECT_NE(get("/apis").text.find("coordination.k8s.io"), std::string::npos);
  EXPECT_EQ(get("/apis/batch/v1").string({"groupVersion"}), "batch/v1");
  EXPECT_EQ(get("/apis/batch").string({"kind"}), "APIGroup");
  const Answer unknown = get("/api/v1/unknowns");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.message(), "the server could not find the requested resource");
  EXPECT_EQ(get("/apis/none.example.com/v1/x").text, "404 page not found\n");
}

TEST_F(FakeApiTest, HoldsThousands) {
  for (int i = 0; i < 2000; ++i) {
    api.create(kube::resources::kPods, make_pod({.name = "x" + std::to_string(i)}));
  }
  std::vector<Watching> watchers;
  for (int i = 0; i < 20; ++i) watchers.push_back(watch("/api/v1/pods?watch=1&resourceVersion=" + version()));
  for (int i = 0; i < 40; ++i) {
    api.patch(kube::resources::kPods, {"default", "x7"},
              Object{{"metadata", Object{{"labels", Object{{"i", std::to_string(i)}}}}}});
  }
  for (Watching& w : watchers) EXPECT_EQ(events(w).size(), 40u);
  EXPECT_EQ(names(get("/api/v1/pods?limit=500")).size(), 500u);
}

}  // namespace
}  // namespace bascule::testing
