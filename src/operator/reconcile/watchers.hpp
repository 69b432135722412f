// Who has looked at what, so that a change wakes those it concerns and nobody else. A reader looks anew from time to
// time; what it did not look at then no longer concerns it. Pure.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

namespace bascule::op::reconcile {

class Watchers final {
 public:
  // Counts from now on, also before finish().
  void note(const std::string& reader, const std::string& thing);
  // A new look begins; finish() drops what was not noted since.
  void begin(const std::string& reader) { fresh_[reader].clear(); }
  void finish(const std::string& reader);
  void forget(const std::string& reader);
  // Empty set: nobody.
  const std::set<std::string>& of(const std::string& thing) const;
  std::size_t things() const noexcept { return readers_.size(); }

 private:
  void drop(const std::string& reader, const std::string& thing);

  std::map<std::string, std::set<std::string>> readers_;  // by thing
  std::map<std::string, std::set<std::string>> noted_;    // by reader
  std::map<std::string, std::set<std::string>> fresh_;    // by reader, of the look that goes on
};

}  // namespace bascule::op::reconcile
