// What is counted of calls in and out, under the names, labels and buckets of client-go and controller-runtime.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kube/client.hpp"
#include "kube/events.hpp"
#include "net/http.hpp"
#include "runtime/metrics.hpp"

namespace bascule::runtime {

// For kube::ClientOptions::report: rest_client_requests_total and rest_client_request_duration_seconds. `host` is the
// API server's host and port. Outlived by `metrics`.
std::function<void(const kube::CallReport&)> client_metrics(Metrics& metrics, std::string host);

// For kube::ClientOptions::report_cache: bascule_kubernetes_cache_failures by resource and namespace, of all informers
// together. Outlived by `metrics`.
std::function<void(const kube::CacheReport&)> cache_metrics(Metrics& metrics);

// bascule_events_dropped_total: events that were not written, read whenever somebody asks, as long as the returned
// token lives. nullptr without metrics.
std::shared_ptr<void> watch_events(Metrics* metrics, const kube::EventRecorder& events);

// A webhook's handler that also counts what is asked on `paths`: controller_runtime_webhook_requests_total,
// _latency_seconds and _requests_in_flight. Outlived by `metrics` and `clock`.
net::Handler counted_webhook(Metrics& metrics, const Clock& clock, const std::vector<std::string>& paths,
                             net::Handler handler);

// leader_election_master_status of a lease, 0 until told.
Gauge leader_metric(Metrics& metrics, const std::string& lease);

}  // namespace bascule::runtime
