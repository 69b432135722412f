#include "kube/lease.hpp"

#include <random>
#include <utility>

#include "base/log.hpp"
#include "base/time.hpp"

namespace bascule::kube {

namespace {

constexpr int kMicro = 6;  // digits of metav1.MicroTime
constexpr Duration kReleaseTime = std::chrono::seconds(2);

WallTime time_at(const json::Value& lease, std::string_view field) {
  return parse_rfc3339(json::string_at(lease, {"spec", field})).value_or(WallTime{});
}

LeaseRecord record_of(const json::Value& lease) {
  return {.holder = std::string(json::string_at(lease, {"spec", "holderIdentity"})),
          .seconds = json::int_at(lease, {"spec", "leaseDurationSeconds"}).value_or(0),
          .transitions = json::int_at(lease, {"spec", "leaseTransitions"}).value_or(0),
          .acquired = time_at(lease, "acquireTime"),
          .renewed = time_at(lease, "renewTime"),
          .version = std::string(json::string_at(lease, {"metadata", "resourceVersion"}))};
}

json::Object spec_of(const LeaseRecord& record) {
  return {{"holderIdentity", record.holder},
          {"leaseDurationSeconds", record.seconds},
          {"acquireTime", print_rfc3339(record.acquired, kMicro)},
          {"renewTime", print_rfc3339(record.renewed, kMicro)},
          {"leaseTransitions", record.transitions}};
}

// Stops `source` at `when`, unless it goes first.
class Alarm final {
 public:
  Alarm(Loop& loop, TimePoint when, std::stop_source source)
      : loop_(loop), id_(loop.call_at(when, [source = std::move(source)]() mutable { source.request_stop(); })) {}
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
  ~Alarm() { loop_.cancel(id_); }

 private:
  Loop& loop_;
  Loop::TimerId id_;
};

}  // namespace

struct LeaderElector::Impl {
  Impl(Client& c, LeaseOptions o, std::function<void(bool)> f)
      : client(c),
        loop(c.loop()),
        options(std::move(o)),
        on_change(std::move(f)),
        core(options, options.seed != 0 ? options.seed : std::random_device()()),
        gate(loop) {}

  Client& client;
  Loop& loop;
  LeaseOptions options;
  std::function<void(bool)> on_change;
  LeaseCore core;
  Gate gate;
  std::stop_source stop;
  Loop::TimerId timer = 0;  // steps down at core.leads_until()
  bool told = false;

  void tell() {
    if (timer != 0) loop.cancel(std::exchange(timer, 0));
    const bool now_leading = core.leading(loop.now());
    if (now_leading) timer = loop.call_at(core.leads_until(), [this] { timer = 0, tell(); });
    if (std::exchange(told, now_leading) == now_leading) return;
    log::info(now_leading ? "leading" : "no longer leading", {{"lease", options.key}, {"identity", options.identity}});
    on_change(now_leading);
  }

  Task<json::Value> request(const LeaseCore::Action& action, std::stop_token token) {
    json::Value answer;
    switch (action.kind) {
      case LeaseCore::Action::Kind::kCreate: {
        json::Object meta{{"name", options.key.name}, {"namespace", options.key.ns}};
        json::Object lease{{"apiVersion", resources::kLeases.api_version()},
                           {"kind", resources::kLeases.kind},
                           {"metadata", std::move(meta)},
                           {"spec", spec_of(action.record)}};
        answer = co_await client.create(resources::kLeases, options.key.ns, std::move(lease), {}, token);
        break;
      }
      case LeaseCore::Action::Kind::kWrite: {
        json::Object patch{{"metadata", json::Object{{"resourceVersion", action.record.version}}},
                           {"spec", spec_of(action.record)}};
        answer =
            co_await client.patch(resources::kLeases, options.key, PatchType::kMerge, std::move(patch), {}, {}, token);
        break;
      }
      default:
        answer = co_await client.get(resources::kLeases, options.key, {}, token);
    }
    co_return answer;
  }

