// A server that keeps history, and a line to it that breaks: whatever happens, the informer's store ends equal to the
// server's objects and its handlers hear a history that makes sense.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>

#include "base/log.hpp"
#include "base/manual_loop.hpp"
#include "kube/informer.hpp"
#include "net/loopback.hpp"

namespace bascule::kube {
namespace {

using namespace std::chrono_literals;

struct Thing {
  ObjectMeta meta;
};
std::shared_ptr<const Thing> decode_thing(std::string_view text, json::Interner& interner) {
  auto out = std::make_shared<Thing>();
  out->meta = decode_object_meta(text, interner);
  return out;
}

struct Chaos {
  double stale_list = 0.5;        // a list that may be old is
  double list_fault = 0.1;        // 500, 429 or a cut
  double page_expires = 0.1;      // the continue token of a page
  double watch_refused = 0.02;    // 500, 429
  double error_event = 0.0005;    // an ERROR event of code 500, after an event
  double duplicate = 0.01;        // an event is sent again, or an older one is
  double bookmark = 0.02;         // after an event
  double silent = 0.001;          // the watch says nothing any more, and never ends
  double cut = 1.0;               // a watch is cut
  std::size_t cut_bytes = 7'000;  // on average after
  double compaction = 0.0003;     // an event forgets all history
};

class Server {
 public:
  Server(ManualLoop& loop, std::mt19937_64& random, Chaos chaos)
      : loop_(loop), random_(random), chaos_(chaos), bell_(loop) {
    snapshots_.push_back({version_, {}});
  }

  net::Handler handler() {
    return [this](const net::ServerRequest& request, std::stop_token) { return serve(request); };
  }
  net::FaultPlan faults() {
    return [this](const net::Request& request) {
      net::Fault fault;
      const bool watch = request.target.find("watch=true") != std::string::npos;
      fault.delay = std::chrono::microseconds(pick(2000));
      if (watch && chance(chaos_.cut)) {
        ++cuts;
        fault.kind = net::Fault::Kind::kCutBody;
        fault.after_bytes = pick(2 * chaos_.cut_bytes);
      } else if (!watch && chance(chaos_.list_fault)) {
        const auto kinds = std::array{net::Fault::Kind::kCutBody, net::Fault::Kind::kUnreachable,
                                      net::Fault::Kind::kBreakAfter, net::Fault::Kind::kStall};
        fault.kind = kinds[pick(kinds.size())];
        fault.after_bytes = pick(30'000);
      }
      return fault;
    };
  }

  void mutate() {
    ++version_;
    const std::string name = fmt::format("thing-{}", pick(300));
    const auto at = objects_.find(name);
    if (at == objects_.end()) {
      const Object object{fmt::format("uid-{}", version_), version_};
      objects_[name] = object;
      history_.push_back({version_, "ADDED", text(name, object)});
    } else if (chance(0.3)) {
      history_.push_back({version_, "DELETED", text(name, {at->second.uid, version_})});
      objects_.erase(at);
    } else {
      at->second.version = version_;
      history_.push_back({version_, "MODIFIED", text(name, at->second)});
    }
    if (chance(0.01)) {
      snapshots_.push_back({version_, objects_});
      if (snapshots_.size() > 3) snapshots_.pop_front();
    }
    if (chance(chaos_.compaction)) {
      first_version_ = version_ + 1;
      history_.clear();
    }
    bell_.notify();
  }

  struct Object {
    std::string uid;
    std::uint64_t version = 0;
  };
  using Objects = std::map<std::string, Object>;
  const Objects& objects() const { return objects_; }
  void heal() {
    chaos_ = Chaos{.stale_list = 0,
                   .list_fault = 0,
                   .page_expires = 0,
                   .watch_refused = 0,
                   .error_event = 0,
                   .duplicate = 0,
                   .bookmark = 0.02,
                   .silent = 0,
                   .cut = 0,
                   .cut_bytes = 1,
                   .compaction = 0};
  }

  std::uint64_t cuts = 0, gone = 0, stale = 0, errors = 0, duplicates = 0, silences = 0, expired_pages = 0;

 private:
  struct Event {
    std::uint64_t version = 0;
    const char* type;
    std::string object;
  };
  struct Snapshot {
    std::uint64_t version = 0;
    Objects objects;
  };

  std::size_t pick(std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_); }
  bool chance(double p) { return p > 0 && std::uniform_real_distribution<double>(0, 1)(random_) < p; }

