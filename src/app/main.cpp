#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>

#include "app/command_line.hpp"
#include "app/completion.hpp"
#include "bridge/config.hpp"
#include "kube/config.hpp"

namespace {

using bascule::app::Options;

int run(const CLI::App& app, const Options& options) {
  const std::string command = app.get_subcommands().front()->get_name();
  if (command == "explain") return bascule::app::run_explain(options.explain);
  if (command == "queue") return bascule::app::run_queue(options.queue);
  if (command == "simulate") return bascule::app::run_simulate(options.simulate);
  if (command == "scheduler") return bascule::app::run_scheduler(options.serve);
  if (command == "controllers") return bascule::app::run_controllers(options.serve);
  if (command == "admission") return bascule::app::run_admission(options.serve);
  if (command == "operator") return bascule::app::run_operator(options.operator_flags);
  if (command == "operator-webhook") return bascule::app::run_operator_webhook(options.operator_flags);
  std::cout << bascule::app::completion_script(app, options.completion.shell);
  return 0;
}

int guarded(const CLI::App& app, const Options& options) {
  try {
    return run(app, options);
  } catch (const bascule::bridge::ConfigFaults& faults) {
    for (const std::string& fault : faults.faults) std::cerr << "bascule: " << fault << "\n";
    return 2;
  } catch (const bascule::app::UsageError& error) {
    std::cerr << "bascule: " << error.what() << "\n";
    return 2;
  } catch (const bascule::kube::ConfigError& error) {
    std::cerr << "bascule: " << error.what() << "\n";
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "bascule: " << error.what() << "\n";
    return 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  const auto app = bascule::app::make_command_line(options);
  try {
    std::vector<std::string> words = bascule::app::as_go_reads(*app, {argv + 1, argv + argc});
    std::ranges::reverse(words);  // as CLI11 takes them
    app->parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    return app->exit(error) == 0 ? 0 : 2;
  }
  return guarded(*app, options);
}
