// For the tests of the fake API server: requests over the loopback, watches read event by event.
#pragma once

#include <gtest/gtest.h>

#include "net/loopback.hpp"
#include "testing/fake_api.hpp"
#include "testing/objects.hpp"
#include "testing/run.hpp"

namespace bascule::testing {

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
        const std::string_view piece = run(loop, w.body->read(loop.now() + wait, {}), wait + 1h);
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

}  // namespace bascule::testing
