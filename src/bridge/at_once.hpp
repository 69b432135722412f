// Many calls of the same kind, as for the pods of a gang: side by side, but not all: the API server has others to
// serve, and calls wait in one line.
#pragma once

#include <algorithm>
#include <vector>

#include "base/async.hpp"

namespace bascule::bridge {

inline constexpr std::size_t kCallsAtOnce = 32;

// work(item) makes a Task<>. The first exception is rethrown when its batch has ended.
template <typename Item, typename Work>
Task<> each_at_once(Loop& loop, const std::vector<Item>& items, Work work) {
  for (std::size_t at = 0; at < items.size(); at += kCallsAtOnce) {
    std::vector<Task<>> batch;
    for (std::size_t i = at; i < std::min(items.size(), at + kCallsAtOnce); ++i) batch.push_back(work(items[i]));
    co_await when_all(loop, std::move(batch));
  }
}

}  // namespace bascule::bridge
