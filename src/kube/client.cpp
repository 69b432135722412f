#include "kube/client.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "json/error.hpp"
#include "kube/rate.hpp"

namespace bascule::kube {

namespace {

constexpr int kAttempts = 10;                                     // of one call that is told to come again
constexpr Duration kLeastPause = std::chrono::milliseconds(100);  // before coming again, whatever the server says
constexpr std::size_t kListPage = 500;                            // objects
constexpr std::size_t kErrorBody = std::size_t{64} << 10;         // bytes read of the body of a refused stream
constexpr Duration kErrorBodyTime = std::chrono::seconds(5);

struct Call {
  std::string doing;          // "getting pods a/b"
  std::string resource = {};  // for reports
  std::string method = "GET";
  std::string target = {};
  std::string body = {};
  std::string content_type = {};
};

std::string_view content_type_of(PatchType type) noexcept {
  switch (type) {
    case PatchType::kJson:
      return "application/json-patch+json";
    case PatchType::kMerge:
      return "application/merge-patch+json";
    case PatchType::kStrategic:
      return "application/strategic-merge-patch+json";
    case PatchType::kApply:
      return "application/apply-patch+yaml";  // JSON is YAML
  }
  return {};
}

void add_query(std::string& target, std::string_view key, std::string_view value) {
  if (value.empty()) return;
  target += target.find('?') == std::string::npos ? '?' : '&';
  target += key;
  target += '=';
  target += net::percent_encode(value);
}

void add_selectors(std::string& target, const Selectors& selectors) {
  add_query(target, "labelSelector", selectors.labels);
  add_query(target, "fieldSelector", selectors.fields);
}

// As Go writes it. The API server keeps some values as bytes, writes them anew so with each patch, and compares them
// where they may not change: no patch of a ControllerRevision with a bare & in its data would be taken.
std::string body_of(const json::Value& value) {
  constexpr std::string_view kSeparator = "\xE2\x80";  // then A8 or A9: U+2028, U+2029
  const std::string text = json::dump(value);
  std::string body;
  body.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '<' || c == '>' || c == '&') {
      body += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else if (text.compare(i, 2, kSeparator) == 0 && (text[i + 2] == '\xA8' || text[i + 2] == '\xA9')) {
      body += text[i + 2] == '\xA8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      body += c;
    }
  }
  return body;
}

void add_options(std::string& target, const WriteOptions& options) {
  add_query(target, "fieldManager", options.field_manager);
  if (options.dry_run) add_query(target, "dryRun", "All");
}

std::string delete_body(const DeleteOptions& options) {
  json::Object body{{"kind", "DeleteOptions"}, {"apiVersion", "v1"}};
  json::Object preconditions;
  if (options.uid) preconditions["uid"] = options.uid->str();
  if (options.resource_version) preconditions["resourceVersion"] = *options.resource_version;
  if (!preconditions.empty()) body["preconditions"] = std::move(preconditions);
  if (options.grace_seconds) body["gracePeriodSeconds"] = *options.grace_seconds;
  if (!options.propagation.empty()) body["propagationPolicy"] = options.propagation;
  return json::dump(body);
}

Call call_of(std::string_view verb, std::string_view method, const Resource& resource, const NamespacedName& key,
             std::string_view subresource) {
  std::string doing = fmt::format("{} {}", verb, resource.resource);
  if (!subresource.empty()) doing += fmt::format("/{}", subresource);
  if (!key.name.empty()) {
    doing += " " + key.str();
  } else if (!key.ns.empty()) {
    doing += " in " + key.ns;
  }
  return {.doing = std::move(doing),
          .resource = resource.resource,
          .method = std::string(method),
          .target = resource_path(resource, key.ns, key.name, subresource)};
}

Call write_of(std::string_view verb, std::string_view method, const Resource& resource, const NamespacedName& key,
              std::string_view subresource, const json::Value& body, const WriteOptions& options) {
  Call call = call_of(verb, method, resource, key, subresource);
  add_options(call.target, options);
  call.body = body_of(body);
  call.content_type = "application/json";
  return call;
}

[[noreturn]] void throw_transport(const Call& call, const net::Error& error) {
  const std::string text = fmt::format("{}: {}", call.doing, error.what());
  switch (error.kind()) {
    case net::Error::Kind::kStopped:
      throw net::Error(error);
    case net::Error::Kind::kTooLarge:
    case net::Error::Kind::kMalformed:
      throw Malformed(0, "", text);
    default:
      throw Unreachable(text, !error.surely_not_sent(), error.kind() == net::Error::Kind::kDeadline);
  }
}

json::Value value_of(const std::string& doing, const net::Response& response, std::size_t limit) {
  try {
    return json::parse(response.body, {.bytes = limit});
  } catch (const json::ParseError& error) {
    throw Malformed(response.status, "", fmt::format("{}: the answer is not JSON: {}", doing, error.what()));
  }
}

bool good(int status) noexcept {
  return status >= 200 && status < 300;
}

}  // namespace

