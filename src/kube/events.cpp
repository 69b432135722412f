#include "kube/events.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"

namespace bascule::kube {

namespace {

constexpr int kTries = 12;  // of one write, before it is dropped
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
  bool writing = false;  // run() is under way
  int tries = 0;

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
    } catch (const std::exception& error) {
      outcome = ++tries < kTries ? EventLog::Outcome::kAgain : EventLog::Outcome::kDrop;
      if (!stop.stop_requested()) complain(error);
    }
    if (outcome != EventLog::Outcome::kAgain) tries = 0;
    co_return outcome;
  }

  static void complain(const std::exception& error) {
    log::limited(log::Level::kWarning, std::chrono::minutes(1), "event not written", {{"error", error}});
  }

  Task<> run() {
    const std::stop_token token = stop.get_token();
    while (!token.stop_requested()) {
      std::optional<EventLog::Write> next = log.next(loop.now());
      if (!next) {
        if (ending) co_return;
        co_await bell.wait(token, log.due().value_or(TimePoint::max()));
        continue;
      }
      const std::uint64_t id = next->id;
      const EventLog::Outcome outcome = co_await write(std::move(*next));
      log.done(id, outcome, loop.now() + kLongestPause);
      const bool pause = outcome == EventLog::Outcome::kAgain || (ending && outcome == EventLog::Outcome::kLater);
      if (!pause) continue;
      co_await sleep_for(loop, std::min(kFirstPause * (1 << std::min(tries, 6)), kLongestPause), token);
    }
  }
};

EventRecorder::EventRecorder(Client& client, std::string controller, std::string instance)
    : impl_(std::make_unique<Impl>(client, std::move(controller), std::move(instance))) {}
EventRecorder::~EventRecorder() = default;

void EventRecorder::record(const ObjectReference& about, EventType type, std::string_view reason,
                           std::string_view action, std::string note) {
  // Not before: a recorder that nobody used may die without stop().
  if (!std::exchange(impl_->writing, true)) spawn(impl_->gate, impl_->run());
  impl_->log.record(about, type, reason, action, std::move(note), impl_->loop.now(), impl_->loop.wall());
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
