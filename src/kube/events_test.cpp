#include "kube/events.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "base/log.hpp"
#include "base/manual_loop.hpp"
#include "net/loopback.hpp"

namespace bascule::kube {
namespace {

using namespace std::chrono_literals;

ObjectReference pod(std::string name) {
  return {"v1", "Pod", {"ns", std::move(name)}, Uid("uid")};
}

struct Events : testing::Test {
  TimePoint now{1h};
  WallTime wall{std::chrono::sys_days{std::chrono::year{2026} / 1 / 1}};
  EventLog log{"bridge", "host", 0};

  void record(const ObjectReference& about, std::string note, std::string reason = "Waiting") {
    log.record(about, EventType::kNormal, reason, "", std::move(note), now, wall);
  }
  // Takes all writes that are due.
  std::vector<EventLog::Write> take() {
    std::vector<EventLog::Write> out;
    while (auto write = log.next(now)) {
      log.done(write->id, EventLog::Outcome::kDone);
      out.push_back(std::move(*write));
    }
    return out;
  }
  static std::int64_t count(const EventLog::Write& write) {
    return json::int_at(write.body, {"series", "count"}).value_or(0);
  }
};

TEST_F(Events, an_event_as_the_api_wants_it) {
  log.record(pod("p"), EventType::kWarning, "Held", "Schedule", std::string(1023, 'x') + "é", now, wall);
  const auto writes = take();
  ASSERT_EQ(writes.size(), 1U);
  EXPECT_TRUE(writes[0].create);
  EXPECT_EQ(writes[0].key.str(), "ns/p.0000000000000001");
  json::Value body = writes[0].body;
  EXPECT_EQ(json::string_at(body, {"note"}), std::string(1023, 'x'));
  body.as_object()["note"] = "";
  EXPECT_EQ(
      json::dump(body),
      R"({"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{"name":"p.0000000000000001","namespace":"ns"},)"
      R"("eventTime":"2026-01-01T00:00:00.000000Z","reportingController":"bridge","reportingInstance":"bridge-host",)"
      R"("action":"Schedule","reason":"Held",)"
      R"("regarding":{"apiVersion":"v1","kind":"Pod","name":"p","namespace":"ns","uid":"uid"},"note":"","type":"Warning"})");
  log.record({"v1", "Node", {"", "n"}, Uid()}, EventType::kNormal, "A", "", "b", now, wall);
  EXPECT_EQ(take()[0].key.ns, "default");
}

TEST_F(Events, what_else_an_event_is_about_and_who_says_so) {
  const ObjectReference set{"slinky.slurm.net/v1beta1", "NodeSet", {"ns", "s"}, Uid("set")};
  log.record(set, EventType::kNormal, "Made", "Create", "x", now, wall, {pod("p"), "nodeset-controller"});
  log.record(set, EventType::kNormal, "Made", "Create", "x", now, wall, {pod("q"), "nodeset-controller"});
  const auto writes = take();
  ASSERT_EQ(writes.size(), 2U) << "another related object, another event";
  EXPECT_EQ(json::dump(*json::find(writes[0].body, {"related"})),
            R"({"apiVersion":"v1","kind":"Pod","name":"p","namespace":"ns","uid":"uid"})");
  EXPECT_EQ(json::string_at(writes[0].body, {"reportingController"}), "nodeset-controller");
  EXPECT_EQ(json::string_at(writes[0].body, {"reportingInstance"}), "nodeset-controller-host");
}

TEST_F(Events, repetitions_become_a_series) {
  record(pod("p"), "wait");
  EXPECT_EQ(take().size(), 1U);
  record(pod("p"), "wait");
  auto writes = take();
  ASSERT_EQ(writes.size(), 1U) << "the first repetition is told at once";
  EXPECT_FALSE(writes[0].create);
  EXPECT_EQ(count(writes[0]), 2);
  for (int i = 0; i < 10; ++i) {
    now += 1s;
    record(pod("p"), "wait");
  }
  EXPECT_TRUE(take().empty());
  EXPECT_EQ(log.due(), now + 21s);
  now += 21s;
  writes = take();
  ASSERT_EQ(writes.size(), 1U) << "later ones together";
  EXPECT_EQ(count(writes[0]), 12);
  record(pod("p"), "wait for something else");
  record(pod("q"), "wait");
  EXPECT_EQ(take().size(), 2U);
  now += 7min;
  record(pod("p"), "wait");
  writes = take();
  ASSERT_EQ(writes.size(), 1U);
  EXPECT_TRUE(writes[0].create) << "after six minutes of silence it is a new event";
  EXPECT_TRUE(log.empty());
  EXPECT_EQ(log.dropped(), 0U);
}

TEST_F(Events, an_object_that_talks_too_much_is_cut_off) {
  for (int i = 0; i < 100; ++i) record(pod("p"), fmt::format("note {}", i));
  EXPECT_EQ(take().size(), 25U);
  EXPECT_EQ(log.dropped(), 75U);
  record(pod("q"), "another may talk");
  EXPECT_EQ(take().size(), 1U);
  now += 301s;
  record(pod("p"), "x");
  record(pod("p"), "y");
  EXPECT_EQ(take().size(), 1U);
}

TEST_F(Events, whoever_has_been_silent_longest_is_forgotten_first) {
  EventLog small("c", "i", 0, {.objects = 2, .burst = 1});
  const auto says = [&](const char* name, const char* note) {
    const std::uint64_t dropped = small.dropped();
    small.record(pod(name), EventType::kNormal, "r", "", note, now, wall);
    return small.dropped() == dropped;
  };
  EXPECT_TRUE(says("p", "1"));
  EXPECT_TRUE(says("q", "1"));
  EXPECT_FALSE(says("p", "2"));
  EXPECT_TRUE(says("r", "1"));
  EXPECT_FALSE(says("p", "3")) << "q was silent longer";
  EXPECT_TRUE(says("q", "2"));
}

TEST_F(Events, bounds_and_failures) {
  EventLog small("c", "i", 0, {.queue = 3, .series = 10, .objects = 2});
  const auto note = [&](int i) {
    small.record(pod(fmt::format("p{}", i)), EventType::kNormal, "r", "", "n", now, wall);
  };
  for (int i = 0; i < 5; ++i) note(i);
  EXPECT_EQ(small.dropped(), 2U);
  auto write = small.next(now);
  small.done(write->id, EventLog::Outcome::kAgain);
  EXPECT_EQ(small.next(now)->id, write->id);
  small.done(write->id, EventLog::Outcome::kDrop);
  EXPECT_NE(small.next(now)->id, write->id);
  small.done(small.next(now)->id, EventLog::Outcome::kDone);
  note(1);
  note(1);
  write = small.next(now);
  small.done(write->id, EventLog::Outcome::kDone);
  write = small.next(now);
  ASSERT_FALSE(write->create);
  small.done(write->id, EventLog::Outcome::kGone);
  EXPECT_TRUE(small.empty());
  note(1);
  EXPECT_TRUE(small.next(now)->create);
}

TEST_F(Events, one_that_is_repeated_while_it_is_created_is_patched_then) {
  record(pod("a"), "x");
  const auto create = log.next(now);
  ASSERT_TRUE(create && create->create);
  record(pod("a"), "x");
  log.done(create->id, EventLog::Outcome::kDone);
  const auto patch = take();
  ASSERT_EQ(patch.size(), 1U);
  EXPECT_TRUE(!patch[0].create && count(patch[0]) == 2);
  EXPECT_TRUE(log.empty());
}

TEST_F(Events, one_that_fails_holds_up_no_other) {
  record(pod("a"), "fails");
  record(pod("b"), "goes");
  const auto first = log.next(now);
  ASSERT_TRUE(first);
  log.done(first->id, EventLog::Outcome::kLater, now + 10s);
  record(pod("a"), "fails");
  const auto others = take();
  ASSERT_EQ(others.size(), 1U);
  EXPECT_EQ(others[0].key.name.substr(0, 2), "b.");
  EXPECT_EQ(log.due(), now + 10s);
  now += 10s;
  const auto again = take();
  ASSERT_EQ(again.size(), 1U);
  EXPECT_TRUE(again[0].create && again[0].id == first->id);
  EXPECT_TRUE(log.empty());
  record(pod("a"), "never goes");
  for (int i = 0; i < 12; ++i) {
    const auto next = log.next(now);
    ASSERT_TRUE(next) << i;
    log.done(next->id, EventLog::Outcome::kLater, now + 10s);
    now += 10s;
  }
  EXPECT_TRUE(log.empty() && !log.next(now));
  EXPECT_EQ(log.dropped(), 1U);
}

// Whose events are not taken fills the queue: that costs its own.
TEST_F(Events, a_full_queue_takes_no_more_of_who_has_the_most_in_it) {
  EventLog small("c", "i", 0, {.queue = 4});
  const auto note = [&](const std::string& ns, int i) {
    small.record({"v1", "Pod", {ns, fmt::format("p{}", i)}, Uid()}, EventType::kNormal, "r", "", "n", now, wall);
  };
  for (int i = 0; i < 6; ++i) note("loud", i);
  EXPECT_EQ(small.dropped(), 2U);
  note("quiet", 0);
  note("quiet", 1);
  EXPECT_EQ(small.dropped(), 4U);
  note("quiet", 2);
  EXPECT_EQ(small.dropped(), 5U);
  std::map<std::string, int> written;
  while (const auto write = small.next(now)) {
    ++written[write->key.ns];
    small.done(write->id, EventLog::Outcome::kDone);
  }
  EXPECT_EQ(written["loud"], 2);
  EXPECT_EQ(written["quiet"], 2);
  EXPECT_TRUE(small.empty());
}

// A webhook of somebody else's on the events of one namespace: `after` it fails, or never.
struct HangingNamespace : testing::Test {
  void hang(std::optional<Duration> after) {
    const net::Handler handler = [this](const net::ServerRequest& request, std::stop_token) {
      const bool hangs = request.target.contains("/namespaces/a");
      ++(hangs ? tried : written);
      return hangs ? refuse() : answer(request.body);
    };
    transport = net::make_loopback(loop, handler, [after](const net::Request& request) {
      if (!request.target.contains("/namespaces/a")) return net::Fault{};
      return after ? net::Fault{.delay = *after} : net::Fault{.kind = net::Fault::Kind::kStall};
    });
    client = std::make_unique<Client>(loop, *transport, ClientOptions{});
    recorder = std::make_unique<EventRecorder>(*client, "bridge", "host");
    for (int i = 0; i < 100; ++i) record("a", i);
    loop.advance(1s);
    record("b", 0);
    loop.advance(1s);
  }
  ~HangingNamespace() override {
    Gate gate(loop);
    spawn(gate, recorder->stop(loop.now() + 5s));
    loop.advance(1min);
  }
  void record(const std::string& ns, int i) {
    recorder->record({"v1", "Pod", {ns, fmt::format("p{}", i)}, Uid()}, EventType::kNormal, "Waiting", "", "note");
  }
  static Task<net::ServerResponse> answer(std::string body) { co_return net::ServerResponse{.body = std::move(body)}; }
  static Task<net::ServerResponse> refuse() {
    co_return net::ServerResponse{.status = 500, .body = R"({"kind":"Status","reason":"InternalError","code":500})"};
  }