std::string resource_path(const Resource& resource, std::string_view ns, std::string_view name,
                          std::string_view subresource) {
  std::string path = resource.group.empty() ? "/api/" : "/apis/" + net::percent_encode(resource.group) + "/";
  path += net::percent_encode(resource.version);
  if (!ns.empty()) path += "/namespaces/" + net::percent_encode(ns);
  path += "/" + net::percent_encode(resource.resource);
  if (!name.empty()) path += "/" + net::percent_encode(name);
  if (!subresource.empty()) path += "/" + std::string(subresource);  // may be "proxy/path"
  return path;
}

struct Client::Impl {
  Impl(Loop& l, net::Transport& t, ClientOptions o)
      : loop(l), transport(t), options(std::move(o)), bucket(options.qps, std::max(1, options.burst)) {}

  Loop& loop;
  net::Transport& transport;
  ClientOptions options;
  TokenBucket bucket;

  net::Request request_of(const Call& call, const std::string& token) const {
    net::Request request{.method = call.method, .target = call.target, .body = call.body};
    request.headers.add("Accept", "application/json");
    request.headers.add("User-Agent", options.user_agent);
    if (!call.content_type.empty()) request.headers.add("Content-Type", call.content_type);
    if (!token.empty()) {
      request.headers.add("Authorization", "Bearer " + token);
    } else if (!options.authorization.empty()) {
      request.headers.add("Authorization", options.authorization);
    }
    return request;
  }

  void report(const Call& call, int code, TimePoint begin) const {
    if (options.report) options.report({call.method, call.resource, code, loop.now() - begin});
  }

  // Throws when stopped, and when the wait would be longer than the deadline.
  Task<> pause(const Call& call, Duration wait, TimePoint deadline, std::stop_token stop, std::string_view why) {
    if (wait > deadline - loop.now()) {
      throw Unreachable(fmt::format("{}: not sent within the call's deadline ({})", call.doing, why), false);
    }
    const bool came = co_await sleep_for(loop, wait, stop);
    if (!came) throw net::Error(net::Error::Kind::kStopped, call.doing + ": stopped", net::Error::Sent::kNo);
  }

  Task<> wait_turn(const Call& call, TimePoint deadline, std::stop_token stop) {
    if (options.qps <= 0) co_return;
    const Duration wait = bucket.reserve(loop.now(), deadline - loop.now());
    if (wait > Duration::zero()) co_await pause(call, wait, deadline, std::move(stop), "client-side flow control");
  }

  Task<std::string> token_for(bool refresh) {
    if (!options.token) co_return std::string();
    std::string token = co_await options.token(refresh);
    co_return token;
  }

  // What to do about an answer that is no success: try again after a pause, or nullopt.
  struct Retries {
    int left = kAttempts - 1;
    bool refreshed = false;
  };
  std::optional<Duration> again_after(const Status& status, Retries& retries, TimePoint deadline) const {
    // Neither was acted on, so any method may come again.
    if (status.code == 401 && options.token && !retries.refreshed) {
      retries.refreshed = true;
      return Duration::zero();
    }
    if (status.code != 429 || !status.retry_after || retries.left <= 0) return std::nullopt;
    const Duration pause = std::max(*status.retry_after, kLeastPause);
    if (pause >= deadline - loop.now()) return std::nullopt;
    --retries.left;
    return pause;
  }

