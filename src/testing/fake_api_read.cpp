// Get, list and watch.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "testing/fake_api_route.hpp"

namespace bascule::testing {

namespace {

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

std::uint64_t version_of(std::string_view text) {
  if (text.empty()) return 0;
  const auto out = number(text);
  if (!out) {
    throw ApiFailure(
        400, "BadRequest",
        fmt::format("invalid resource version: resourceVersion: Invalid value: \"{}\": strconv.ParseUint: parsing "
                    "\"{}\": invalid syntax",
                    text, text));
  }
  return *out;
}

constexpr std::size_t kPiece = std::size_t{64} << 10;  // bytes of events sent as one piece

}  // namespace

net::ServerResponse FakeApi::get_one(const Route& route, bool stale) const {
  const ApiTable& t = *route.table;
  ObjectPtr found = t.find(route.call.key.ns, route.call.key.name);
  const auto old = remembered_.find(&t);
  if (stale && old != remembered_.end()) {
    found = nullptr;
    for (const ObjectPtr& object : old->second.objects) {
      if (name_of(object->value) == route.call.key.name && ns_of(object->value) == route.call.key.ns) found = object;
    }
  }
  if (!found) throw ApiFailure::not_found(t.resource.name, route.call.key.name);
  if (route.subresource == "scale" && t.resource.scale) {
    return json_response(200, json::dump(ApiWriter::scale_of(*found)));
  }
  if (!route.subresource.empty() && route.subresource != "status") throw ApiFailure::not_served();
  return json_response(200, t.text_of(*found));
}

net::ServerResponse FakeApi::list_all(const Route& route, bool stale) {
  const ApiTable& t = *route.table;
  const LabelSelector labels(route.query("labelSelector"));
  const FieldSelector fields(route.query("fieldSelector"), t.resource.name);
  const auto limit_said = number(route.query("limit"));
  const std::uint64_t wanted = version_of(route.query("resourceVersion"));
  const std::string_view token = route.query("continue");
  if (wanted > store_.version()) {
    throw ApiFailure(504, "Timeout",
                     fmt::format("Timeout: Too large resource version: {}, current: {}", wanted, store_.version()),
                     json::Object{{"causes", json::Array{json::Object{{"reason", "ResourceVersionTooLarge"},
                                                                      {"message", "Too large resource version"}}}},
                                  {"retryAfterSeconds", 1}});
  }
  if (route.query("resourceVersionMatch") == "Exact" && wanted != store_.version()) {
    throw ApiFailure::expired("The resourceVersion for the provided list is too old.");
  }
  const bool from_cache = route.query("resourceVersion") == "0" && options_.cache_ignores_limit;
  const std::size_t limit = from_cache ? 0 : limit_said.value_or(0);

  std::erase_if(snapshots_, [&](const auto& s) { return loop_.now() - s.second.made > options_.continue_ttl; });
  std::size_t at = 0;
  std::uint64_t id = 0;
  Snapshot fresh;
  const Snapshot* page = nullptr;
  if (!token.empty()) {
    const auto dot = token.find('.');
    if (!number(token.substr(0, dot)) || dot == std::string_view::npos) {
      throw ApiFailure::bad_request("invalid continue token: continue key is not valid");
    }
    id = number(token.substr(0, dot)).value_or(0);
    at = number(dot == std::string_view::npos ? "" : token.substr(dot + 1)).value_or(0);
    const auto found = snapshots_.find(id);
    if (found == snapshots_.end() || at > found->second.objects.size()) {
      throw ApiFailure::expired(
          "The provided continue parameter is too old to display a consistent list result. You can start a new list "
          "without the continue parameter.");
    }
    page = &found->second;
  } else {
    const auto old = remembered_.find(&t);
    const bool from_memory = stale && old != remembered_.end();
    fresh.version = from_memory ? old->second.version : store_.version();
    fresh.made = loop_.now();
    fresh.objects = from_memory ? old->second.objects : t.list(route.call.key.ns);
    std::erase_if(fresh.objects, [&](const ObjectPtr& object) {
      return (from_memory && !route.call.key.ns.empty() && ns_of(object->value) != route.call.key.ns) ||
             !labels.matches(object->value) || !fields.matches(object->value);
    });
    page = &fresh;
  }
  const std::size_t end = limit == 0 ? page->objects.size() : std::min(page->objects.size(), at + limit);
  const std::size_t left = page->objects.size() - end;
  std::string body = fmt::format(R"({{"kind":"{}List","apiVersion":"{}","metadata":{{"resourceVersion":"{}")",
                                 t.resource.name.kind, t.resource.name.api_version(), page->version);
  if (left > 0) {
    if (id == 0) id = next_snapshot_;
    body += fmt::format(R"(,"continue":"{}.{}")", id, end);
    if (labels.empty() && fields.empty()) body += fmt::format(R"(,"remainingItemCount":{})", left);
  }
  body += R"(},"items":[)";
  for (std::size_t i = at; i < end; ++i) {
    if (i > at) body += ',';
    t.resource.custom ? body += t.text_of(*page->objects[i]) : body += page->objects[i]->text();
  }
  body += "]}\n";
  if (left > 0 && page == &fresh) snapshots_[next_snapshot_++] = std::move(fresh);
  return json_response(200, std::move(body));
}

// --- watch -----------------------------------------------------------------------------------------------------------

struct FakeApi::Watch {
  ApiTable* table = nullptr;
  std::string ns;
  std::string name;
  LabelSelector labels;
  FieldSelector fields;
  std::uint64_t from = 0;    // as asked for, or of the initial state: bookmarks of it or before are not sent
  std::uint64_t seen = 0;    // events up to this version have been sent or passed over
  bool initial = false;      // begins with the state, as ADDED events
  bool initial_end = false;  // and a bookmark that says so
  bool bookmarks = false;
  TimePoint end{};
  TimePoint next_bookmark{};
  ApiFault fault;
  std::uint64_t generation = 0;

