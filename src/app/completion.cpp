#include "app/completion.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <set>
#include <vector>

namespace bascule::app {

namespace {

enum class Takes : std::uint8_t { kNothing, kText, kWords, kFile, kDirectory };

struct Argument {
  std::vector<std::string> names;  // "-o", "--output"; empty: a positional
  std::string help;
  Takes takes = Takes::kNothing;
  std::vector<std::string> words;
};
struct Command {
  std::string name;
  std::string help;
  std::vector<Argument> arguments;
};

std::vector<std::string> split(std::string_view text, char by) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(by), text.size());
    if (end > 0) out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

// CLI11 tells what an option takes in its type name only: "FILE", "FORMAT:{text,json}", "pod/NAME|lws/NAME".
void read_type(const std::string& type, Argument& to) {
  to.takes = Takes::kText;
  if (type == "FILE") to.takes = Takes::kFile;
  if (type == "DIR") to.takes = Takes::kDirectory;
  const std::size_t open = type.find(":{");
  if (open != std::string::npos && type.ends_with('}')) {
    to.words = split(std::string_view(type).substr(open + 2, type.size() - open - 3), ',');
  } else if (type.find("/NAME") != std::string::npos) {
    for (const std::string& word : split(type, '|')) to.words.push_back(word.substr(0, word.find('/') + 1));
  }
  if (!to.words.empty()) to.takes = Takes::kWords;
}

Argument read_argument(const CLI::Option& option) {
  Argument out;
  out.help = option.get_description();
  std::set<std::string> seen;
  const auto add = [&](const std::string& dashes, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if (seen.insert(name).second) out.names.push_back(dashes + name);
    }
  };
  add("-", option.get_snames());
  add("--", option.get_lnames());
  add("--", option.get_fnames());  // those that switch a flag off
  if (option.get_items_expected_max() > 0) read_type(option.get_type_name(), out);
  return out;
}

Command read_command(const CLI::App& app) {
  Command out{app.get_name(), app.get_description(), {}};
  for (const CLI::Option* option : app.get_options()) out.arguments.push_back(read_argument(*option));
  return out;
}

std::vector<Command> commands_of(const CLI::App& app) {
  std::vector<Command> out;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    out.push_back(read_command(*command));
  }
  return out;
}

std::string joined(const std::vector<std::string>& words, std::string_view between) {
  return fmt::format("{}", fmt::join(words, between));
}

std::vector<std::string> flags_of(const Command& command) {
  std::vector<std::string> out;
  for (const Argument& argument : command.arguments) {
    out.insert(out.end(), argument.names.begin(), argument.names.end());
  }
  return out;
}

std::vector<std::string> names_of(const std::vector<Command>& commands) {
  std::vector<std::string> out;
  for (const Command& command : commands) out.push_back(command.name);
  return out;
}

// --- bash ------------------------------------------------------------------------------------------------------------

std::string bash_words(const Argument& argument) {
  switch (argument.takes) {
    case Takes::kWords:
      return fmt::format("words=\"{}\"", joined(argument.words, " "));
    case Takes::kFile:
      return "files=-f";
    case Takes::kDirectory:
      return "files=-d";
    case Takes::kText:
    case Takes::kNothing:
      break;
  }
  return ":";
}

std::string bash_script(const std::string& program, const std::vector<Command>& commands, const Command& root) {
  std::string values;
  std::string rest;
  for (const Command& command : commands) {
    std::string positional;
    for (const Argument& argument : command.arguments) {
      if (argument.names.empty()) {
        positional = bash_words(argument);
      } else if (argument.takes != Takes::kNothing) {
        std::vector<std::string> cases;
        for (const std::string& name : argument.names) cases.push_back(fmt::format("'{} {}'", command.name, name));
        values += fmt::format("    {}) {} ;;\n", joined(cases, "|"), bash_words(argument));
      }
    }
    rest += fmt::format("      {}) if [[ $cur == -* ]]; then words=\"{}\"; else {}; fi ;;\n", command.name,
                        joined(flags_of(command), " "), positional.empty() ? ":" : positional);
  }
  return fmt::format(R"(# bash completion of {0}: source <({0} completion bash)
_{0}() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD-1]}} command='' words='' files='' i
  COMPREPLY=()
  # bash cuts --flag=value at the =
  if [[ $cur == = ]]; then cur=''; elif [[ $prev == = ]]; then prev=${{COMP_WORDS[COMP_CWORD-2]}}; fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case ${{COMP_WORDS[i]}} in
      {1}) command=${{COMP_WORDS[i]}}; break ;;
    esac
  done
  case "$command $prev" in
{2}    *) case $command in
      '') words="{3}"; [[ $cur == -* ]] && words="{4}" ;;
{5}    esac ;;
  esac
  if [[ -n $files ]]; then
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen "$files" -- "$cur")
  else
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
    [[ ${{COMPREPLY[0]-}} == */ ]] && compopt -o nospace 2>/dev/null
  fi
  return 0
}}
complete -F _{0} {0}
)",
                     program, joined(names_of(commands), "|"), values, joined(names_of(commands), " "),
                     joined(flags_of(root), " "), rest);
}