  static std::string text(const std::string& name, const Object& object) {
    return fmt::format(
        R"({{"kind":"Thing","apiVersion":"v1","metadata":{{"name":"{}","namespace":"ns","uid":"{}","resourceVersion":"{}"}}}})",
        name, object.uid, object.version);
  }
  static net::ServerResponse status(int code, std::string reason) {
    return {.status = code,
            .body = fmt::format(R"({{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"{}","code":{}}})",
                                reason, code)};
  }

  Task<net::ServerResponse> serve(const net::ServerRequest& request) {
    const net::Target target = net::parse_target(request.target);
    net::ServerResponse response = target.get("watch") == "true" ? watch(target) : list(target);
    co_return response;
  }

  net::ServerResponse list(const net::Target& target) {
    if (chance(chaos_.list_fault / 2)) return status(chance(0.5) ? 500 : 429, "Busy");
    const std::string_view token = target.get("continue");
    Snapshot snapshot{version_, objects_};
    std::string after;
    if (!token.empty()) {
      const std::size_t dot = token.find('.');
      const auto at = pages_.find(std::stoull(std::string(token.substr(0, dot))));
      if (at == pages_.end() || chance(chaos_.page_expires)) return ++expired_pages, status(410, "Expired");
      snapshot = at->second;
      after = token.substr(dot + 1);
    } else {
      const std::string_view version = target.get("resourceVersion");
      EXPECT_EQ(target.get("resourceVersionMatch"), version.empty() || version == "0" ? "" : "NotOlderThan");
      const Snapshot& old = snapshots_[pick(snapshots_.size())];
      const std::uint64_t least = version.empty() ? version_ : std::stoull(std::string(version));
      if (old.version >= least && chance(chaos_.stale_list)) {
        ++stale;
        snapshot = old;
      }
    }
    return page(snapshot, after, target.get("limit"));
  }

  net::ServerResponse page(const Snapshot& snapshot, const std::string& after, std::string_view limit) {
    const std::size_t most = limit.empty() ? 1'000'000 : std::stoul(std::string(limit));
    std::string items, token;
    std::size_t count = 0;
    for (auto at = snapshot.objects.upper_bound(after); at != snapshot.objects.end(); ++at) {
      if (count == most) break;
      items += (count++ == 0 ? "" : ",") + text(at->first, at->second);
      if (count == most && std::next(at) != snapshot.objects.end()) {
        pages_[snapshot.version] = snapshot;
        if (pages_.size() > 5) pages_.erase(pages_.begin());
        token = fmt::format("{}.{}", snapshot.version, at->first);
      }
    }
    return {
        .body = fmt::format(
            R"({{"kind":"ThingList","apiVersion":"v1","metadata":{{"resourceVersion":"{}","continue":"{}"}},"items":[{}]}})",
            snapshot.version, token, items)};
  }

  net::ServerResponse watch(const net::Target& target) {
    if (chance(chaos_.watch_refused)) return status(chance(0.5) ? 500 : 429, "Busy");
    const std::uint64_t from = std::stoull(std::string(target.get("resourceVersion")));
    EXPECT_EQ(target.get("allowWatchBookmarks"), "true");
    if (from + 1 < first_version_ && chance(0.5)) return ++gone, status(410, "Expired");
    const TimePoint end = loop_.now() + std::chrono::seconds(std::stol(std::string(target.get("timeoutSeconds"))));
    return {.stream = [this, from, end](net::BodySink& sink, std::stop_token stop) {
      return stream(from, end, sink, std::move(stop));
    }};
  }