  bool selects(const ObjectPtr& object) const {
    if (!object) return false;
    if (!ns.empty() && ns_of(object->value) != ns) return false;
    if (!name.empty() && name_of(object->value) != name) return false;
    return labels.matches(object->value) && fields.matches(object->value);
  }
  bool all() const { return ns.empty() && name.empty() && labels.empty() && fields.empty(); }

  void line(std::string& out, std::string_view type, const ApiObject& object) const {
    const std::string& text = object.text();
    out.reserve(out.size() + text.size() + table->head.size() + 40);
    out += R"({"type":")";
    out += type;
    out += R"(","object":)";
    out += table->head;
    out.append(text, 1);
    out += "}\n";
  }

  void event(std::string& out, const ApiEvent& event) const {
    const bool now = !event.removed && (all() || selects(event.after));
    const bool before = event.before && (all() || selects(event.before));
    if (now) return line(out, before ? "MODIFIED" : "ADDED", *event.after);
    if (!before) return;
    if (event.removed) return line(out, "DELETED", *event.after);
    // It stopped to match: the last state that did, with the version of the change.
    ApiObject last{.value = event.before->value, .version = event.version};
    json::at_or_create(last.value, {"metadata", "resourceVersion"}) = std::to_string(event.version);
    line(out, "DELETED", last);
  }

  std::string bookmark(std::uint64_t version, bool end_of_initial) const {
    return fmt::format(
        R"({{"type":"BOOKMARK","object":{}"metadata":{{"resourceVersion":"{}","creationTimestamp":null{}}}}}}})"
        "\n",
        table->head, version, end_of_initial ? R"(,"annotations":{"k8s.io/initial-events-end":"true"})" : "");
  }
};

