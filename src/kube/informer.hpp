// A live copy of one kind: list, watch, resume, list again; handlers hear every net change in order, none lost, none
// doubled. Contract of client-go's reflector and shared informer: list with resourceVersion "0" first, watch with
// bookmarks, resume from the last seen version after a cut, 410 or an ERROR event of code 410 lists again, a watch that
// stays silent past its timeout is dead. The bookkeeping is kube/reflector.hpp, a pure state machine, the objects are
// in kube/store.hpp; this drives the one and feeds the other. An object that cannot be decoded is logged and counted
// by its name, and what the store has of it stays as it is.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "base/async.hpp"
#include "base/log.hpp"
#include "kube/client.hpp"
#include "kube/objects.hpp"
#include "kube/reflector.hpp"
#include "kube/store.hpp"
#include "kube/watch_frame.hpp"

namespace bascule::kube {

struct InformerOptions {
  Resource resource;
  std::string ns = {};  // empty: all namespaces
  Selectors selectors = {};
  std::size_t page = 500;
  std::size_t max_object = std::size_t{16} << 20;  // bytes of one object's JSON
  ReflectorTimes times = {};
  std::uint64_t seed = 0;  // of jitter; 0: the system's randomness
  bool fresh = false;      // the first list too is the most recent, not what some API server remembers
};

struct InformerStats {
  std::uint64_t lists = 0;        // complete ones
  std::uint64_t watches = 0;      // opened
  std::uint64_t events = 0;       // of objects
  std::uint64_t repetitions = 0;  // events that were no news
  std::uint64_t failures = 0;
  std::uint64_t undecodable = 0;
};

// The untyped part: runs list and watch into a store. One loop, no locks.
class Reflector final {
 public:
  using Decode = std::function<ObjectStore::Item(std::string_view text)>;

  Reflector(Client& client, InformerOptions options, Decode decode);
  Reflector(const Reflector&) = delete;
  Reflector& operator=(const Reflector&) = delete;
  ~Reflector();  // after stop() has completed

  void start();
  Task<> stop();
  ObjectStore& store() noexcept { return store_; }
  const ObjectStore& store() const noexcept { return store_; }
  bool synced() const noexcept { return synced_; }
  Task<bool> wait_synced(std::stop_token stop, TimePoint deadline);
  bool following() const noexcept { return synced_ && !core_.cut(loop_.now()); }
  TimePoint fresh_as_of() const noexcept { return fresh_; }
  const InformerStats& stats() const noexcept { return stats_; }

 private:
  Task<> run();
  Task<> list(ReflectorCore::Request request);
  Task<> read_page(const ReflectorCore::Request& request, bool& taken);
  Task<> watch(ReflectorCore::Request request);
  Task<> read_watch(const ReflectorCore::Request& request);
  void take_listed(std::string_view text);
  void take_line(std::string_view line);
  void take_frame(const WatchFrame& frame);
  void take_changed(std::string_view text);
  std::optional<ObjectStore::Item> read(std::string_view text);
  void complain(std::string_view text, const std::exception& error);
  void say_failed(log::Level level, std::string_view message, const std::string& why,
                  std::source_location where = std::source_location::current());
  void tell_failures();
  std::string target(const ReflectorCore::Request& request) const;

  Client& client_;
  Loop& loop_;
  const InformerOptions options_;
  const Decode decode_;
  ReflectorCore core_;
  ObjectStore store_;
  InformerStats stats_;
  bool synced_ = false;
  TimePoint fresh_{};
  std::uint32_t told_failures_ = 0;
  Bell bell_;
  Gate gate_;
  std::stop_source stop_;
};

// T has `ObjectMeta meta`.
template <class T>
class Informer final {
 public:
  using Ptr = std::shared_ptr<const T>;
  using Decode = Ptr (*)(std::string_view text, json::Interner& interner);
  // One call a net change: (nullptr, new) added, (old, new) changed, (old, nullptr) gone. During a re-list only
  // differences are told. Runs on the loop; must not await, throw or change the informer.
  using Handler = std::function<void(const Ptr& before, const Ptr& after)>;
  // Index values of an object; an object may have several. A pure function of the object.
  using IndexFn = std::function<void(const T& object, std::vector<std::string>& values)>;

  Informer(Client& client, InformerOptions options, Decode decode, json::Interner& interner)
      : reflector_(client, std::move(options), [decode, &interner](std::string_view text) {
          Ptr object = decode(text, interner);
          const ObjectMeta* meta = &object->meta;
          return ObjectStore::Item{std::move(object), meta};
        }) {}
  // After stop() has completed.
  ~Informer() = default;

  void on_change(Handler handler) {  // before start()
    reflector_.store().on_change([handler = std::move(handler)](const auto& before, const auto& after) {
      handler(std::static_pointer_cast<const T>(before), std::static_pointer_cast<const T>(after));
    });
  }
  void add_index(std::string name, IndexFn fn) {  // before start()
    reflector_.store().add_index(std::move(name),
                                 [fn = std::move(fn)](const void* object, std::vector<std::string>& values) {
                                   fn(*static_cast<const T*>(object), values);
                                 });
  }
  void start() { reflector_.start(); }
  Task<> stop() { return reflector_.stop(); }

  // True once the first list is in the store. False again never.
  bool synced() const noexcept { return reflector_.synced(); }
  Task<bool> wait_synced(std::stop_token stop, TimePoint deadline) {
    return reflector_.wait_synced(std::move(stop), deadline);
  }
  // Changes are heard as they happen: no watch has been cut without another in its place.
  bool following() const noexcept { return reflector_.following(); }
  // When the far side last said what could be taken (event, bookmark, list), at first the time of start(): the age of
  // what the store says.
  TimePoint fresh_as_of() const noexcept { return reflector_.fresh_as_of(); }
  const InformerStats& stats() const noexcept { return reflector_.stats(); }

  Ptr get(const NamespacedName& key) const noexcept {  // nullptr when absent
    const ObjectStore::Item* item = reflector_.store().find(key);
    return item == nullptr ? nullptr : std::static_pointer_cast<const T>(item->object);
  }
  // In no order.
  std::vector<Ptr> by_index(const std::string& name, const std::string& value) const {
    std::vector<Ptr> out;
    for (const auto& object : reflector_.store().by_index(name, value)) {
      out.push_back(std::static_pointer_cast<const T>(object));
    }
    return out;
  }
  std::size_t size() const noexcept { return reflector_.store().size(); }
  template <class F>
  void for_each(F&& fn) const {  // fn(const Ptr&)
    reflector_.store().for_each(
        [&fn](const ObjectStore::Item& item) { fn(std::static_pointer_cast<const T>(item.object)); });
  }

 private:
  Reflector reflector_;
};

}  // namespace bascule::kube