  static std::string line(const char* type, const std::string& object) {
    return fmt::format("{{\"type\":\"{}\",\"object\":{}}}\n", type, object);
  }
  std::string bookmark(std::uint64_t version) const {
    return line("BOOKMARK", fmt::format(R"({{"kind":"Thing","metadata":{{"resourceVersion":"{}"}}}})", version));
  }

  Task<> stream(std::uint64_t seen, TimePoint end, net::BodySink& sink, std::stop_token stop) {
    while (!stop.stop_requested() && loop_.now() < end) {
      if (chance(chaos_.silent)) {
        ++silences;
        co_await sleep_until(loop_, TimePoint::max(), stop);
        co_return;
      }
      std::string piece;
      if (seen + 1 < first_version_) {
        ++gone;
        piece = line("ERROR", R"({"kind":"Status","code":410,"reason":"Expired","message":"too old"})");
        co_await sink.write(std::move(piece));
        co_return;
      }
      if (seen == version_) {
        const bool news = co_await bell_.wait(stop, std::min(end, loop_.now() + 60s));
        if (!news && !stop.stop_requested()) co_await sink.write(bookmark(seen));
        continue;
      }
      bool failed = false;
      while (seen < version_ && piece.size() < 4000 && !failed) {
        const Event& event = history_[seen + 1 - first_version_];
        piece += line(event.type, event.object);
        seen = event.version;
        if (chance(chaos_.duplicate)) {
          ++duplicates;
          const std::uint64_t back = std::min<std::uint64_t>(pick(50), seen - first_version_);
          const Event& again = history_[seen - back - first_version_];
          piece += line(again.type, again.object);
        }
        if (chance(chaos_.bookmark)) piece += bookmark(seen);
        failed = chance(chaos_.error_event);
      }
      if (failed) {
        ++errors;
        piece += line("ERROR", R"({"kind":"Status","code":500,"reason":"InternalError","message":"etcd"})");
      }
      co_await sink.write(std::move(piece));
      if (failed) co_return;
    }
  }

  ManualLoop& loop_;
  std::mt19937_64& random_;
  Chaos chaos_;
  Bell bell_;
  std::uint64_t version_ = 1;
  std::uint64_t first_version_ = 2;  // of history_
  Objects objects_;
  std::deque<Event> history_;
  std::deque<Snapshot> snapshots_;
  std::map<std::uint64_t, Snapshot> pages_;
};

// What the handlers make of what they hear.
struct Listener {
  std::map<std::string, std::pair<std::string, std::string>> things;  // name: uid, version
  std::uint64_t calls = 0;
  std::uint64_t newest = 0;

