#include "app/command_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "app/completion.hpp"
#include "app/webhook_server.hpp"

namespace bascule::app {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct CommandLineTest : ::testing::Test {
  Options options;
  std::shared_ptr<CLI::App> app = make_command_line(options);

  void parse(std::vector<std::string> words) {
    std::ranges::reverse(words);
    app->parse(std::move(words));
  }
};

TEST_F(CommandLineTest, EveryHelpEndsWithExamples) {
  const auto commands = app->get_subcommands([](const CLI::App*) { return true; });
  EXPECT_EQ(commands.size(), 9u);
  for (const CLI::App* command : commands) {
    EXPECT_THAT(command->get_footer(), HasSubstr("Examples:\n  ")) << command->get_name();
    EXPECT_THAT(command->get_footer(), HasSubstr("bascule " + command->get_name())) << command->get_name();
    EXPECT_THAT(command->help(), HasSubstr(command->get_footer()));
    EXPECT_FALSE(command->get_description().empty());
    for (const CLI::Option* option : command->get_options()) EXPECT_FALSE(option->get_description().empty());
  }
  EXPECT_THAT(app->get_footer(), HasSubstr("Examples:\n"));
}

TEST_F(CommandLineTest, FlagsArrive) {
  parse({"queue", "-n", "ml", "--partition=gpu", "-o", "wide"});
  EXPECT_EQ(options.queue.kube.ns, "ml");
  EXPECT_EQ(options.queue.partition, "gpu");
  EXPECT_EQ(options.queue.output, "wide");
}

TEST_F(CommandLineTest, WrongWordsAreRefused) {
  EXPECT_THROW(parse({"queue", "-o", "yaml"}), CLI::ValidationError);
  EXPECT_THROW(parse({"completion", "tcsh"}), CLI::ValidationError);
  EXPECT_THROW(parse({"explain"}), CLI::RequiredError);
  EXPECT_THROW(parse({"frobnicate"}), CLI::ParseError);
}

TEST_F(CommandLineTest, AnUnknownCommandIsNamed) {
  const auto said = [this](std::vector<std::string> words) {
    std::ostringstream out, err;
    try {
      parse(std::move(words));
    } catch (const CLI::ParseError& error) {
      EXPECT_NE(app->exit(error, out, err), 0);
    }
    return err.str();
  };
  EXPECT_EQ(said({"frob", "-x"}), "there is no command frob; bascule --help lists them\n");
  EXPECT_THAT(said({}), HasSubstr("subcommand is required"));
  EXPECT_THAT(said({"queue", "frob"}), HasSubstr("frob"));
}

// Flags of the originals, as the specifications of their processes list them, with a word where they take one.
const std::vector<std::string> kZap = {"--zap-devel",
                                       "--zap-encoder=json",
                                       "--zap-log-level=1",
                                       "--enable-http2",
                                       "--zap-stacktrace-level=error",
                                       "--zap-time-encoding=epoch",
                                       "--kubeconfig=/a/file",
                                       "--metrics-secure",
                                       "--leader-elect"};
const std::vector<std::string> kBridge = {"--config=/a/file", "--metrics-bind-address=:1",
                                          "--health-probe-bind-address=:2"};
const std::vector<std::string> kOperator = {"--health-addr=:1", "--metrics-addr=0", "--leader-elect-namespace=ns",
                                            "--namespaces=a,b"};
const std::vector<std::string> kManager = {"--propagated-node-conditions=A",
                                           "--profile",
                                           "--profile-addr=:1",
                                           "--accounting-workers=1",
                                           "--controller-workers=1",
                                           "--loginset-workers=1",
                                           "--nodeset-workers=1",
                                           "--restapi-workers=1",
                                           "--token-workers=1",
                                           "--slurmclient-workers=1"};

std::vector<std::string> all_of(std::initializer_list<std::vector<std::string>> lists) {
  std::vector<std::string> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

TEST_F(CommandLineTest, EveryFlagOfTheOriginalsIsTakenWithOneDashOrTwo) {
  const std::map<std::string, std::vector<std::string>> commands = {
      {"admission", all_of({kZap, kBridge})},
      {"controllers", all_of({kZap, kBridge, {"--node-workers=1", "--pod-workers=1"}})},
      {"operator", all_of({kZap, kOperator, kManager})},
      {"manager", all_of({kZap, kOperator, kManager})},
      {"operator-webhook", all_of({kZap, kOperator, {"--server-addr=:1"}})}};
  for (const auto& [command, flags] : commands) {
    for (const std::string& flag : flags) {
      const std::size_t equals = flag.find('=');
      std::vector<std::vector<std::string>> ways = {{command, flag}, {command, flag.substr(1)}};
      if (equals != std::string::npos) ways.push_back({command, flag.substr(1, equals - 1), flag.substr(equals + 1)});
      for (const auto& words : ways) {
        Options fresh;
        app = make_command_line(fresh);
        EXPECT_NO_THROW(parse(as_go_reads(*app, words))) << ::testing::PrintToString(words);
      }
    }
  }
}

TEST_F(CommandLineTest, WhatHasNoEffectIsSaid) {
  parse(as_go_reads(*app,
                    {"operator", "-profile", "--profile-addr=:1", "--zap-time-encoding=nano", "--enable-http2=false"}));
  EXPECT_THAT(options.operator_flags.serve.idle_flags, ElementsAre("--zap-time-encoding", "--profile"));
}
TEST_F(CommandLineTest, WhatHasNoEffectForAWebhookIsSaid) {
  parse({"admission", "--leader-elect", "--zap-stacktrace-level", "error", "--enable-http2", "--metrics-secure"});
  EXPECT_THAT(options.serve.idle_flags, ElementsAre("--zap-stacktrace-level", "--enable-http2", "--leader-elect"));
  EXPECT_TRUE(options.serve.metrics_secure);
  app = make_command_line(options);
  parse({"operator-webhook", "--leader-elect", "--namespaces=a", "--leader-elect-namespace=b"});
  EXPECT_THAT(options.operator_flags.serve.idle_flags, ElementsAre("--leader-elect", "--namespaces"));
}
TEST_F(CommandLineTest, NothingIsSaidOfWhatAsksForNothing) {
  parse(as_go_reads(*app,
                    {"controllers", "--leader-elect=false", "--enable-http2=false", "-zap-time-encoding", "rfc3339"}));
  EXPECT_THAT(options.serve.idle_flags, IsEmpty());
  EXPECT_FALSE(options.serve.leader_elect);
}
TEST_F(CommandLineTest, DevelIsTalkativeUnlessToldOtherwise) {
  parse(as_go_reads(*app, {"scheduler", "-zap-devel"}));
  EXPECT_EQ(options.serve.log_level + " " + options.serve.log_format, "debug console");
  Options fresh;
  app = make_command_line(fresh);
  parse({"scheduler", "--zap-devel", "--zap-log-level=error", "--zap-encoder=json"});
  EXPECT_EQ(fresh.serve.log_level + " " + fresh.serve.log_format, "error json");
}
TEST_F(CommandLineTest, GosWordsAreReadAsGoReadsThem) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(as_go_reads(*app, {"operator", "-leader-elect", "true", "-metrics-addr", ":1"}),
            (Words{"operator", "--leader-elect", "--metrics-addr", ":1"}));
  EXPECT_EQ(as_go_reads(*app, {"operator", "--leader-elect", "false"}), (Words{"operator", "--leader-elect", "false"}));
  EXPECT_THROW(parse({"operator", "--leader-elect", "false"}), CLI::ParseError) << "it would elect";
  EXPECT_EQ(as_go_reads(*app, {"controllers", "-no-such", "-h"}), (Words{"controllers", "-no-such", "-h"}));
  EXPECT_EQ(as_go_reads(*app, {"queue", "-n", "operator", "-profile"}), (Words{"queue", "-n", "operator", "-profile"}));
  EXPECT_EQ(as_go_reads(*app, {"--version"}), (Words{"--version"}));
}

TEST_F(CommandLineTest, FlagsOfACertificateComeTogether) {
  const std::vector<std::string> flags = {"--certificate-secret=hook", "--certificate-names=hook.ns, hook.ns.svc",
                                          "--certificate-webhooks=mutating/hook"};
  for (const char* command : {"admission", "operator-webhook"}) {
    SCOPED_TRACE(command);
    Options fresh;
    app = make_command_line(fresh);
    parse({command, flags[0], flags[1], flags[2]});
    const bool bridge = command == std::string("admission");
    EXPECT_EQ((bridge ? fresh.serve : fresh.operator_flags.serve).certificate_secret, "hook");
    for (std::size_t left_out = 0; left_out < flags.size(); ++left_out) {
      std::vector<std::string> words{command};
      for (std::size_t i = 0; i < flags.size(); ++i) {
        if (i != left_out) words.push_back(flags[i]);
      }
      EXPECT_THROW(parse(words), CLI::RequiresError) << flags[left_out];
    }
  }
  EXPECT_THAT(comma_list(" a, b,,a "), ElementsAre("a", "b"));
}

struct CompletionTest : CommandLineTest {
  std::string path = ::testing::TempDir() + "/bascule_completion.bash";