// --- zsh -------------------------------------------------------------------------------------------------------------

// For a text inside single quotes whose `special` characters mean something to the shell's function.
std::string escaped(std::string_view text, std::string_view special, std::string_view quote) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += quote;
    } else {
      if (special.find(c) != std::string_view::npos) out += '\\';
      out += c;
    }
  }
  return out;
}

std::string zsh_action(const Argument& argument) {
  switch (argument.takes) {
    case Takes::kNothing:
      return {};
    case Takes::kWords:
      // A word that ends in a slash goes on.
      return argument.words.front().ends_with('/')
                 ? fmt::format(":value:compadd -S \"\" {}", joined(argument.words, " "))
                 : fmt::format(":value:({})", joined(argument.words, " "));
    case Takes::kFile:
      return ":file:_files";
    case Takes::kDirectory:
      return ":directory:_files -/";
    case Takes::kText:
      break;
  }
  return ":value: ";
}

std::string zsh_script(const std::string& program, const std::vector<Command>& commands) {
  constexpr std::string_view kSpecial = "[]:\\";
  constexpr std::string_view kQuote = R"('\'')";
  std::string list;
  std::string cases;
  for (const Command& command : commands) {
    list += fmt::format("    '{}:{}'\n", command.name, escaped(command.help, kSpecial, kQuote));
    cases += fmt::format("    {})\n      _arguments", command.name);
    for (const Argument& argument : command.arguments) {
      if (argument.names.empty()) {
        cases += fmt::format(" \\\n        '1{}'", zsh_action(argument));
        continue;
      }
      for (const std::string& name : argument.names) {
        const bool joins = name.starts_with("--") && argument.takes != Takes::kNothing;
        cases += fmt::format(" \\\n        '{}{}[{}]{}'", name, joins ? "=" : "",
                             escaped(argument.help, kSpecial, kQuote), zsh_action(argument));
      }
    }
    cases += " ;;\n";
  }
  return fmt::format(R"(#compdef {0}
# zsh completion of {0}: {0} completion zsh > "${{fpath[1]}}/_{0}"
_{0}() {{
  local -a commands
  commands=(
{1}  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command=$words[2]
  shift words
  (( CURRENT-- ))
  case $command in
{2}  esac
}}
if [[ $funcstack[1] == _{0} ]]; then _{0} "$@"; else compdef _{0} {0}; fi
)",
                     program, list, cases);
}

// --- fish ------------------------------------------------------------------------------------------------------------

std::string fish_script(const std::string& program, const std::vector<Command>& commands) {
  const auto quoted = [](std::string_view text) { return "'" + escaped(text, "\\", "\\'") + "'"; };
  std::string out = fmt::format(
      "# fish completion of {0}: {0} completion fish > ~/.config/fish/completions/{0}.fish\n"
      "complete -c {0} -f\n",
      program);
  for (const Command& command : commands) {
    out += fmt::format("complete -c {} -n __fish_use_subcommand -a {} -d {}\n", program, command.name,
                       quoted(command.help));
    for (const Argument& argument : command.arguments) {
      out += fmt::format("complete -c {} -n '__fish_seen_subcommand_from {}'", program, command.name);
      for (const std::string& name : argument.names) {
        out += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      }
      if (argument.takes == Takes::kFile || argument.takes == Takes::kDirectory) out += " -F";
      if (!argument.names.empty() && argument.takes != Takes::kNothing) out += " -r";
      if (!argument.words.empty()) out += " -a " + quoted(joined(argument.words, " "));
      out += " -d " + quoted(argument.help) + "\n";
    }
  }
  return out;
}

}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell) {
  const std::vector<Command> commands = commands_of(app);
  if (shell == "zsh") return zsh_script(app.get_name(), commands);
  if (shell == "fish") return fish_script(app.get_name(), commands);
  return bash_script(app.get_name(), commands, read_command(app));
}

}  // namespace bascule::app
