#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/log.hpp"
#include "base/time.hpp"
#include "kube/config.hpp"
#include "kube/exec_plugin.hpp"
#include "net/server.hpp"

namespace bascule::kube {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

TEST(Program, runs_to_its_end_or_to_a_limit) {
  const auto sh = [](const std::string& script, ProgramLimits limits = {}) {
    return run_program("sh", {"-c", script}, {{"GREETING", "hello"}}, limits);
  };
  auto result = sh("echo $GREETING; echo oops >&2; exit 3");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.out, "hello\n");
  EXPECT_EQ(result.err, "oops\n");
  EXPECT_EQ(sh("kill -9 $$").fault, "ended by signal 9");
  EXPECT_EQ(sh("sleep 60", {.timeout = 50ms}).fault, "did not end in time");
  EXPECT_EQ(sh("yes", {.output = 10000}).fault, "printed too much");
  // It closes what is read of it and lives on.
  EXPECT_EQ(sh("exec >&- 2>&-; sleep 1000", {.timeout = 50ms}).fault, "did not end in time");
  EXPECT_EQ(sh("echo out; exec >&- 2>&-; sleep 0.05; exit 3").exit_code, 3);
  result = run_program("no-such-program-here", {}, {});
  EXPECT_TRUE(result.not_found);
  EXPECT_EQ(result.exit_code, -1);
}

TEST(ExecPlugin, answers) {
  const Config::Exec exec{.command = "login",
                          .args = {},
                          .env = {},
                          .api_version = "client.authentication.k8s.io/v1",
                          .install_hint = "apt install login",
                          .cluster_info = ""};
  EXPECT_EQ(exec_info(exec),
            R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","spec":{"interactive":false}})");
  const auto read = [&](std::string out) {
    return read_exec_result(exec, {.exit_code = 0, .out = std::move(out), .err = "", .fault = ""});
  };
  const std::string head = R"({"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":)";
  const ExecToken token = read(head + R"({"token":"t","expirationTimestamp":"2026-01-01T00:00:00Z"}})");
  EXPECT_EQ(token.token, "t");
  EXPECT_EQ(token.expires, parse_rfc3339("2026-01-01T00:00:00Z"));
  EXPECT_THROW(read("no"), Unauthorized);
  EXPECT_THROW(read("{}"), Unauthorized);
  EXPECT_THROW(read(head + "{}}"), Unauthorized);
  EXPECT_THROW(read(head + R"({"token":"t","expirationTimestamp":"soon"}})"), Unauthorized);
  try {
    read_exec_result(exec, {.exit_code = -1, .out = "", .err = "", .fault = "", .not_found = true});
    ADD_FAILURE();
  } catch (const Unauthorized& error) {
    EXPECT_STREQ(error.what(), "credential plug-in login: is not there; apt install login");
  }
}

struct Connections : testing::Test {
  log::Capture quiet;
  net::IoLoop loop;
  fs::path folder = fs::temp_directory_path() / fmt::format("bascule-kube-{}", ::getpid());
  std::vector<std::string> tokens;  // as the server saw them
  std::string refuse;               // a header that is answered with 401
  net::Handler handler = [this](const net::ServerRequest& request, std::stop_token) {
    tokens.emplace_back(request.headers.get("Authorization"));
    const bool good = refuse.empty() || tokens.back() != refuse;
    return [](int status) -> Task<net::ServerResponse> {
      co_return net::ServerResponse{.status = status, .body = "{}"};
    }(good ? 200 : 401);
  };

