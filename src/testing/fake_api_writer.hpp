// Writes of the fake API server in two steps: a draft of what the request makes of the object (what admission sees),
// and its commit, which applies the kind's rules and the system's own fields. Between the two other writes may happen;
// the commit of a draft whose object has moved on throws Moved, and the request is drafted again, as a real server
// does.
#pragma once

#include <optional>
#include <string>

#include "testing/fake_api_apply.hpp"
#include "testing/fake_api_store.hpp"

namespace bascule::testing {

enum class PatchKind : std::uint8_t { kJson, kMerge, kStrategic, kApply };

struct WriteContext {
  std::string manager = "unknown";
  bool force = false;
  bool dry_run = false;
};

struct Deletion {
  std::optional<std::string> uid = {};
  std::optional<std::string> version = {};
  std::optional<std::int64_t> grace = {};
  std::string propagation = {};
};

// What a request means to do. `after` is the whole object without kind and apiVersion.
struct Draft {
  ApiTable* table = nullptr;
  ObjectPtr before;  // null: a creation
  json::Value after;
  std::string subresource;
  WriteContext context;
  bool applied = false;  // managedFields are up to date
};

// Thrown by commit().
struct Moved final {};

class ApiWriter final {
 public:
  ApiWriter(Loop& loop, ApiStore& store) : loop_(loop), store_(store) {}
  bool namespaces_must_exist = false;

  Draft create(ApiTable& table, std::string_view ns, json::Value body, WriteContext context);
  Draft update(ApiTable& table, std::string_view ns, std::string_view name, std::string_view subresource,
               json::Value body, WriteContext context);
  // `body` is the patch; for kApply `before` may be absent: a creation.
  Draft patch(ApiTable& table, std::string_view ns, std::string_view name, std::string_view subresource, PatchKind kind,
              const json::Value& body, WriteContext context);
  Draft bind(ApiTable& table, std::string_view ns, std::string_view name, const json::Value& binding,
             WriteContext context);
  // The object as it is now (for a dry run: as it would be); unchanged objects are not written.
  ObjectPtr commit(Draft draft);

  // The object while it is still there (deleting), or nullptr when it has gone; `last` gets its last state.
  ObjectPtr remove(ApiTable& table, std::string_view ns, std::string_view name, const Deletion& how, bool dry_run,
                   ObjectPtr* last = nullptr);

  ObjectPtr need(const ApiTable& table, std::string_view ns, std::string_view name) const;
  static json::Value scale_of(const ApiObject& object);

 private:
  ObjectPtr commit_new(Draft& draft);
  void check_namespace(const ApiTable& table, std::string_view ns, std::string_view name) const;
  void strip_type(const ApiTable& table, json::Value& body) const;
  Draft replace(ApiTable& table, ObjectPtr before, std::string_view subresource, json::Value body,
                WriteContext context);

  Loop& loop_;
  ApiStore& store_;
};

}  // namespace bascule::testing
