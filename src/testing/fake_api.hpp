// A small real Kubernetes API server in memory: it keeps objects, serves lists and watches, applies every kind of
// patch, runs finalizers and preconditions, and misbehaves when told to. It is a net::Handler, so it runs over
// net/loopback.hpp on a ManualLoop, or on a real socket (net/server.hpp). Loop thread only.
// Answers are those of kube-apiserver 1.36 as far as a client can tell; what is simpler is said where it is.
// Tests look and change things without HTTP by the methods under "from inside"; those are not counted as calls.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/http.hpp"
#include "testing/fake_api_selectors.hpp"
#include "testing/fake_api_status.hpp"
#include "testing/fake_api_store.hpp"
#include "testing/fake_api_writer.hpp"

namespace bascule::testing {

struct FakeApiOptions {
  std::size_t history = 10'000;                        // events kept for each resource; a watch from before them: 410
  Duration continue_ttl = std::chrono::minutes(5);     // age at which a continue token expires
  Duration bookmark_every = std::chrono::seconds(60);  // to watches that allow bookmarks
  Duration watch_timeout = std::chrono::minutes(30);   // of watches that do not say
  bool gone_as_status = false;                         // too old a watch: HTTP 410 instead of 200 and an ERROR event
  bool namespaces_must_exist = false;                  // creations in a namespace that is not there: 404
  bool cache_ignores_limit = true;                     // a list with resourceVersion=0 comes whole, as real ones do
  std::function<bool(std::string_view token)> accepts = nullptr;  // null: any token and none
  std::uint64_t seed = 1;
};

// What a request is. `resource` is "pods" or "pods/status"; verbs are those of RBAC.
struct ApiCall {
  std::string verb;
  std::string group;
  std::string resource;
  NamespacedName key;  // of the object; a collection has no name

  bool is(std::string_view v, std::string_view r) const { return verb == v && resource == r; }
  bool writes() const { return verb != "get" && verb != "list" && verb != "watch"; }
};

// What to do to one request, decided by the test when it arrives. A broken connection is the transport's matter
// (net::FaultPlan) where the head must not arrive either; from here the body is cut after the head.
struct ApiFault {
  enum class Kind {
    kNone,
    kCutBefore,    // not done; the answer is cut after its head
    kCutAfter,     // done; the answer is cut after its head
    kHalf,         // done; the answer is cut in the middle. A watch: after `bytes`
    kStallBefore,  // not done, no answer ever
    kStallAfter,   // done, no answer ever
    kStatus,       // not done; the Status of `code` (409, 410, 429 with Retry-After, 500, 503 ...)
    kStatusAfter,  // done; and still the Status of `code`
    kStale,        // get and list: as things were at remember()
    kSilent,       // watch: nothing comes, not even bookmarks, and it does not end
    kErrorEvent,   // watch: an ERROR event with `code` at once
  };
  Kind kind = Kind::kNone;
  int code = 500;
  int retry_after = 1;    // seconds, of 429 and 503
  std::size_t bytes = 0;  // kHalf of a watch
  Duration before{};      // waits before it is done
  Duration after{};       // waits before it is answered; a watch: before each piece
};
using ApiFaultPlan = std::function<ApiFault(const ApiCall&)>;

struct ApiWrite {
  WallTime time;
  ApiCall call;
  int code = 0;
  std::string user_agent;
  std::string manager;
  std::string body;
};

// What a webhook sees and may change. Throw ApiFailure to deny.
struct Admission {
  std::string operation;  // CREATE, UPDATE, DELETE
  const ApiResource& resource;
  std::string subresource;
  NamespacedName key;
  json::Value object;              // whole, with kind and apiVersion; null for DELETE
  std::optional<json::Value> old;  // likewise
  bool dry_run = false;
};
using AdmissionHook = std::function<Task<>(Admission&)>;

class FakeApi final {
 public:
  explicit FakeApi(Loop& loop, FakeApiOptions options = {});
  FakeApi(const FakeApi&) = delete;
  FakeApi& operator=(const FakeApi&) = delete;

  // `this` outlives the handler's calls: destroy transports and servers first.
  net::Handler handler();