  void hear(const std::shared_ptr<const Thing>& before, const std::shared_ptr<const Thing>& after) {
    ++calls;
    const std::string& name = (after ? after : before)->meta.key.name;
    const auto at = things.find(name);
    if (!before) {
      ASSERT_EQ(at, things.end()) << name << " added twice";
    } else {
      ASSERT_NE(at, things.end()) << name << " changed or gone without having been added";
      ASSERT_EQ(at->second, std::pair(before->meta.uid.str(), before->meta.resource_version));
      if (after) {
        ASSERT_EQ(before->meta.uid, after->meta.uid);
        ASSERT_TRUE(older_version(before->meta.resource_version, after->meta.resource_version))
            << name << " went back in time";
      }
    }
    if (after) {
      things[name] = {after->meta.uid.str(), after->meta.resource_version};
    } else {
      things.erase(at);
    }
  }
};

struct Outcome {
  InformerStats stats;
  std::uint64_t calls = 0;
};

Outcome simulate(std::uint64_t seed, std::size_t events, Chaos chaos, std::uint64_t* cuts, std::string* words) {
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937_64 random(seed);
  ManualLoop loop;
  Server server(loop, random, chaos);
  const auto handler = server.handler();
  const auto transport = net::make_loopback(loop, handler, server.faults());
  Client client(loop, *transport, {});
  json::Interner interner;
  const Resource things{"", "v1", "things", "Thing", true};
  Informer<Thing> informer(client, {.resource = things, .page = 100, .seed = seed}, decode_thing, interner);
  Listener listener;
  informer.on_change([&](const auto& before, const auto& after) { listener.hear(before, after); });
  for (int i = 0; i < 200; ++i) server.mutate();
  informer.start();
  for (std::size_t made = 0; made < events;) {
    const std::size_t burst = 1 + random() % 60;
    for (std::size_t i = 0; i < burst; ++i) server.mutate();
    made += burst;
    loop.advance(std::chrono::microseconds(random() % 200'000));
    if (random() % 500 == 0) loop.advance(5min);
    if (testing::Test::HasFatalFailure()) break;
  }
  server.heal();
  loop.advance(20min);
  EXPECT_TRUE(informer.synced());
  EXPECT_EQ(informer.size(), server.objects().size());
  EXPECT_EQ(listener.things.size(), server.objects().size());
  for (const auto& [name, object] : server.objects()) {
    const auto thing = informer.get({"ns", name});
    if (!thing) {
      ADD_FAILURE() << name << " is missing";
      continue;
    }
    EXPECT_EQ(thing->meta.uid.str(), object.uid);
    EXPECT_EQ(thing->meta.resource_version, std::to_string(object.version));
    EXPECT_EQ(listener.things[name], std::pair(object.uid, std::to_string(object.version)));
  }
  Gate gate(loop);
  spawn(gate, informer.stop());
  loop.advance(1s);
  EXPECT_EQ(gate.count(), 0U);
  if (cuts) *cuts = server.cuts;
  if (words) {
    *words = fmt::format(
        "{} cuts, {} times 410, {} old lists, {} expired pages, {} ERROR events, {} repetitions, {} silences",
        server.cuts, server.gone, server.stale, server.expired_pages, server.errors, server.duplicates,
        server.silences);
  }
  return {informer.stats(), listener.calls};
}

TEST(InformerSim, a_hundred_thousand_events_over_a_line_cut_a_thousand_times) {
  log::Capture quiet(log::Level::kError);
  std::uint64_t cuts = 0;
  std::string words;
  const Outcome out = simulate(20260105, 110'000, {}, &cuts, &words);
  EXPECT_GE(cuts, 1000U);
  EXPECT_GE(out.stats.watches, 1000U);
  fmt::print("{}; {} lists, {} watches, {} events, {} told, {} failures\n", words, out.stats.lists, out.stats.watches,
             out.stats.events, out.calls, out.stats.failures);
}

TEST(InformerSim, many_short_histories) {
  log::Capture quiet(log::Level::kError);
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Chaos chaos;
    chaos.cut_bytes = 100 + 500 * (seed % 7);
    chaos.compaction = 0.002;
    chaos.page_expires = seed % 3 == 0 ? 0.6 : 0.1;
    simulate(seed, 1000, chaos, nullptr, nullptr);
    if (HasFailure()) break;
  }
}

TEST(InformerSim, a_quiet_line_tells_every_event_once) {
  const Chaos calm{.stale_list = 0,
                   .list_fault = 0,
                   .page_expires = 0,
                   .watch_refused = 0,
                   .error_event = 0,
                   .duplicate = 0,
                   .bookmark = 0.02,
                   .silent = 0,
                   .cut = 0,
                   .cut_bytes = 1,
                   .compaction = 0};
  const Outcome out = simulate(3, 5000, calm, nullptr, nullptr);
  EXPECT_EQ(out.stats.lists, 1U);
  EXPECT_EQ(out.stats.failures, 0U);
  EXPECT_EQ(out.stats.repetitions, 0U);
}

}  // namespace
}  // namespace bascule::kube
