#include "kube/events.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"

namespace bascule::kube {

namespace {

constexpr int kTries = 12;   // of one write, before it is dropped
constexpr int kWriters = 4;  // at once, each in a namespace of its own
constexpr Duration kFirstPause = std::chrono::milliseconds(500);
constexpr Duration kLongestPause = std::chrono::seconds(10);

}  // namespace

struct EventRecorder::Impl {
  Impl(Client& c, std::string controller, std::string instance)
      : client(c),
        loop(c.loop()),
        // Nanoseconds since 1970: names of one process differ from those of the next.
        log(std::move(controller), std::move(instance),
            static_cast<std::uint64_t>(loop.wall().time_since_epoch().count())),
        bell(loop),
        gate(loop) {}

  Client& client;
  Loop& loop;
  EventLog log;
  Bell bell;
  Gate gate;
  std::stop_source stop;
  bool ending = false;
  bool writing = false;       // run() is under way
  EventLog::Namespaces busy;  // of which an event is being written
  EventLog::Namespaces slow;  // whose last one could not be written in time

  Task<EventLog::Outcome> write(EventLog::Write write) {
    const std::stop_token token = stop.get_token();
    auto outcome = EventLog::Outcome::kDone;
    try {
      if (write.create) {
        co_await client.create(resources::kEvents, write.key.ns, std::move(write.body), {}, token);
      } else {
        co_await client.patch(resources::kEvents, write.key, PatchType::kMerge, std::move(write.body), {}, {}, token);
      }
    } catch (const AlreadyExists&) {
      // An answer was lost: it is ours.
    } catch (const NotFound&) {
      outcome = write.create ? EventLog::Outcome::kDrop : EventLog::Outcome::kGone;
    } catch (const Invalid& error) {
      outcome = EventLog::Outcome::kDrop;
      complain(error);
    } catch (const Forbidden& error) {  // the namespace is going away, or we may not
      outcome = EventLog::Outcome::kDrop;
      complain(error);
    } catch (const NotServed& error) {
      outcome = EventLog::Outcome::kDrop;
      complain(error);
    } catch (const ServerError& error) {
      // An admission webhook that fails for one namespace must not silence the others.
      outcome = EventLog::Outcome::kLater;
      complain(error);
    } catch (const Unreachable& error) {  // such a webhook may take longer than we wait, too
      outcome = error.late ? EventLog::Outcome::kLater : EventLog::Outcome::kAgain;
      complain(error);
    } catch (const std::exception& error) {
      outcome = EventLog::Outcome::kAgain;
      if (!stop.stop_requested()) complain(error);
    }
    co_return outcome;
  }

  static void complain(const std::exception& error) {
    log::limited(log::Level::kWarning, std::chrono::minutes(1), "event not written", {{"error", error}});
  }

  // As often as it takes. `id` may be dropped meanwhile.
  Task<EventLog::Outcome> write_at_last(std::uint64_t id) {
    for (int tries = 0; tries < kTries; ++tries) {
      std::optional<EventLog::Write> next = log.again(id);
      if (!next || stop.stop_requested()) break;
      const EventLog::Outcome outcome = co_await write(std::move(*next));
      if (outcome != EventLog::Outcome::kAgain) co_return outcome;
      const Duration pause = std::min(kFirstPause * (1 << std::min(tries + 1, 6)), kLongestPause);
      co_await sleep_for(loop, pause, stop.get_token());
    }
    co_return EventLog::Outcome::kDrop;
  }

  // Half of the writers are kept for namespaces that answer.
  auto left_alone() const {
    auto out = busy;
    const auto waits = std::ranges::count_if(busy, [this](const std::string& ns) { return slow.contains(ns); });
    if (waits >= kWriters / 2) out.insert(slow.begin(), slow.end());
    return out;
  }

  // One of kWriters.
  Task<> run() {
    const std::stop_token token = stop.get_token();
    while (!token.stop_requested()) {
      const auto not_now = left_alone();
      const std::optional<EventLog::Write> next = log.next(loop.now(), not_now);
      if (!next) {
        if (ending) co_return;
        co_await bell.wait(token, log.due(not_now).value_or(TimePoint::max()));
        continue;
      }
      const std::string ns = next->key.ns;
      busy.insert(ns);
      const EventLog::Outcome outcome = co_await write_at_last(next->id);
      if (!token.stop_requested()) log.done(next->id, outcome, loop.now() + kLongestPause);
      if (ending && outcome == EventLog::Outcome::kLater) co_await sleep_for(loop, kFirstPause, token);
      busy.erase(ns);
      if (outcome == EventLog::Outcome::kLater) {
        slow.insert(ns);
      } else {
        slow.erase(ns);
      }
      bell.notify();
    }
  }
};

EventRecorder::EventRecorder(Client& client, std::string controller, std::string instance)
    : impl_(std::make_unique<Impl>(client, std::move(controller), std::move(instance))) {}
EventRecorder::~EventRecorder() = default;

void EventRecorder::record(const ObjectReference& about, EventType type, std::string_view reason,
                           std::string_view action, std::string note, const EventMore& more) {
  // Not before: a recorder that nobody used may die without stop().
  for (int i = 0; i < kWriters && !impl_->writing; ++i) spawn(impl_->gate, impl_->run());
  impl_->writing = true;
  impl_->log.record(about, type, reason, action, std::move(note), impl_->loop.now(), impl_->loop.wall(), more);
  impl_->bell.notify();
}

std::uint64_t EventRecorder::dropped() const noexcept {
  return impl_->log.dropped();
}

Task<> EventRecorder::stop(TimePoint deadline) {
  Impl& impl = *impl_;
  impl.ending = true;
  impl.log.flush();
  impl.bell.notify();
  const Loop::TimerId timer = impl.loop.call_at(deadline, [&impl] { impl.stop.request_stop(); });
  co_await impl.gate.close();
  impl.loop.cancel(timer);
}

}  // namespace bascule::kube
