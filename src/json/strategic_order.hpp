// The order of lists that merge. Source: design document "Order in Strategic Merge Patch" of sig-api-machinery.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "json/value.hpp"

namespace bascule::json::detail {

[[noreturn]] void refuse(const std::string& sentence);

// The kind that all items of both lists share; refuses when there is none.
boost::json::kind item_kind(const Array& a, const Array& b);

// What tells one item of a list from another, as text: its merge key, or itself.
std::string identity(const Value& item, std::string_view merge_key);
std::vector<std::string> identities(const Array& items, std::string_view merge_key);

// Items named by the patch stand in the patch's order, the others in the live order, each of them before the first
// patch item that stood behind it in the live list.
Array arrange(Array items, const std::vector<std::string>& patch_order, const std::vector<std::string>& live_order,
              std::string_view merge_key);

// The live list's identities while items are taken out and put in. Kubernetes' library removes items in place, and
// what it leaves behind the end still counts for the order of $setElementOrder.
struct LiveOrder {
  explicit LiveOrder(std::vector<std::string> list) : ids(std::move(list)), size(ids.size()) {}
  void erase(std::size_t at);
  void push_back(const std::string& id);

  std::vector<std::string> ids;
  std::size_t size;
};

}  // namespace bascule::json::detail