  static std::string shell(const std::string& command) {
    std::string out;
    FILE* pipe = popen(command.c_str(), "r");
    std::array<char, 256> piece{};
    while (pipe != nullptr && std::fgets(piece.data(), piece.size(), pipe) != nullptr) out += piece.data();
    const int status = pipe == nullptr ? -1 : pclose(pipe);
    return status == 0 ? out : out + "status " + std::to_string(status);
  }
  // What bash offers for the last of `words`.
  std::string offered(const std::string& words) {
    std::ofstream(path) << completion_script(*app, "bash");
    return shell("bash -c 'source " + path + "; COMP_WORDS=(" + words +
                 "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _bascule; echo \"${COMPREPLY[*]}\"' 2>&1");
  }
};

TEST_F(CompletionTest, BashParsesIt) {
  std::ofstream(path) << completion_script(*app, "bash");
  EXPECT_EQ(shell("bash -n " + path + " 2>&1"), "");
}
TEST_F(CompletionTest, BashOffersSubcommands) {
  EXPECT_EQ(offered("bascule ex"), "explain\n");
  EXPECT_EQ(offered("bascule \"\""),
            "explain queue simulate scheduler controllers admission operator operator-webhook completion\n");
  EXPECT_THAT(offered("bascule --"), HasSubstr("--version"));
}
TEST_F(CompletionTest, BashOffersFlagsAndTheirWords) {
  EXPECT_EQ(offered("bascule queue --part"), "--partition\n");
  EXPECT_THAT(offered("bascule scheduler --"), AllOf(HasSubstr("--no-leader-elect"), Not(HasSubstr("--partition"))));
  EXPECT_EQ(offered("bascule queue -o \"\""), "table wide json\n");
  EXPECT_EQ(offered("bascule queue --output = j"), "json\n");
  EXPECT_EQ(offered("bascule queue -n ml --output w"), "wide\n");
  EXPECT_EQ(offered("bascule queue -n \"\""), "\n");
  EXPECT_EQ(offered("bascule completion \"\""), "bash zsh fish\n");
}
TEST_F(CompletionTest, BashOffersObjectsAndFiles) {
  EXPECT_EQ(offered("bascule explain po"), "pod/ podgroup/\n");
  EXPECT_EQ(offered("bascule explain n"), "node/ nodeset/\n");
  std::ofstream(::testing::TempDir() + "/bascule_state.json") << "{}";
  EXPECT_EQ(offered("bascule simulate " + ::testing::TempDir() + "/bascule_st"),
            ::testing::TempDir() + "/bascule_state.json\n");
}
TEST_F(CompletionTest, ZshAndFishNameEverything) {
  for (const char* name : {"zsh", "fish"}) {
    const std::string script = completion_script(*app, name);
    for (const char* word : {"explain", "queue", "simulate", "completion", "table wide json", "bash zsh fish"}) {
      EXPECT_THAT(script, HasSubstr(word)) << name;
    }
    EXPECT_THAT(script, HasSubstr("partition"));
  }
  EXPECT_THAT(completion_script(*app, "zsh"), HasSubstr("'--kubeconfig=[kubeconfig file"));
  EXPECT_THAT(completion_script(*app, "fish"), HasSubstr("-s o -l output -r -a 'table wide json'"));
}
TEST_F(CompletionTest, OtherShellsParseTheirs) {
  for (const char* name : {"zsh", "fish"}) {
    if (shell(std::string("command -v ") + name + " 2>&1 || true").empty()) continue;
    std::ofstream(path) << completion_script(*app, name);
    EXPECT_EQ(shell(std::string(name) + " -n " + path + " 2>&1"), "") << name;
  }
}

}  // namespace
}  // namespace bascule::app
