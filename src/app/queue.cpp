// `bascule queue`: pods of the bridge beside native Slurm jobs. One list call to each side.
#include "bridge/queue.hpp"

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "app/process.hpp"
#include "app/terminal.hpp"
#include "base/log.hpp"
#include "bridge/config.hpp"
#include "kube/config.hpp"
#include "kube/error.hpp"

namespace bascule::app {

namespace {

constexpr const char* kDefaultConfig = "/etc/slurm-bridge/config.yaml";

bridge::Config config_of(const QueueOptions& options) {
  if (!options.config.empty()) return bridge::load_config(options.config, options.slurm_url.empty());
  if (std::filesystem::exists(kDefaultConfig)) return bridge::load_config(kDefaultConfig, options.slurm_url.empty());
  if (!options.slurm_url.empty()) return {};
  throw UsageError(std::string("queue: where is slurmrestd? Give --slurm-url, or --config with the bridge's file (") +
                   kDefaultConfig + " is not here)");
}

// The caller's own token, as `scontrol token` prints it, else a file.
slurm::TokenSource token_from_environment() {
  const char* token = std::getenv("SLURM_JWT");
  if (token != nullptr && *token != '\0') return slurm::fixed_token(token);
  const char* file = std::getenv("SLURM_JWT_FILE");
  if (file != nullptr && *file != '\0') return slurm::file_token(file);
  throw UsageError("queue: no Slurm token: run `export $(scontrol token)`, or set SLURM_JWT_FILE");
}

Task<> read(kube::Client& kube, slurm::Client& slurm, std::string ns, std::string scheduler,
            bridge::QueueContent& content) {
  std::string forbidden;
  try {
    content = co_await bridge::read_queue(kube, slurm, ns, scheduler);
  } catch (const kube::Forbidden& error) {
    forbidden = error.what();
  }
  if (forbidden.empty()) co_return;
  throw std::runtime_error(forbidden + (ns.empty() ? "; without -A only one namespace is read"
                                                   : "; -n chooses a namespace whose pods you may list"));
}

}  // namespace

int run_queue(const QueueOptions& options) {
  log::configure(log::Level::kError, log::Format::kText);
  if (options.all_namespaces && !options.kube.ns.empty()) {
    throw UsageError("queue: -n and -A exclude each other: one namespace, or all");
  }
  const bridge::Config config = config_of(options);
  net::IoLoop loop;
  slurm::ClientOptions client;
  client.token = token_from_environment();
  const std::string& url = options.slurm_url.empty() ? config.slurm_rest_api : options.slurm_url;
  SlurmConnection slurm(loop, url, options.slurm_url.empty() ? "slurmRestApi" : "--slurm-url", std::move(client));
  kube::Connection kube(loop, kube::load_config({options.kube.kubeconfig, options.kube.context}),
                        {.user_agent = "bascule-queue/" BASCULE_VERSION});
  std::string ns = options.kube.ns.empty() ? kube.default_namespace() : options.kube.ns;
  if (options.all_namespaces) ns.clear();
  bridge::QueueContent content;
  run_to_end(loop, read(kube.client(), slurm.client(), ns, config.scheduler_name, content));
  const bridge::QueueFilter filter{options.kube.ns, options.partition, content.cluster};
  const auto [rows, without_job] = bridge::make_queue(content.jobs, content.pods, filter, loop.wall());
  if (options.output == "json") {
    std::cout << json::dump_pretty(bridge::to_json(rows));
  } else {
    std::cout << bridge::to_text(rows, options.output == "wide", colours_wanted());
  }
  if (without_job > 0) {
    std::cerr << "not shown: " << without_job << " of pods that have no Slurm job yet, so no partition\n";
  }
  return 0;
}

}  // namespace bascule::app
