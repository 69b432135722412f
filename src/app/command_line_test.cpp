#include "app/command_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "app/completion.hpp"

namespace bascule::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
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
  EXPECT_EQ(offered("bascule explain n"), "nodeset/\n");
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