  // The successful answer.
  Task<net::Response> exchange(Call call, std::stop_token stop) {
    const TimePoint deadline = loop.now() + options.timeout;
    Retries retries;
    while (true) {
      co_await wait_turn(call, deadline, stop);
      const std::string token = co_await token_for(retries.refreshed);
      const TimePoint begin = loop.now();
      std::optional<net::Error> failure;
      net::Response response;
      try {
        net::CallLimits limits{.deadline = deadline, .max_body = options.max_body, .stop = stop};
        response = co_await transport.call(request_of(call, token), std::move(limits));
      } catch (const net::Error& error) {
        failure = error;
      }
      report(call, failure ? 0 : response.status, begin);
      if (failure) throw_transport(call, *failure);
      if (good(response.status)) co_return response;
      const Status status = read_status(response.status, response.headers.get("Retry-After"), response.body);
      const std::optional<Duration> wait = again_after(status, retries, deadline);
      if (!wait) throw_status(call.doing, status);
      if (*wait > Duration::zero()) co_await pause(call, *wait, deadline, stop, "the server is busy");
    }
  }

  Task<json::Value> value(Call call, std::stop_token stop) {
    const std::string doing = call.doing;
    const net::Response response = co_await exchange(std::move(call), std::move(stop));
    json::Value value = value_of(doing, response, options.max_body);
    co_return value;
  }

  Task<std::string> text(Call call, std::stop_token stop) {
    net::Response response = co_await exchange(std::move(call), std::move(stop));
    co_return std::move(response.body);
  }

  // The beginning of a refused stream's body, as far as it comes soon.
  Task<std::string> error_body(net::BodyStream& stream, TimePoint deadline, std::stop_token stop) {
    std::string body;
    try {
      while (body.size() < kErrorBody) {
        const std::string_view piece = co_await stream.read(std::min(deadline, loop.now() + kErrorBodyTime), stop);
        if (piece.empty()) break;
        body += piece.substr(0, kErrorBody - body.size());
      }
    } catch (const net::Error&) {
      // The status says enough.
    }
    co_return body;
  }

  Task<net::StreamResponse> open(Call call, TimePoint deadline, std::stop_token stop) {
    Retries retries;
    while (true) {
      co_await wait_turn(call, deadline, stop);
      const std::string token = co_await token_for(retries.refreshed);
      const TimePoint begin = loop.now();
      std::optional<net::Error> failure;
      net::StreamResponse response;
      try {
        response = co_await transport.open(request_of(call, token), {.deadline = deadline, .stop = stop});
      } catch (const net::Error& error) {
        failure = error;
      }
      report(call, failure ? 0 : response.status, begin);
      if (failure) throw_transport(call, *failure);
      if (good(response.status)) co_return response;
      const std::string body = co_await error_body(*response.body, deadline, stop);
      response.body.reset();
      const Status status = read_status(response.status, response.headers.get("Retry-After"), body);
      const std::optional<Duration> wait = again_after(status, retries, deadline);
      if (!wait) throw_status(call.doing, status);
      if (*wait > Duration::zero()) co_await pause(call, *wait, deadline, stop, "the server is busy");
    }
  }

  // One consistent list. When its continue token expires in between, everything is asked for at once.
  Task<json::Value> list(Call call, std::stop_token stop) {
    std::size_t limit = kListPage;
    json::Value all;
    std::string next;
    while (true) {
      Call page = call;
      if (limit > 0) add_query(page.target, "limit", std::to_string(limit));
      add_query(page.target, "continue", next);
      bool expired = false;
      json::Value got;
      try {
        got = co_await value(std::move(page), stop);
      } catch (const Gone&) {
        if (next.empty()) throw;
        expired = true;
      }
      if (expired) {
        limit = 0;
        next.clear();
        all = nullptr;
        continue;
      }
      next = json::string_at(got, {"metadata", "continue"});
      append_page(call, all, std::move(got));
      if (next.empty()) co_return all;
    }
  }

