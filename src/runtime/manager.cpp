#include "runtime/manager.hpp"

#include "base/check.hpp"
#include "base/log.hpp"

namespace bascule::runtime {

namespace {

std::string why(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace

Manager::~Manager() {
  BASCULE_CHECK(begun_ == 0, "a manager dies only after run() has completed");
}

void Manager::add(Part part) {
  entries_.push_back(std::make_unique<Entry>(std::move(part)));
}

Task<> Manager::run(std::stop_token stop) {
  const std::stop_callback forward(stop, [this] { end(); });
  co_await start_all();
  co_await sleep_until(loop_, TimePoint::max(), ending_.get_token());
  co_await stop_all();
  if (failure_) std::rethrow_exception(failure_);
}

Task<> Manager::start_all() {
  for (const auto& entry : entries_) {
    if (ending()) co_return;
    ++begun_;
    co_await start_one(*entry);
    if (ending()) co_return;
    if (!entry->part.run) continue;
    entry->gate = std::make_unique<Gate>(loop_);
    spawn(*entry->gate, run_one(*entry));
  }
  all_started_ = true;
}

Task<> Manager::start_one(Entry& entry) {
  if (!entry.part.start) co_return;
  try {
    co_await entry.part.start(ending_.get_token());
  } catch (...) {
    fail(entry, "part does not start");
  }
}

Task<> Manager::run_one(Entry& entry) {
  try {
    co_await entry.part.run(entry.stop.get_token());
  } catch (...) {
    fail(entry, "part failed");
  }
  end();
}

void Manager::fail(const Entry& entry, const char* doing) {
  const std::exception_ptr error = std::current_exception();
  // What is told to stop may answer with an error; that is no news.
  if (ending()) return;
  log::error(doing, {{"part", entry.part.name}, {"why", why(error)}});
  failure_ = error;
  end();
}

Task<> Manager::stop_all() {
  const Loop::TimerId deadline = loop_.call_at(loop_.now() + options_.grace, [this] {
    const std::string& part = entries_[begun_ - 1]->part.name;
    log::error("part does not stop in time", {{"part", part}, {"grace", options_.grace}});
    if (options_.overdue) options_.overdue(part);
  });
  for (; begun_ > 0; --begun_) co_await stop_one(*entries_[begun_ - 1]);
  loop_.cancel(deadline);
}

Task<> Manager::stop_one(Entry& entry) {
  entry.stop.request_stop();
  if (entry.gate) co_await entry.gate->close();
  if (!entry.part.stop) co_return;
  try {
    co_await entry.part.stop();
  } catch (...) {
    log::error("part does not stop as it should", {{"part", entry.part.name}, {"why", why(std::current_exception())}});
  }
}

std::optional<std::string> Manager::unready() const {
  if (ending()) return "stopping";
  if (all_started_) return std::nullopt;
  if (begun_ == 0) return "not started";
  const Part& waiting = entries_[begun_ - 1]->part;
  return waiting.standby ? std::nullopt : std::optional("waiting for " + waiting.name);
}

}  // namespace bascule::runtime