  // A custom resource: `status` and `scale` say which subresources it has.
  void add_resource(kube::Resource resource, bool status = true, bool scale = false);
  void set_faults(ApiFaultPlan plan) { faults_ = std::move(plan); }
  // Told of every request about objects, also of kinds that are not served, with the name in its User-Agent.
  void on_call(std::function<void(const ApiCall&, std::string_view agent)> told) { on_call_ = std::move(told); }
  // Called on every write of an object through HTTP, before it is stored; the test's hook picks what it cares for.
  void set_admission(AdmissionHook hook) { admission_ = std::move(hook); }
  // What kStale answers with from now on.
  void remember();
  // Continue tokens given so far become too old.
  void expire_continues() { snapshots_.clear(); }
  // Ends all watches regularly, as a restart or a timeout does.
  void end_watches();
  std::size_t watches() const noexcept { return watches_; }

  // Requests so far; `resource` may carry a subresource. "" stands for any.
  std::size_t calls(std::string_view verb, std::string_view resource = "") const;
  std::size_t write_calls() const;
  void reset_counts();
  // The newest 100,000 writes, in order.
  const std::deque<ApiWrite>& writes() const noexcept { return writes_; }

  // --- from inside: whole objects with kind and apiVersion; failures are ApiFailure -------------------------------
  json::Value create(const kube::Resource& resource, json::Value object);
  // The same through admission, as the cluster's own controllers come.
  Task<json::Value> create_admitted(kube::Resource resource, json::Value object);
  std::optional<json::Value> get(const kube::Resource& resource, const NamespacedName& key) const;
  std::vector<json::Value> list(const kube::Resource& resource, std::string_view ns = {},
                                std::string_view labels = {}) const;
  std::size_t count(const kube::Resource& resource) const { return table(resource).objects.size(); }
  json::Value update(const kube::Resource& resource, json::Value object, std::string_view subresource = {});
  // A merge patch.
  json::Value patch(const kube::Resource& resource, const NamespacedName& key, const json::Value& patch,
                    std::string_view subresource = {});
  // False when it was not there.
  bool remove(const kube::Resource& resource, const NamespacedName& key, const Deletion& how = {});
  // Ends the object whatever its finalizers say, as somebody with etcd access could.
  void erase(const kube::Resource& resource, const NamespacedName& key);

  ApiStore& store() noexcept { return store_; }
  ApiWriter& writer() noexcept { return writer_; }
  Loop& loop() noexcept { return loop_; }

 private:
  struct Route;
  struct Watch;
  struct Snapshot {
    std::vector<ObjectPtr> objects;
    std::uint64_t version = 0;
    TimePoint made{};
  };

  ApiTable& table(const kube::Resource& resource) const;
  Route route(const net::ServerRequest& request);
  Task<net::ServerResponse> serve(const net::ServerRequest& request, std::stop_token stop);
  Task<net::ServerResponse> answer(Route& route, const net::ServerRequest& request, const ApiFault& fault);
  Task<net::ServerResponse> write(Route& route, const net::ServerRequest& request);
  net::ServerResponse get_one(const Route& route, bool stale) const;
  net::ServerResponse list_all(const Route& route, bool stale);
  net::ServerResponse watch(const Route& route, const ApiFault& fault);
  Task<> run_watch(std::shared_ptr<Watch> watch, net::BodySink& sink, std::stop_token stop);
  Draft draft(const Route& route, const json::Value& body);
  Task<> admit(Draft& draft);
  Task<net::ServerResponse> write_object(Route& route, const json::Value& body);
  net::ServerResponse evict(const Route& route, const json::Value& body);
  net::ServerResponse remove_one(const Route& route, const json::Value& body);
  net::ServerResponse remove_all(const Route& route, const json::Value& body);
  std::optional<net::ServerResponse> discovery(const net::Target& target) const;
  void count(const ApiCall& call);
  void after_commit(const ApiTable& table, const ApiObject& object);

  Loop& loop_;
  FakeApiOptions options_;
  mutable ApiStore store_;
  ApiWriter writer_;
  ApiFaultPlan faults_;
  AdmissionHook admission_;
  std::function<void(const ApiCall&, std::string_view agent)> on_call_;
  std::map<std::uint64_t, Snapshot> snapshots_;
  std::uint64_t next_snapshot_ = 1;
  std::map<const ApiTable*, Snapshot> remembered_;
  std::map<std::pair<std::string, std::string>, std::size_t> counts_;
  std::deque<ApiWrite> writes_;
  std::size_t watches_ = 0;
  std::uint64_t watch_generation_ = 0;
};

}  // namespace bascule::testing