  static void append_page(const Call& call, json::Value& all, json::Value page) {
    json::Value* items = json::find(page, {"items"});
    if (items == nullptr || !(items->is_array() || items->is_null())) {
      throw Malformed(200, "", call.doing + ": the answer is no list");
    }
    if (items->is_null()) items->emplace_array();
    if (all.is_null()) {
      all = std::move(page);
      return;
    }
    json::Array& to = json::find(all, {"items"})->as_array();
    for (json::Value& item : items->as_array()) to.push_back(std::move(item));
    json::Object& meta = json::at_or_create(all, {"metadata"}).as_object();
    meta.erase("continue");
    meta.erase("remainingItemCount");
  }
};

Client::Client(Loop& loop, net::Transport& transport, ClientOptions options)
    : loop_(loop), impl_(std::make_unique<Impl>(loop, transport, std::move(options))) {}
Client::~Client() = default;

// None of these is a coroutine itself: what they are given by reference has been read when they return.

Task<json::Value> Client::get(const Resource& resource, NamespacedName key, std::string subresource,
                              std::stop_token stop) {
  return impl_->value(call_of("getting", "GET", resource, key, subresource), std::move(stop));
}

Task<json::Value> Client::list(const Resource& resource, std::string ns, Selectors selectors, std::stop_token stop) {
  Call call = call_of("listing", "GET", resource, {std::move(ns), ""}, "");
  add_selectors(call.target, selectors);
  return impl_->list(std::move(call), std::move(stop));
}

Task<json::Value> Client::create(const Resource& resource, std::string ns, json::Value object, WriteOptions options,
                                 std::stop_token stop) {
  Call call = write_of("creating", "POST", resource, {std::move(ns), ""}, "", object, options);
  if (const std::string_view name = json::string_at(object, {"metadata", "name"}); !name.empty()) {
    call.doing += fmt::format(" ({})", name);
  }
  return impl_->value(std::move(call), std::move(stop));
}

Task<json::Value> Client::create_sub(const Resource& resource, NamespacedName key, std::string subresource,
                                     json::Value object, std::stop_token stop) {
  return impl_->value(write_of("creating", "POST", resource, key, subresource, object, {}), std::move(stop));
}

Task<json::Value> Client::patch(const Resource& resource, NamespacedName key, PatchType type, json::Value patch,
                                std::string subresource, WriteOptions options, std::stop_token stop) {
  Call call = write_of(type == PatchType::kApply ? "applying" : "patching", "PATCH", resource, key, subresource, patch,
                       options);
  if (type == PatchType::kApply && options.force) add_query(call.target, "force", "true");
  call.content_type = content_type_of(type);
  return impl_->value(std::move(call), std::move(stop));
}

Task<json::Value> Client::remove(const Resource& resource, NamespacedName key, DeleteOptions options,
                                 std::stop_token stop) {
  Call call = call_of("deleting", "DELETE", resource, key, "");
  call.body = delete_body(options);
  call.content_type = "application/json";
  return impl_->value(std::move(call), std::move(stop));
}

Task<json::Value> Client::remove_collection(const Resource& resource, std::string ns, Selectors selectors,
                                            DeleteOptions options, std::stop_token stop) {
  Call call = call_of("deleting all", "DELETE", resource, {std::move(ns), ""}, "");
  add_selectors(call.target, selectors);
  call.body = delete_body(options);
  call.content_type = "application/json";
  return impl_->value(std::move(call), std::move(stop));
}

Task<std::string> Client::raw(std::string path, std::stop_token stop) {
  Call call{.doing = "getting " + path};
  call.target = std::move(path);
  return impl_->text(std::move(call), std::move(stop));
}

void Client::report_cache(const CacheReport& report) const {
  if (impl_->options.report_cache) impl_->options.report_cache(report);
}

Task<net::StreamResponse> Client::open(std::string target, TimePoint deadline, std::stop_token stop) {
  Call call{.doing = "streaming " + target.substr(0, target.find('?'))};
  call.target = std::move(target);
  return impl_->open(std::move(call), deadline, std::move(stop));
}

}  // namespace bascule::kube
