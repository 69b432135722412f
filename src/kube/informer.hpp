// A live copy of one kind: list, watch, resume, list again; handlers hear every net change in order, none lost, none
// doubled. Contract of client-go's reflector and shared informer: list with resourceVersion "0" first, watch with
// bookmarks, resume from the last seen version after a cut, 410 or an ERROR event of code 410 lists again, a watch that
// stays silent past its timeout is dead. The bookkeeping is kube/reflector.hpp, a pure state machine; this is its
// driver and its store.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/async.hpp"
#include "kube/client.hpp"
#include "kube/objects.hpp"

namespace bascule::kube {

struct InformerOptions {
  Resource resource;
  std::string ns;  // empty: all namespaces
  Selectors selectors;
  std::size_t page = 500;
  std::size_t max_object = std::size_t{4} << 20;  // bytes of one object's JSON
};

// The untyped part: runs list and watch, hands raw objects to a sink. One loop, no locks.
class Reflector;

// T has `ObjectMeta meta`.
template <class T>
class Informer final {
 public:
  using Ptr = std::shared_ptr<const T>;
  using Decode = Ptr (*)(std::string_view text, json::Interner& interner);
  // One call a net change: (nullptr, new) added, (old, new) changed, (old, nullptr) gone. During a re-list only
  // differences are told. Runs on the loop; must not await, throw or change the informer.
  using Handler = std::function<void(const Ptr& before, const Ptr& after)>;
  // Index values of an object; an object may have several.
  using IndexFn = std::function<void(const T& object, std::vector<std::string>& values)>;

  Informer(Client& client, InformerOptions options, Decode decode, json::Interner& interner);
  ~Informer();  // after stop() has completed

  void on_change(Handler handler);               // before start()
  void add_index(std::string name, IndexFn fn);  // before start()
  void start();
  Task<> stop();

  // True once the first list is in the store. False again never.
  bool synced() const noexcept;
  Task<bool> wait_synced(std::stop_token stop, TimePoint deadline);
  // When the far side last spoke (event, bookmark, list): the age of what the store says.
  TimePoint fresh_as_of() const noexcept;

  Ptr get(const NamespacedName& key) const noexcept;  // nullptr when absent
  std::vector<Ptr> by_index(const std::string& name, const std::string& value) const;
  std::size_t size() const noexcept;
  template <class F>
  void for_each(F&& fn) const;  // fn(const Ptr&)

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace bascule::kube
