#include "json/strategic_order.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace bascule::json::detail {

void refuse(const std::string& sentence) {
  throw PatchError("strategic merge patch: " + sentence);
}

boost::json::kind item_kind(const Array& a, const Array& b) {
  const Value* first = nullptr;
  for (const Array* list : {&a, &b}) {
    for (const Value& item : *list) {
      if (item.is_null() || item.is_array()) refuse("a list that merges holds objects or scalars only");
      if (!first) first = &item;
      if (first->kind() != item.kind() && !(first->is_number() && item.is_number())) {
        refuse(fmt::format("items of different kinds in one list: {} and {}", dump(*first), dump(item)));
      }
    }
  }
  if (!first) refuse("no items to order");
  return first->kind();
}

std::string identity(const Value& item, std::string_view merge_key) {
  if (merge_key.empty()) {
    if (item.is_structured()) refuse("a list without a merge key cannot be ordered");
    return dump(item);
  }
  const Object* object = item.if_object();
  if (!object) refuse(fmt::format("an item is not an object: {}", dump(item)));
  const Value* key = object->if_contains(merge_key);
  if (!key) refuse(fmt::format("an item lacks its merge key \"{}\": {}", merge_key, dump(item)));
  return dump(*key);
}

std::vector<std::string> identities(const Array& items, std::string_view merge_key) {
  std::vector<std::string> out;
  out.reserve(items.size());
  for (const Value& item : items) out.push_back(identity(item, merge_key));
  return out;
}

namespace {

// Places by identity; the first of equal ones counts.
class Ranks {
 public:
  explicit Ranks(const std::vector<std::string>& order) {
    for (std::size_t i = 0; i < order.size(); ++i) ranks_.emplace(order[i], i);
  }
  std::ptrdiff_t of(const std::string& id) const {
    const auto at = ranks_.find(id);
    return at == ranks_.end() ? -1 : static_cast<std::ptrdiff_t>(at->second);
  }

 private:
  std::unordered_map<std::string, std::size_t> ranks_;
};

struct Placed {
  Value* item;
  std::ptrdiff_t own;   // rank in the order of its own half
  std::ptrdiff_t live;  // rank in the list as it was
};

// An item without a rank counts as less than anything, which is no ordering; the API server sorts by insertion then.
void sort_half(std::vector<Placed>& half) {
  if (std::ranges::all_of(half, [](const Placed& p) { return p.own >= 0; })) {
    std::ranges::sort(half, {}, [](const Placed& p) { return std::pair(p.own, p.item); });
    return;
  }
  const auto less = [](const Placed& a, const Placed& b) { return a.own < 0 || b.own < 0 || a.own < b.own; };
  for (std::size_t i = 1; i < half.size(); ++i) {
    for (std::size_t j = i; j > 0 && less(half[j], half[j - 1]); --j) std::swap(half[j], half[j - 1]);
  }
}

}  // namespace

Array arrange(Array items, const std::vector<std::string>& patch_order, const std::vector<std::string>& live_order,
              std::string_view merge_key) {
  const Ranks patch_ranks(patch_order);
  const Ranks live_ranks(live_order);
  std::vector<Placed> patched;
  std::vector<Placed> others;
  for (Value& item : items) {
    const std::string id = identity(item, merge_key);
    const std::ptrdiff_t live = live_ranks.of(id);
    const std::ptrdiff_t rank = patch_ranks.of(id);
    rank >= 0 ? patched.push_back({&item, rank, live}) : others.push_back({&item, live, live});
  }
  sort_half(patched);
  sort_half(others);
  Array out;
  out.reserve(items.size());
  auto next = others.begin();
  for (const Placed& placed : patched) {
    while (next != others.end() && next->live >= 0 && placed.live >= 0 && next->live < placed.live) {
      out.push_back(std::move(*next++->item));
    }
    out.push_back(std::move(*placed.item));
  }
  for (; next != others.end(); ++next) out.push_back(std::move(*next->item));
  return out;
}

void LiveOrder::erase(std::size_t at) {
  const auto begin = ids.begin();
  std::move(begin + static_cast<std::ptrdiff_t>(at) + 1, begin + static_cast<std::ptrdiff_t>(size),
            begin + static_cast<std::ptrdiff_t>(at));
  --size;
}

void LiveOrder::push_back(const std::string& id) {
  if (size < ids.size()) ids[size++] = id;
}

}  // namespace bascule::json::detail