  Task<> perform(LeaseCore::Action action) {
    const TimePoint sent = loop.now();
    // A call that hangs must leave time for another try.
    std::stop_source call_stop;
    const std::stop_callback outer(stop.get_token(), [&call_stop] { call_stop.request_stop(); });
    const Alarm alarm(loop, sent + options.renew_deadline / 2, call_stop);
    enum class Outcome { kDone, kAbsent, kRefused, kFailed } outcome = Outcome::kFailed;
    LeaseRecord record;
    try {
      const json::Value answer = co_await request(action, call_stop.get_token());
      record = record_of(answer);
      if (!record.version.empty()) outcome = Outcome::kDone;
    } catch (const NotFound&) {
      outcome = Outcome::kAbsent;
    } catch (const Conflict&) {
      outcome = Outcome::kRefused;
    } catch (const AlreadyExists&) {
      outcome = Outcome::kRefused;
    } catch (const std::exception& error) {
      if (!stop.stop_requested()) {
        log::limited(log::Level::kWarning, std::chrono::seconds(10), "lease cannot be reached",
                     {{"lease", options.key}, {"error", error}});
      }
    }
    const bool reading = action.kind == LeaseCore::Action::Kind::kRead;
    switch (outcome) {
      case Outcome::kDone:
        if (reading) {
          core.read(std::move(record), loop.now());
        } else {
          core.written(std::move(record), sent, loop.now());
        }
        break;
      case Outcome::kAbsent:
        // Of a create it is the namespace that is missing.
        if (action.kind == LeaseCore::Action::Kind::kCreate) {
          core.failed(loop.now());
        } else {
          core.read(std::nullopt, loop.now());
        }
        break;
      case Outcome::kRefused:
        core.refused(loop.now());
        break;
      case Outcome::kFailed:
        core.failed(loop.now());
    }
  }

  Task<> run() {
    const std::stop_token token = stop.get_token();
    while (!token.stop_requested()) {
      LeaseCore::Action action = core.next(loop.now(), loop.wall());
      if (action.kind == LeaseCore::Action::Kind::kWait) {
        co_await sleep_until(loop, action.until, token);
      } else {
        co_await perform(std::move(action));
      }
      tell();
    }
  }

  // Best effort: a lease that is not given back runs out.
  Task<> release() {
    std::stop_source call_stop;
    const Alarm alarm(loop, loop.now() + kReleaseTime, call_stop);
    try {
      if (!core.known()) {  // a renewal was in flight
        const json::Value lease = co_await request({.kind = LeaseCore::Action::Kind::kRead}, call_stop.get_token());
        core.read(record_of(lease), loop.now());
      }
      std::optional<LeaseRecord> record = core.release(loop.wall());
      if (!record) co_return;
      const LeaseCore::Action action{.kind = LeaseCore::Action::Kind::kWrite, .record = std::move(*record)};
      co_await request(action, call_stop.get_token());
    } catch (const std::exception& error) {
      log::info("lease not released; it will run out", {{"lease", options.key}, {"error", error}});
    }
  }
};

LeaderElector::LeaderElector(Client& client, LeaseOptions options, std::function<void(bool leading)> on_change)
    : impl_(std::make_unique<Impl>(client, std::move(options), std::move(on_change))) {}
LeaderElector::~LeaderElector() = default;

void LeaderElector::start() {
  spawn(impl_->gate, impl_->run());
}

Task<> LeaderElector::stop() {
  impl_->stop.request_stop();
  co_await impl_->gate.close();
  impl_->core.step_down();
  impl_->tell();
  if (impl_->options.release_on_stop) co_await impl_->release();
}

bool LeaderElector::leading() const noexcept {
  return impl_->core.leading(impl_->loop.now());
}

const std::string& LeaderElector::holder() const noexcept {
  return impl_->core.holder();
}

}  // namespace bascule::kube
