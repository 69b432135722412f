// The Kubernetes API over HTTP/1.1: typed errors, a deadline on every call, flow control, writes as patches.
// Source: Kubernetes API concepts (paging, watch, bookmarks, server-side apply, preconditions).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/async.hpp"
#include "base/loop.hpp"
#include "base/strong.hpp"
#include "base/task.hpp"
#include "json/value.hpp"
#include "kube/error.hpp"
#include "kube/resource.hpp"
#include "net/http.hpp"

namespace bascule::kube {

// Gives the bearer token for the next request; empty: none. Asked again after a 401. Throws Unauthorized with a
// sentence.
using TokenSource = std::function<Task<std::string>(bool refresh)>;

enum class PatchType : std::uint8_t { kJson, kMerge, kStrategic, kApply };

struct Selectors {
  std::string labels = {};
  std::string fields = {};
};

struct WriteOptions {
  std::string field_manager = "bascule";
  bool force = false;  // server-side apply only: take over conflicting fields
  bool dry_run = false;
};

struct DeleteOptions {
  std::optional<Uid> uid = {};                       // precondition
  std::optional<std::string> resource_version = {};  // precondition
  std::optional<std::int64_t> grace_seconds = {};
  std::string propagation = {};  // Background, Foreground, Orphan; empty: the kind's default
};

// What a call was and how it went, for metrics (rest_client_requests_total and kin).
struct CallReport {
  std::string_view verb;
  std::string_view resource;
  int code;  // 0: no answer
  Duration took;
};

// How an informer's copy is kept up to date, for metrics: lists and watches that failed in a row, now and before; 0 is
// well. Told whenever it changes, and once as 0 to 0 at the beginning.
struct CacheReport {
  std::string_view resource;
  std::string_view ns;  // empty: all namespaces
  std::uint32_t failures;
  std::uint32_t before;
};

struct ClientOptions {
  std::string user_agent = "bascule";
  TokenSource token = nullptr;
  std::string authorization = {};               // a fixed Authorization header, where `token` is not set
  Duration timeout = std::chrono::seconds(30);  // of one call, waiting for flow control included
  double qps = 0;                               // 0: no limit of our own; the server's priority and fairness rules
  int burst = 0;
  std::size_t max_body = std::size_t{256} << 20;
  std::function<void(const CallReport&)> report = nullptr;
  std::function<void(const CacheReport&)> report_cache = nullptr;
};

// Every method throws kube::Error's kinds, or net::Error of kind kStopped when `stop` asked for it.
class Client final {
 public:
  // `loop` and `transport` outlive the client and its calls.
  Client(Loop& loop, net::Transport& transport, ClientOptions options);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client();

  // `key.ns` is empty for cluster-scoped kinds. `subresource` is "" or "status", "scale", "binding" ...
  Task<json::Value> get(const Resource& resource, NamespacedName key, std::string subresource = {},
                        std::stop_token stop = {});
  // All objects, page by page, as one List value: for small lists; big ones go through an informer.
  Task<json::Value> list(const Resource& resource, std::string ns = {}, Selectors selectors = {},
                         std::stop_token stop = {});
  Task<json::Value> create(const Resource& resource, std::string ns, json::Value object, WriteOptions options = {},
                           std::stop_token stop = {});
  // POST to a subresource of an existing object: pods/binding, pods/eviction, serviceaccounts/token.
  Task<json::Value> create_sub(const Resource& resource, NamespacedName key, std::string subresource,
                               json::Value object, std::stop_token stop = {});
  Task<json::Value> patch(const Resource& resource, NamespacedName key, PatchType type, json::Value patch,
                          std::string subresource = {}, WriteOptions options = {}, std::stop_token stop = {});
  Task<json::Value> remove(const Resource& resource, NamespacedName key, DeleteOptions options = {},
                           std::stop_token stop = {});
  Task<json::Value> remove_collection(const Resource& resource, std::string ns, Selectors selectors,
                                      DeleteOptions options = {}, std::stop_token stop = {});
  // Any path: /version, /apis, /readyz ... The body as text; throws by status like the others.
  Task<std::string> raw(std::string path, std::stop_token stop = {});
  // For reflectors: the head has arrived and its status is 200. `deadline` is the head's.
  Task<net::StreamResponse> open(std::string target, TimePoint deadline, std::stop_token stop);

  void report_cache(const CacheReport& report) const;  // for reflectors, too

  Loop& loop() noexcept { return loop_; }

 private:
  struct Impl;
  Loop& loop_;
  std::unique_ptr<Impl> impl_;
};

// /api/v1/namespaces/NS/pods/NAME/SUB and kin, percent-encoded; ns and name may be empty.
std::string resource_path(const Resource& resource, std::string_view ns, std::string_view name = {},
                          std::string_view subresource = {});

}  // namespace bascule::kube