net::ServerResponse FakeApi::watch(const Route& route, const ApiFault& fault) {
  ApiTable& t = *route.table;
  auto watch = std::make_shared<Watch>();
  watch->table = &t;
  watch->ns = route.call.key.ns;
  watch->name = route.call.key.name;
  watch->labels = LabelSelector(route.query("labelSelector"));
  watch->fields = FieldSelector(route.query("fieldSelector"), t.resource.name);
  watch->bookmarks = route.flag("allowWatchBookmarks");
  const Duration timeout = std::chrono::seconds(number(route.query("timeoutSeconds")).value_or(0));
  watch->end = loop_.now() + (timeout > Duration::zero() ? timeout : options_.watch_timeout);
  watch->next_bookmark = watch->bookmarks ? loop_.now() + options_.bookmark_every : TimePoint::max();
  watch->fault = fault;
  watch->generation = watch_generation_;
  const std::uint64_t from = version_of(route.query("resourceVersion"));
  watch->initial_end = route.flag("sendInitialEvents");
  watch->initial = from == 0 || watch->initial_end;
  watch->from = from;
  watch->seen = from;
  if (watch->initial_end && (!watch->bookmarks || route.query("resourceVersionMatch") != "NotOlderThan")) {
    throw ApiFailure::invalid(t.resource.name, "", "resourceVersionMatch",
                              "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
  }
  if (!watch->initial && from < t.forgotten && options_.gone_as_status) {
    throw ApiFailure::expired(fmt::format("too old resource version: {} ({})", from, t.forgotten));
  }
  net::ServerResponse response = json_response(200, "");
  response.stream = [this, watch](net::BodySink& sink, std::stop_token stop) {
    return run_watch(watch, sink, std::move(stop));
  };
  return response;
}

Task<> FakeApi::run_watch(std::shared_ptr<Watch> watch, net::BodySink& sink, std::stop_token stop) {
  using Kind = ApiFault::Kind;
  struct Count {
    std::size_t& n;
    ~Count() { --n; }
  } const counted{++watches_};
  Watch& w = *watch;
  const auto gone = [](const std::string& why) {
    return R"({"type":"ERROR","object":)" + json::dump(ApiFailure::expired(why).status()) + "}\n";
  };
  if (w.fault.kind == Kind::kSilent) {
    while (co_await sleep_until(loop_, TimePoint::max(), stop)) {
    }
    co_return;
  }
  if (w.fault.kind == Kind::kErrorEvent) {
    ApiFault as = w.fault;
    const ApiFailure failure = as.code == 410 ? ApiFailure::expired("too old resource version, as planned")
                                              : ApiFailure::internal("as planned");
    co_await sink.write(R"({"type":"ERROR","object":)" + json::dump(failure.status()) + "}\n");
    co_return;
  }
  if (!w.initial && w.seen < w.table->forgotten) {
    co_await sink.write(gone(fmt::format("too old resource version: {} ({})", w.seen, w.table->forgotten)));
    co_return;
  }
  std::size_t sent = 0;
  std::string out;
  if (w.initial) {
    const auto objects = w.table->list(w.ns);
    w.from = w.seen = store_.version();
    for (const ObjectPtr& object : objects) {
      if (w.selects(object)) w.line(out, "ADDED", *object);
    }
    if (w.initial_end) out += w.bookmark(w.seen, true);
  }
  while (true) {
    if (out.empty() && w.seen < w.table->dropped) {
      co_await sink.write(gone(fmt::format("too old resource version: {} ({})", w.seen, w.table->dropped)));
      co_return;
    }
    const auto& history = w.table->history;
    auto at = std::ranges::upper_bound(history, w.seen, {}, &ApiEvent::version);
    for (; at != history.end() && out.size() < kPiece; ++at) {
      w.event(out, *at);
      w.seen = at->version;
    }
    if (at == history.end()) w.seen = std::max(w.seen, store_.version());
    if (out.empty() && loop_.now() >= w.next_bookmark) {
      w.next_bookmark = loop_.now() + options_.bookmark_every;
      store_.skip_versions(1);  // no cluster is quite at rest: kubelets renew their leases
      w.seen = std::max(w.seen, store_.version());
      if (w.seen > w.from) out = w.bookmark(w.seen, false);
    }
    if (!out.empty()) {
      if (w.fault.after > Duration::zero()) co_await sleep_for(loop_, w.fault.after, stop);
      if (w.fault.kind == Kind::kHalf && sent + out.size() >= w.fault.bytes) {
        out.resize(w.fault.bytes - sent);
        if (!out.empty()) co_await sink.write(std::move(out));
        throw std::runtime_error("cut, as planned");
      }
      sent += out.size();
      co_await sink.write(std::exchange(out, {}));
      continue;
    }
    if (loop_.now() >= w.end || w.generation != watch_generation_) co_return;
    co_await w.table->news.wait(stop, std::min(w.end, w.next_bookmark));
    if (stop.stop_requested()) co_return;
  }
}

}  // namespace bascule::testing
