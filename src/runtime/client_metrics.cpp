#include "runtime/client_metrics.hpp"

#include <array>
#include <map>

namespace bascule::runtime {

namespace {

constexpr std::array kClientBuckets{0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0};

double seconds(Duration d) {
  return std::chrono::duration<double>(d).count();
}

struct WebhookSeries {
  Metrics& metrics;
  std::string path;
  Histogram latency;
  Gauge in_flight;
  std::map<int, Counter> requests;  // by status; a server answers with few
  int under_way = 0;

  WebhookSeries(Metrics& m, std::string p)
      : metrics(m),
        path(std::move(p)),
        latency(m.histogram("controller_runtime_webhook_latency_seconds", "How long admission requests take",
                            {{"webhook", path}}, decade_buckets())),
        in_flight(m.gauge("controller_runtime_webhook_requests_in_flight", "Admission requests under way",
                          {{"webhook", path}})) {
    in_flight.set(0);
    answered(200);
    answered(500);
  }
  const Counter& answered(int status) {
    const auto found = requests.find(status);
    if (found != requests.end()) return found->second;
    return requests
        .emplace(status,
                 metrics.counter("controller_runtime_webhook_requests_total", "Admission requests, by HTTP status",
                                 {{"webhook", path}, {"code", std::to_string(status)}}))
        .first->second;
  }
};

// One request under way.
class Visit final {
 public:
  Visit(WebhookSeries& series, const Clock& clock) : series_(series), clock_(clock), begun_(clock.now()) {
    series_.in_flight.set(++series_.under_way);
  }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  ~Visit() {
    series_.in_flight.set(--series_.under_way);
    series_.latency.observe(seconds(clock_.now() - begun_));
    series_.answered(status).add();
  }
  int status = 500;  // what the server answers when the handler throws

 private:
  WebhookSeries& series_;
  const Clock& clock_;
  TimePoint begun_;
};

struct CountedWebhook {
  const Clock& clock;
  net::Handler handler;
  std::map<std::string, WebhookSeries, std::less<>> series;

  Task<net::ServerResponse> serve(WebhookSeries& on, const net::ServerRequest& request, std::stop_token stop) {
    Visit visit(on, clock);
    net::ServerResponse response = co_await handler(request, std::move(stop));
    visit.status = response.status;
    co_return response;
  }
};

}  // namespace

std::function<void(const kube::CallReport&)> client_metrics(Metrics& metrics, std::string host) {
  return [&metrics, host = std::move(host)](const kube::CallReport& call) {
    const std::string verb(call.verb);
    metrics.add("rest_client_requests_total", "Requests to the API server, by status, method and host",
                {{"code", call.code == 0 ? "<error>" : std::to_string(call.code)}, {"method", verb}, {"host", host}});
    metrics.observe("rest_client_request_duration_seconds", "How long requests to the API server take",
                    {{"verb", verb}, {"host", host}}, seconds(call.took), kClientBuckets);
  };
}

std::function<void(const kube::CacheReport&)> cache_metrics(Metrics& metrics) {
  using Key = std::pair<std::string, std::string>;
  return [&metrics, sums = std::map<Key, std::uint32_t>()](const kube::CacheReport& report) mutable {
    const Key key(report.resource, report.ns);
    std::uint32_t& sum = sums[key];
    sum += report.failures - report.before;
    metrics.set("bascule_kubernetes_cache_failures",
                "Lists and watches that failed in a row: what is known of these objects is as old as that",
                {{"resource", key.first}, {"namespace", key.second}}, sum);
  };
}

net::Handler counted_webhook(Metrics& metrics, const Clock& clock, const std::vector<std::string>& paths,
                             net::Handler handler) {
  const auto counted = std::make_shared<CountedWebhook>(clock, std::move(handler));
  for (const std::string& path : paths) {
    counted->series.emplace(std::piecewise_construct, std::forward_as_tuple(path),
                            std::forward_as_tuple(metrics, path));
  }
  // The server keeps the handler, and so what it holds, for as long as a request runs.
  return [counted](const net::ServerRequest& request, std::stop_token stop) {
    const std::string_view target = request.target;
    const auto found = counted->series.find(target.substr(0, target.find('?')));
    if (found == counted->series.end()) return counted->handler(request, std::move(stop));
    return counted->serve(found->second, request, std::move(stop));
  };
}

std::shared_ptr<void> watch_events(Metrics* metrics, const kube::EventRecorder& events) {
  if (metrics == nullptr) return nullptr;
  const Counter dropped = metrics->counter("bascule_events_dropped_total",
                                           "Events that were not written: refused, too many, or not taken in time", {});
  return metrics->on_collect([dropped, &events] { dropped.raise_to(static_cast<double>(events.dropped())); });
}

Gauge leader_metric(Metrics& metrics, const std::string& lease) {
  const Gauge gauge =
      metrics.gauge("leader_election_master_status", "1 while this process holds the lease", {{"name", lease}});
  gauge.set(0);
  return gauge;
}

}  // namespace bascule::runtime
