#include "testing/fake_api_selectors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "testing/fake_api_status.hpp"

namespace bascule::testing {

namespace {

template <class Range>
bool has(const Range& range, std::string_view value) {
  return std::ranges::find(range, value) != std::ranges::end(range);
}

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

// At commas outside parentheses.
std::vector<std::string_view> terms_of(std::string_view text) {
  std::vector<std::string_view> out;
  std::size_t start = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '(') ++depth;
    if (i < text.size() && text[i] == ')') --depth;
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    if (const auto term = trim(text.substr(start, i - start)); !term.empty()) out.push_back(term);
    start = i + 1;
  }
  return out;
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

[[noreturn]] void unparsable(std::string_view text) {
  throw ApiFailure::bad_request(fmt::format("unable to parse requirement: {}", text));
}

std::string_view check_key(std::string_view key, std::string_view term) {
  if (key.empty() || key.find_first_of(" ()!=<>,") != std::string_view::npos) unparsable(term);
  return key;
}

}  // namespace

LabelSelector::LabelSelector(std::string_view text) {
  for (const std::string_view term : terms_of(text)) terms_.push_back(parse_term(term));
}

LabelSelector::Term LabelSelector::parse_term(std::string_view text) {
  const auto make = [&](std::string_view key, Op op, std::vector<std::string> values) {
    return Term{std::string(check_key(trim(key), text)), op, std::move(values)};
  };
  if (text.front() == '!') return make(text.substr(1), Op::kAbsent, {});
  for (const auto& [word, op] : {std::pair(" notin ", Op::kNotIn), std::pair(" in ", Op::kIn)}) {
    std::size_t at = text.find(word);
    if (at == std::string_view::npos)
      at = text.find(std::string(word).substr(0, std::string_view(word).size() - 1) + "(");
    if (at == std::string_view::npos) continue;
    const auto open = text.find('(', at);
    if (open == std::string_view::npos || text.back() != ')') unparsable(text);
    std::vector<std::string> values;
    std::string_view rest = text.substr(open + 1, text.size() - open - 2);
    while (true) {
      const auto comma = rest.find(',');
      values.emplace_back(trim(rest.substr(0, comma)));
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
    return make(text.substr(0, at), op, std::move(values));
  }
  for (const auto& [word, op] : {std::pair("!=", Op::kNotIn), std::pair("==", Op::kIn), std::pair("=", Op::kIn),
                                 std::pair(">", Op::kGreater), std::pair("<", Op::kLess)}) {
    const auto at = text.find(word);
    if (at == std::string_view::npos) continue;
    const std::string_view value = trim(text.substr(at + std::string_view(word).size()));
    if ((op == Op::kGreater || op == Op::kLess) && !number(value)) unparsable(text);
    return make(text.substr(0, at), op, {std::string(value)});
  }
  return make(text, Op::kExists, {});
}

bool LabelSelector::matches(const json::Value& object) const {
  if (terms_.empty()) return true;
  const json::Object* labels = json::object_at(object, {"metadata", "labels"});
  return std::ranges::all_of(terms_, [&](const Term& term) {
    const json::Value* found = labels ? labels->if_contains(term.key) : nullptr;
    const bool present = found && found->is_string();
    const std::string_view value = present ? json::view(found->get_string()) : std::string_view();
    switch (term.op) {
      case Op::kIn:
        return present && has(term.values, value);
      case Op::kNotIn:
        return !present || !has(term.values, value);
      case Op::kExists:
        return present;
      case Op::kAbsent:
        return !present;
      case Op::kGreater:
      case Op::kLess: {
        const auto mine = number(value);
        if (!present || !mine) return false;
        return term.op == Op::kGreater ? *mine > *number(term.values[0]) : *mine < *number(term.values[0]);
      }
    }
    return false;
  });
}

namespace {

bool selectable(const kube::Resource& resource, std::string_view field) {
  static constexpr std::string_view kPod[] = {
      "spec.nodeName",    "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
      "spec.hostNetwork", "status.phase",       "status.podIP",       "status.nominatedNodeName"};
  static constexpr std::string_view kEvent[] = {"involvedObject.kind",
                                                "involvedObject.namespace",
                                                "involvedObject.name",
                                                "involvedObject.uid",
                                                "involvedObject.apiVersion",
                                                "involvedObject.resourceVersion",
                                                "reason",
                                                "source",
                                                "type",
                                                "reportingComponent",
                                                "involvedObject.fieldPath"};
  if (field == "metadata.name") return true;
  if (field == "metadata.namespace") return resource.namespaced;
  const std::string_view kind = resource.kind;
  if (kind == "Pod") return has(kPod, field);
  if (kind == "Event" && resource.group.empty()) return has(kEvent, field);
  if (kind == "Event") return field.starts_with("regarding.") || field == "reason" || field == "type";
  if (kind == "Node") return field == "spec.unschedulable";
  if (kind == "Secret") return field == "type";
  if (kind == "Namespace") return field == "status.phase";
  if (kind == "Job") return field == "status.successful";
  if (kind == "ReplicaSet") return field == "status.replicas";
  if (kind == "ResourceSlice") return field == "spec.nodeName" || field == "spec.driver";
  return false;
}

std::string text_of(const json::Value* value) {
  if (!value || value->is_null()) return {};
  if (value->is_string()) return std::string(json::view(value->get_string()));
  return json::dump(*value);
}

}  // namespace

FieldSelector::FieldSelector(std::string_view text, const kube::Resource& resource) {
  for (const std::string_view term : terms_of(text)) {
    const auto at = term.find('=');
    if (at == std::string_view::npos || at == 0) {
      throw ApiFailure::bad_request(fmt::format("invalid selector: '{}'; can't understand '{}'", text, term));
    }
    Term out;
    out.equal = term[at - 1] != '!';
    const std::string_view field = trim(term.substr(0, out.equal ? at : at - 1));
    if (!selectable(resource, field)) {
      throw ApiFailure::bad_request(fmt::format("field label not supported: {}", field));
    }
    out.value = trim(term.substr(at + (term.substr(at).starts_with("==") ? 2 : 1)));
    for (std::size_t start = 0; start <= field.size();) {
      const auto dot = std::min(field.find('.', start), field.size());
      out.path.emplace_back(field.substr(start, dot - start));
      start = dot + 1;
    }
    terms_.push_back(std::move(out));
  }
}

bool FieldSelector::matches(const json::Value& object) const {
  return std::ranges::all_of(terms_, [&](const Term& term) {
    const json::Value* at = &object;
    for (const std::string& key : term.path) at = at ? json::find(*at, {key}) : nullptr;
    std::string value = text_of(at);
    const std::string& last = term.path.back();
    if (value.empty() && (last == "unschedulable" || last == "hostNetwork")) value = "false";
    return (value == term.value) == term.equal;
  });
}

}  // namespace bascule::testing