  void SetUp() override { fs::create_directories(folder); }
  void TearDown() override { fs::remove_all(folder); }
  void write(const std::string& name, const std::string& text) { std::ofstream(folder / name) << text; }
  void run(Task<> task) {
    Gate gate(loop);
    spawn(gate, [](net::IoLoop& l, Task<> t) -> Task<> {
      try {
        co_await std::move(t);
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
      l.quit();
    }(loop, std::move(task)));
    const auto timer = loop.call_at(loop.now() + 2min, [] { std::abort(); });
    loop.run();
    loop.cancel(timer);
  }
  // Calls three times with a plug-in that says this of its token, and counts its runs in a file.
  void call_with_plug_in(const std::string& status) {
    write("login",
          "#!/bin/sh\necho run >> \"$(dirname $0)/runs\"\n"
          "echo '{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",'\n"
          "echo '\"status\":" +
              status + "}'\n");
    fs::permissions(folder / "login", fs::perms::owner_all);
    const auto make = [&](const std::string& url) {
      Config config;
      config.http.url = net::parse_url(url);
      config.exec = Config::Exec{.command = (folder / "login").string(),
                                 .args = {},
                                 .env = {},
                                 .api_version = "client.authentication.k8s.io/v1",
                                 .install_hint = "",
                                 .cluster_info = ""};
      return config;
    };
    call(make, 3);
  }
  // Calls `times` times with this config, then lets the server go.
  void call(const std::function<Config(const std::string& url)>& make, int times) {
    const auto server = net::serve(loop, {.address = "127.0.0.1"}, handler);
    Connection connection(loop, make(fmt::format("http://127.0.0.1:{}", server->port())), {.timeout = 5s});
    run([](Client& client, net::Server& s, Loop& l, int n) -> Task<> {
      for (int i = 0; i < n; ++i) co_await client.raw("/version");
      co_await s.drain(l.now());
    }(connection.client(), *server, loop, times));
  }
};

TEST_F(Connections, a_kubeconfig_with_a_token_file) {
  write("token", "first\n");
  call(
      [&](const std::string& url) {
        write("config", fmt::format("current-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n"
                                    "clusters: [{{name: k, cluster: {{server: '{}'}}}}]\n"
                                    "users: [{{name: u, user: {{tokenFile: token}}}}]\n",
                                    url));
        return load_config({.path = (folder / "config").string(), .context = ""});
      },
      2);
  EXPECT_EQ(tokens, (std::vector<std::string>{"Bearer first", "Bearer first"}));
}

TEST_F(Connections, a_refused_token_file_is_read_again) {
  write("token", "old");
  refuse = "Bearer old";
  call(
      [&](const std::string& url) {
        Config config;
        config.http.url = net::parse_url(url);
        config.token_file = (folder / "token").string();
        loop.post([this] { write("token", "new"); });
        config.token = "old";
        return config;
      },
      2);
  EXPECT_EQ(tokens.back(), "Bearer new");
}

TEST_F(Connections, a_plug_in_is_run_once_and_again_after_a_refusal) {
  call_with_plug_in(R"({"token":"from-plug-in"})");
  EXPECT_EQ(tokens, std::vector<std::string>(3, "Bearer from-plug-in"));
  EXPECT_EQ(fs::file_size(folder / "runs"), 4U);
}

// To a clock that is an hour ahead each of its tokens is over when it comes.
TEST_F(Connections, a_plug_in_is_not_run_for_each_call_whatever_the_clock_says) {
  call_with_plug_in(R"({"token":"t","expirationTimestamp":"2020-01-01T00:00:00Z"})");
  EXPECT_EQ(tokens, std::vector<std::string>(3, "Bearer t"));
  EXPECT_EQ(fs::file_size(folder / "runs"), 4U);
}

TEST_F(Connections, basic_credentials) {
  call(
      [](const std::string& url) {
        Config config;
        config.http.url = net::parse_url(url);
        config.user = "me";
        config.password = "secret";
        return config;
      },
      1);
  EXPECT_EQ(tokens, std::vector<std::string>{"Basic bWU6c2VjcmV0"});
}

TEST_F(Connections, where_a_config_comes_from) {
  const auto restore = [](const char* name) {
    const char* value = std::getenv(name);
    return std::pair(name, value ? std::optional<std::string>(value) : std::nullopt);
  };
  const std::array saved{restore("KUBECONFIG"), restore("HOME"), restore("KUBERNETES_SERVICE_HOST")};
  ::unsetenv("KUBERNETES_SERVICE_HOST");
  const auto fault = [] {
    try {
      load_config({});
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  const std::string text =
      "current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\nclusters: [{name: k, cluster: {server: "
      "'https://h'}}]\n";
  ::setenv("KUBECONFIG", ((folder / "none").string() + ":" + (folder / "a").string()).c_str(), 1);
  EXPECT_NE(fault().find("none of these files exists; correct or unset it"), std::string::npos) << fault();
  write("a", text);
  EXPECT_EQ(load_config({}).http.url.host, "h");
  ::unsetenv("KUBECONFIG");
  ::setenv("HOME", folder.c_str(), 1);
  EXPECT_NE(fault().find("no cluster is configured"), std::string::npos);
  fs::create_directories(folder / ".kube");
  write(".kube/config", text);
  EXPECT_EQ(fault(), "none");
  EXPECT_THROW(in_cluster_config(), ConfigError);
  for (const auto& [name, value] : saved) value ? ::setenv(name, value->c_str(), 1) : ::unsetenv(name);
}

}  // namespace
}  // namespace bascule::kube
