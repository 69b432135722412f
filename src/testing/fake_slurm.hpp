// A slurmrestd in memory over SlurmModel, as an HTTP handler: behind net/loopback.hpp or a real socket. It answers as
// 26.05 does in v0.0.42 to v0.0.45 (status codes, error numbers, shapes), and misbehaves when told to.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/async.hpp"
#include "net/http.hpp"
#include "testing/fake_slurm_model.hpp"

namespace bascule::testing {

struct FakeSlurmOptions {
  SlurmModelOptions model = {};
  std::vector<std::string> versions = {"v0.0.42", "v0.0.43", "v0.0.44", "v0.0.45"};
  // What a stopped slurmctld makes every call wait for (MessageTimeout).
  Duration message_timeout = std::chrono::seconds(5);
  std::function<bool(std::string_view token)> accepts = nullptr;  // null: any token
  std::string unread = {};  // more fields of each job in the table, from a comma on: slurmrestd has many
};

// What to do to one request, decided by the test when it arrives.
struct FakeSlurmFault {
  enum class Kind {
    kNone,
    kRefuseConnection,  // 502 HTML of a proxy; nothing done
    kHtml404,           // 404 HTML of a proxy; nothing done
    kDoneThen502,       // done, but the proxy says 502
    kDoneThenSilence,   // done, and no answer ever
    kDoneThenEmpty,     // done; 200 with an empty body
    kDoneThenHalf,      // done; the JSON is cut in the middle
    kRefused,           // slurmctld says no; nothing done
    kControllerHung,    // 500 with 5004 after message_timeout; nothing done
    kSilence,           // nothing done, no answer ever
    kOldData,           // lists as they were at remember(); the rest is done as usual
  };
  Kind kind = Kind::kNone;
  Duration before{};  // waits before it is done
  Duration after{};   // waits before it is answered
};

class FakeSlurm final {
 public:
  explicit FakeSlurm(Loop& loop, FakeSlurmOptions options = {});

  // `this` outlives the handler's calls.
  net::Handler handler();
  void set_faults(std::function<FakeSlurmFault(const net::ServerRequest&)> plan) { plan_ = std::move(plan); }

  // The cluster, brought up to the present.
  SlurmModel& model();
  // Shorthands at the present time.
  // Another user's job; not external: a batch job, which cannot run on EXTERNAL nodes.
  JobId submit(slurm::JobDescription job, std::optional<Duration> runs_for = std::nullopt, bool external = true);
  void add_nodes(std::string_view conf);
  WallTime now() const { return loop_.wall(); }

  void stop_controller() { controller_up_ = false; }
  void start_controller() {
    controller_up_ = true;
    model_.restarted(now());
  }
  bool controller_up() const noexcept { return controller_up_; }
  void set_versions(std::vector<std::string> versions) { options_.versions = std::move(versions); }
  // What conf/ says; nullopt, as it is at first: it is not served.
  void set_slurmctld_parameters(std::optional<std::vector<std::string>> parameters) {
    slurmctld_parameters_ = std::move(parameters);
  }
  // Keeps the lists of now, for kOldData.
  void remember();

  // By endpoint: "GET jobs", "GET jobs/state", "GET job", "POST job/submit", "POST job", "DELETE job", "GET nodes",
  // "GET node", "POST node", "DELETE node", "POST new/node", "GET partitions", "GET resources", "GET ping", "GET conf".
  std::size_t calls(std::string_view endpoint) const;
  std::size_t all_calls() const noexcept { return all_calls_; }
  void forget_calls();

 private:
  struct Route;
  Task<net::ServerResponse> serve(const net::ServerRequest& request, std::stop_token stop);
  net::ServerResponse act(const Route& route, const std::string& body);
  net::ServerResponse act_on_job(const Route& route, const std::string& body);
  net::ServerResponse act_on_node(const Route& route, const std::string& body);
  net::ServerResponse list_jobs(std::int64_t since);
  net::ServerResponse list_nodes(std::int64_t since);
  net::ServerResponse controller_down(const Route& route) const;

  Loop& loop_;
  FakeSlurmOptions options_;
  SlurmModel model_;
  std::function<FakeSlurmFault(const net::ServerRequest&)> plan_;
  bool controller_up_ = true;
  std::optional<std::vector<std::string>> slurmctld_parameters_;
  std::map<std::string, std::size_t, std::less<>> calls_;
  std::size_t all_calls_ = 0;
  std::map<std::string, std::string, std::less<>> old_;  // body by endpoint
};

}  // namespace bascule::testing
