#include "runtime/health.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/log.hpp"

namespace bascule::runtime {

namespace {

using namespace std::chrono_literals;

net::ServerResponse text(int status, std::string body, std::string_view type = "text/plain; charset=utf-8") {
  net::ServerResponse response;
  response.status = status;
  response.headers.add("Content-Type", std::string(type));
  response.headers.add("X-Content-Type-Options", "nosniff");
  response.body = std::move(body);
  return response;
}

struct Question {
  bool verbose = false;
  std::set<std::string> exclude;
};

// All checks of a list, in the words of the API server's own endpoints.
net::ServerResponse answer_all(const std::vector<NamedCheck>& checks, std::string_view endpoint, Question question) {
  bool good = true;
  std::string lines;
  for (const NamedCheck& named : checks) {
    if (question.exclude.erase(named.name) > 0) {
      lines += fmt::format("[+]{} excluded: ok\n", named.name);
    } else if (const auto problem = named.check()) {
      good = false;
      lines += fmt::format("[-]{} failed: {}\n", named.name, *problem);
      log::limited(log::Level::kInfo, 10s, "health check failed",
                   {{"endpoint", endpoint}, {"check", named.name}, {"why", *problem}});
    } else {
      lines += fmt::format("[+]{} ok\n", named.name);
    }
  }
  if (good && !question.verbose) return text(200, "ok");
  for (const std::string& unknown : question.exclude) {
    lines += fmt::format("warn: there is no check \"{}\" to exclude\n", unknown);
  }
  return text(good ? 200 : 500, lines + fmt::format("{} check {}\n", endpoint, good ? "passed" : "failed"));
}

net::ServerResponse answer_one(const std::vector<NamedCheck>& checks, std::string_view name) {
  const auto found = std::ranges::find(checks, name, &NamedCheck::name);
  if (found == checks.end()) return text(404, "404 page not found\n");
  const auto problem = found->check();
  return problem ? text(500, fmt::format("internal server error: {}\n", *problem)) : text(200, "ok");
}

struct Endpoint {
  std::string_view name;  // without the slash
  std::vector<NamedCheck> checks;
};

net::ServerResponse answer(const std::vector<Endpoint>& endpoints, std::string_view target) {
  net::Target parsed;
  try {
    parsed = net::parse_target(target);
  } catch (const std::invalid_argument& error) {
    return text(400, fmt::format("{}\n", error.what()));
  }
  std::string_view path = parsed.path;
  path.remove_prefix(std::min(path.find_first_not_of('/'), path.size()));
  while (path.ends_with('/')) path.remove_suffix(1);
  const std::string_view root = path.substr(0, path.find('/'));
  for (const Endpoint& endpoint : endpoints) {
    if (root != endpoint.name) continue;
    if (root != path) return answer_one(endpoint.checks, path.substr(root.size() + 1));
    Question question;
    for (const auto& [key, value] : parsed.query) {
      if (key == "verbose") question.verbose = true;
      if (key == "exclude") question.exclude.insert(value);
    }
    return answer_all(endpoint.checks, endpoint.name, std::move(question));
  }
  return text(404, "404 page not found\n");
}

std::vector<NamedCheck> prepared(std::vector<NamedCheck> checks) {
  if (checks.empty()) checks.push_back({"ping", [] { return std::optional<std::string>(); }});
  std::ranges::sort(checks, {}, &NamedCheck::name);
  return checks;
}

}  // namespace

net::Handler health_handler(std::vector<NamedCheck> live, std::vector<NamedCheck> ready) {
  live = prepared(std::move(live));
  const auto endpoints = std::make_shared<const std::vector<Endpoint>>(
      std::vector<Endpoint>{{"healthz", live}, {"livez", live}, {"readyz", prepared(std::move(ready))}});
  return [endpoints](const net::ServerRequest& request, std::stop_token) {
    return [](net::ServerResponse response) -> Task<net::ServerResponse> {
      co_return response;
    }(answer(*endpoints, request.target));
  };
}

net::Handler metrics_handler(Metrics& metrics) {
  return [&metrics](const net::ServerRequest& request, std::stop_token) {
    return [](Metrics& m, std::string target) -> Task<net::ServerResponse> {
      if (target.substr(0, target.find('?')) != "/metrics") co_return text(404, "404 page not found\n");
      co_return text(200, m.text(), "text/plain; version=0.0.4; charset=utf-8");
    }(metrics, request.target);
  };
}

}  // namespace bascule::runtime