  log::Capture quiet;
  ManualLoop loop;
  int tried = 0, written = 0;
  std::unique_ptr<net::Transport> transport;
  std::unique_ptr<Client> client;
  std::unique_ptr<EventRecorder> recorder;
};

TEST_F(HangingNamespace, silences_no_other) {
  hang(10s);
  EXPECT_EQ(written, 1);
  loop.advance(50s);
  EXPECT_GE(tried, 5);
  EXPECT_LE(tried, 7) << "one at a time";
}

// Half of the writers are for those that answer.
TEST_F(HangingNamespace, six_of_them_silence_no_other) {
  hang(10s);
  for (const char* ns : {"a1", "a2", "a3", "a4", "a5", "a6"}) {
    for (int i = 0; i < 20; ++i) record(ns, i);
  }
  loop.advance(60s);
  const int before = written;
  record("b", 1);
  loop.advance(1s);
  EXPECT_EQ(written, before + 1);
}

TEST_F(HangingNamespace, that_takes_longer_than_we_wait_is_as_any_other) {
  hang(std::nullopt);
  EXPECT_EQ(written, 1);
  const int before = tried;
  loop.advance(60s);
  EXPECT_GE(tried, before + 2) << "another of its events each time";
}

TEST(EventRecorder, writes_in_the_background_and_ends) {
  log::Capture quiet;
  ManualLoop loop;
  std::map<std::string, json::Value> stored;
  bool down = false;
  std::size_t posts = 0, patches = 0;
  const net::Handler handler = [&](const net::ServerRequest& request, std::stop_token) {
    const auto answer = [&] {
      const json::Value body = json::parse(request.body);
      if (request.method == "PATCH") {
        ++patches;
        return net::ServerResponse{.body = "{}"};
      }
      ++posts;
      EXPECT_EQ(request.target, "/apis/events.k8s.io/v1/namespaces/ns/events?fieldManager=bascule");
      const std::string name(json::string_at(body, {"metadata", "name"}));
      if (!stored.emplace(name, body).second) {
        return net::ServerResponse{.status = 409, .body = R"({"kind":"Status","reason":"AlreadyExists","code":409})"};
      }
      return net::ServerResponse{.body = request.body};
    };
    return [](net::ServerResponse response) -> Task<net::ServerResponse> { co_return response; }(answer());
  };
  const auto transport = net::make_loopback(loop, handler, [&](const net::Request&) {
    return net::Fault{.kind = down ? net::Fault::Kind::kBreakAfter : net::Fault::Kind::kNone, .delay = 1ms};
  });
  Client client(loop, *transport, {});
  EventRecorder recorder(client, "bridge", "host");
  recorder.record(pod("p"), EventType::kNormal, "Waiting", "", "note");
  loop.advance(1s);
  EXPECT_EQ(stored.size(), 1U);
  down = true;
  recorder.record(pod("q"), EventType::kNormal, "Waiting", "", "note");
  loop.advance(3s);
  down = false;
  loop.advance(20s);
  EXPECT_EQ(stored.size(), 2U) << "a lost answer does not double an event";
  EXPECT_GE(posts, 3U);
  for (int i = 0; i < 5; ++i) recorder.record(pod("p"), EventType::kNormal, "Waiting", "", "note");
  loop.advance(1s);
  EXPECT_EQ(patches, 1U);
  recorder.record(pod("p"), EventType::kNormal, "Waiting", "", "note");
  Gate gate(loop);
  spawn(gate, recorder.stop(loop.now() + 5s));
  loop.advance(1s);
  EXPECT_EQ(gate.count(), 0U);
  EXPECT_EQ(patches, 2U) << "what waits is written at the end";
  EXPECT_EQ(recorder.dropped(), 0U);
}

}  // namespace
}  // namespace bascule::kube
