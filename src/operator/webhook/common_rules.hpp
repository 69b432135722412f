// Rules and readings that several kinds share.
#pragma once

#include <string>
#include <string_view>

#include "json/value.hpp"
#include "operator/webhook/rules.hpp"

namespace bascule::op {

std::string_view name_of(const json::Value& object) noexcept;
std::string_view namespace_of(const json::Value& object) noexcept;

// A key of a Secret, as references are compared.
struct KeyOf {
  std::string_view name;
  std::string_view key;
  friend bool operator==(const KeyOf&, const KeyOf&) = default;
};
KeyOf key_of(const json::Value& object, std::string_view field) noexcept;
// jwtKeyRef, else the older jwtHs256KeyRef, else empty.
KeyOf jwt_key_of(const json::Value& object) noexcept;

// Letters, digits and dashes, neither first nor last a dash; at most 63. `letter_first`: as names of Services.
bool is_dns_label(std::string_view text, bool letter_first = false) noexcept;
// One word that cannot end a line of a Slurm configuration file, start a comment or be split.
bool is_plain_word(std::string_view text) noexcept;
// For sentences: in quotes, control characters escaped, cut when long.
std::string quoted(std::string_view text);

// Length and letters of the name, so that a Service can be called `child`, in which NAME stands for it. StatefulSets of
// that name also put it, with a hash, into a label of their pods.
void name_rules(const json::Value& object, std::string_view child, bool stateful_set, Findings& findings);
void jwt_key_rules(const json::Value& object, const json::Value* old, Findings& findings);
// Of spec.service; `name` is the Service's.
void service_rules(const json::Value& object, std::string_view name, Findings& findings);
void external_rules(const json::Value& object, Findings& findings);
void controller_ref_rules(const json::Value& object, const json::Value* old, Findings& findings);

// Of each kind. `old` is nullptr at creation; the spec has changed.
void controller_rules(const json::Value& object, const json::Value* old, const Known& known, Findings& findings);
void nodeset_rules(const json::Value& object, const json::Value* old, const Known& known, Findings& findings);
void token_rules(const json::Value& object, const json::Value* old, Findings& findings);

// The ConfigMaps a Controller takes files from: each name once.
std::set<std::string, std::less<>> file_maps(const json::Value& controller);

}  // namespace bascule::op
