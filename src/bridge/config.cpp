#include "bridge/config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <ranges>
#include <span>
#include <utility>

#include "base/file.hpp"
#include "json/yaml.hpp"
#include "net/client.hpp"

namespace bascule::bridge {

namespace {

constexpr std::size_t kMaxFile = std::size_t{1} << 20;
constexpr std::size_t kMaxNamespaces = 10'000;

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
std::string lowered(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), lower);
  return result;
}
bool is_alnum(char c) {
  return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z');
}

// Levenshtein distance, for "did you mean".
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t corner = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t swapped = corner + (a[i] == b[j] ? 0 : 1);
      corner = row[j + 1];
      row[j + 1] = std::min({swapped, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string kind_of(const json::Value& value) {
  switch (value.kind()) {
    case boost::json::kind::null:
      return "nothing";
    case boost::json::kind::bool_:
      return value.get_bool() ? "the boolean true" : "the boolean false";
    case boost::json::kind::string:
      return "a text";
    case boost::json::kind::array:
      return "a list";
    case boost::json::kind::object:
      return "a mapping";
    default:
      return "the number " + json::dump(value);
  }
}

// RFC 1123, with dots for subdomains.
bool is_dns_name(std::string_view text, std::size_t limit, bool dots) {
  if (text.empty() || text.size() > limit) return false;
  const auto inside = [dots](char c) { return (is_alnum(c) && c == lower(c)) || c == '-' || (dots && c == '.'); };
  return std::ranges::all_of(text, inside) && is_alnum(text.front()) && is_alnum(text.back());
}
bool is_label_value(std::string_view text) {
  if (text.empty()) return true;
  if (text.size() > 63 || !is_alnum(text.front()) || !is_alnum(text.back())) return false;
  return std::ranges::all_of(text, [](char c) { return is_alnum(c) || c == '-' || c == '_' || c == '.'; });
}
bool is_label_key(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash != std::string_view::npos) {
    if (!is_dns_name(text.substr(0, slash), 253, true)) return false;
    text.remove_prefix(slash + 1);
  }
  return !text.empty() && is_label_value(text);
}

class Reader final {
 public:
  explicit Reader(std::string_view file) : file_(file) {}

  Config read(const json::Value& document, bool need_slurm) {
    Config config;
    if (!document.is_null()) {
      if (const json::Object* object = document.if_object()) {
        read_keys(*object, config);
      } else {
        fault("", "expected a mapping of keys, found " + kind_of(document));
      }
    }
    if (need_slurm && config.slurm_rest_api.empty() && !url_faulty_) {
      fault("slurmRestApi", "is required: the URL of slurmrestd, e.g. http://slurm-restapi.slurm:6820");
    }
    if (!faults_.empty()) throw ConfigFaults{std::move(faults_)};
    return config;
  }

  void fault(std::string_view key, std::string_view what) {
    faults_.push_back(key.empty() ? fmt::format("{}: {}", file_, what) : fmt::format("{}: {}: {}", file_, key, what));
  }
  std::vector<std::string>& faults() { return faults_; }

 private:
  static constexpr std::string_view kKeys[] = {
      "schedulerName", "slurmRestApi", "managedNamespaces", "managedNamespaceSelector", "mcsLabel", "partition",
      "trustedUsers",  "identities",   "deviceDrivers"};

  void unknown(std::string_view path, std::string_view key, std::span<const std::string_view> known) {
    if (const auto near = nearest_word(key, known)) {
      return fault(std::string(path) + std::string(key),
                   fmt::format("is not a key of this file; did you mean {}?", *near));
    }
    std::string all;
    for (const std::string_view name : known) all += (all.empty() ? "" : ", ") + std::string(name);
    fault(std::string(path) + std::string(key), "is not a key here; known are " + all);
  }

  // The canonical spelling, or empty (and a fault) when unknown or repeated.
  std::string_view canonical(std::string_view path, std::string_view key, std::span<const std::string_view> known,
                             std::vector<std::string_view>& seen) {
    const auto found =
        std::ranges::find_if(known, [&](std::string_view candidate) { return lowered(candidate) == lowered(key); });
    if (found == known.end()) {
      unknown(path, key, known);
      return {};
    }
    if (std::ranges::find(seen, *found) != seen.end()) {
      fault(std::string(path) + std::string(key), "is given twice");
      return {};
    }
    seen.push_back(*found);
    return *found;
  }

  void read_keys(const json::Object& object, Config& config) {
    std::vector<std::string_view> seen;
    for (const auto& [raw, value] : object) {
      const std::string_view key = canonical("", {raw.data(), raw.size()}, kKeys, seen);
      if (key.empty() || value.is_null()) continue;
      if (key == "schedulerName") read_scheduler_name(value, config);
      if (key == "slurmRestApi") read_url(value, config);
      if (key == "managedNamespaces") read_namespaces(value, config);
      if (key == "managedNamespaceSelector") config.managed_namespace_selector = read_selector(value);
      if (key == "mcsLabel") read_slurm_word(key, value, config.mcs_label);
      if (key == "partition") read_partition(value, config);
      if (key == "trustedUsers") config.trusted_users = read_texts(key, value);
      if (key == "identities") read_identities(value, config);
      if (key == "deviceDrivers") read_device_drivers(value, config.device_drivers);
    }
  }

  std::optional<std::string> read_text(std::string_view key, const json::Value& value) {
    if (const auto* text = value.if_string()) return std::string(json::view(*text));
    const bool scalar = value.is_number() || value.is_bool();
    fault(key, fmt::format("expected a text, found {}{}", kind_of(value), scalar ? "; put it in quotes" : ""));
    return std::nullopt;
  }

  std::vector<std::string> read_texts(std::string_view key, const json::Value& value) {
    std::vector<std::string> texts;
    const json::Array* list = value.if_array();
    if (list == nullptr) {
      fault(key, "expected a list of texts, found " + kind_of(value));
      return texts;
    }
    for (std::size_t i = 0; i < list->size(); ++i) {
      const std::string place = fmt::format("{}[{}]", key, i);
      auto text = read_text(place, (*list)[i]);
      if (text && text->empty()) fault(place, "is empty");
      if (text) texts.push_back(std::move(*text));
    }
    return texts;
  }

  void read_scheduler_name(const json::Value& value, Config& config) {
    const auto text = read_text("schedulerName", value);
    if (!text || text->empty()) return;
    // It is also the value of a taint, so the limits of label values hold too.
    if (!is_dns_name(*text, 63, true)) {
      fault("schedulerName", fmt::format("\"{}\" cannot be a scheduler's name: at most 63 of a-z, 0-9, '-' and '.', "
                                         "a letter or digit first and last",
                                         *text));
    }
    config.scheduler_name = *text;
  }

  void read_url(const json::Value& value, Config& config) {
    const auto text = read_text("slurmRestApi", value);
    if (!text) {
      url_faulty_ = true;
      return;
    }
    if (text->empty()) return;
    config.slurm_rest_api = *text;
    try {
      static_cast<void>(net::parse_url(*text));
    } catch (const std::invalid_argument& error) {
      url_faulty_ = true;
      fault("slurmRestApi", fmt::format("\"{}\" is not a URL for slurmrestd (http://HOST:PORT, https://HOST:PORT or "
                                        "unix:/PATH): {}",
                                        *text, error.what()));
    }
  }

  void read_namespaces(const json::Value& value, Config& config) {
    config.managed_namespaces = read_texts("managedNamespaces", value);
    if (config.managed_namespaces.size() > kMaxNamespaces) {
      fault("managedNamespaces", fmt::format("has more than {} entries; use managedNamespaceSelector", kMaxNamespaces));
      return;
    }
    for (std::size_t i = 0; i < config.managed_namespaces.size(); ++i) {
      const std::string& ns = config.managed_namespaces[i];
      if (!ns.empty() && !is_dns_name(ns, 63, false)) {
        fault(fmt::format("managedNamespaces[{}]", i),
              fmt::format("\"{}\" cannot be a namespace: at most 63 of a-z, 0-9 and '-', a letter or digit first and "
                          "last; patterns belong into managedNamespaceSelector",
                          ns));
      }
    }
  }

  void read_identities(const json::Value& value, Config& config) {
    const json::Array* list = value.if_array();
    if (list == nullptr) return fault("identities", "expected a list of rules, found " + kind_of(value));
    if (list->size() > kMaxNamespaces) {
      return fault("identities", fmt::format("has more than {} rules", kMaxNamespaces));
    }
    for (std::size_t i = 0; i < list->size(); ++i) {
      const std::string place = fmt::format("identities[{}]", i);
      const json::Object* item = (*list)[i].if_object();
      if (item == nullptr) {
        fault(place, "expected a mapping with namespaces, found " + kind_of((*list)[i]));
      } else {
        config.identities.push_back(read_identity(place, *item));
      }
    }
  }

  IdentityRule read_identity(const std::string& place, const json::Object& item) {
    static constexpr std::string_view kKnown[] = {"namespaces", "users",  "groups",       "accounts", "qos",
                                                  "partitions", "wckeys", "reservations", "licenses", "maxPriority"};
    static constexpr std::vector<std::string> IdentityRule::* kLists[] = {
        &IdentityRule::namespaces, &IdentityRule::users,        &IdentityRule::groups,
        &IdentityRule::accounts,   &IdentityRule::qos,          &IdentityRule::partitions,
        &IdentityRule::wckeys,     &IdentityRule::reservations, &IdentityRule::licenses};
    IdentityRule rule;
    std::vector<std::string_view> seen;
    for (const auto& [raw, part] : item) {
      const std::string_view key = canonical(place + ".", {raw.data(), raw.size()}, kKnown, seen);
      if (key.empty() || part.is_null()) continue;
      if (key == "maxPriority") {
        rule.max_priority = read_priority(place + ".maxPriority", part);
        continue;
      }
      rule.*kLists[std::ranges::find(kKnown, key) - std::begin(kKnown)] =
          read_texts(place + "." + std::string(key), part);
    }
    if (rule.namespaces.empty()) fault(place + ".namespaces", "is required: the namespaces the rule is for");
    for (std::size_t i = 0; i < rule.licenses.size(); ++i) {
      const std::string& name = rule.licenses[i];
      if (name.find_first_of(":=,;|") == std::string::npos) continue;
      fault(
          fmt::format("{}.licenses[{}]", place, i),
          fmt::format("\"{}\" is not the name of one license (NAME or NAME@SERVER); numbers do not belong here", name));
    }
    return rule;
  }

  std::optional<std::uint32_t> read_priority(const std::string& place, const json::Value& value) {
    constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();  // of the annotation
    const std::int64_t number = value.is_int64() ? value.get_int64() : -1;
    if (number >= 0 && number <= kMost) return static_cast<std::uint32_t>(number);
    fault(place, fmt::format("expected a whole number from 0 to {}, found {}", kMost, kind_of(value)));
    return std::nullopt;
  }

  void read_device_drivers(const json::Value& value, DeviceDrivers& into) {
    const json::Array* list = value.if_array();
    if (list == nullptr) return fault("deviceDrivers", "expected a list of drivers, found " + kind_of(value));
    const std::size_t before = faults_.size();
    std::vector<DeviceDriver> drivers;
    for (std::size_t i = 0; i < list->size(); ++i) {
      const std::string place = fmt::format("deviceDrivers[{}]", i);
      const json::Object* item = (*list)[i].if_object();
      if (item == nullptr) fault(place, "expected a mapping with driver, found " + kind_of((*list)[i]));
      drivers.push_back(item == nullptr ? DeviceDriver{} : read_device_driver(place, *item));
    }
    if (faults_.size() > before) return;  // what is missing would be told as another fault
    for (const DeviceDriverFault& one : faults_of(drivers)) fault("deviceDrivers" + one.key, one.what);
    for (DeviceDriver& one : drivers) into.put(std::move(one));
  }

  DeviceDriver read_device_driver(const std::string& place, const json::Object& item) {
    static constexpr std::string_view kKnown[] = {
        "driver", "kind", "numberAttribute", "namePrefix", "coreAttribute", "socketAttribute", "coreTypeAttribute",
        "classes"};
    static constexpr std::string DeviceDriver::* kTexts[] = {&DeviceDriver::driver,
                                                             nullptr,
                                                             &DeviceDriver::number_attribute,
                                                             &DeviceDriver::name_prefix,
                                                             &DeviceDriver::core_attribute,
                                                             &DeviceDriver::socket_attribute,
                                                             &DeviceDriver::core_type_attribute};
    DeviceDriver driver;
    std::vector<std::string_view> seen;
    for (const auto& [raw, part] : item) {
      const std::string_view key = canonical(place + ".", {raw.data(), raw.size()}, kKnown, seen);
      if (key.empty() || part.is_null()) continue;
      const std::string at = fmt::format("{}.{}", place, key);
      if (key == "classes") {
        driver.classes = read_texts(at, part);
      } else if (key == "kind") {
        const std::string kind = read_text(at, part).value_or("gpu");
        if (kind == "cpu") driver.kind = DeviceKind::kCpu;
        if (kind != "cpu" && kind != "gpu") fault(at, fmt::format("\"{}\" is neither gpu nor cpu", kind));
      } else {
        driver.*kTexts[std::ranges::find(kKnown, key) - std::begin(kKnown)] = read_text(at, part).value_or("");
      }
    }
    const auto cores = [](std::string_view key) { return key.starts_with("core") || key.starts_with("socket"); };
    if (driver.kind != DeviceKind::kCpu && std::ranges::any_of(seen, cores)) {
      fault(place, "has attributes of cores, which are for kind cpu");
    }
    if (driver.classes.empty() && !driver.driver.empty()) driver.classes = {driver.driver};
    return driver;
  }

  // A job may go to any of several partitions.
  void read_partition(const json::Value& value, Config& config) {
    const auto text = read_text("partition", value);
    if (!text || text->empty()) return;
    config.partition = *text;
    for (const auto part : std::views::split(*text, ',')) {
      const std::string_view name(part.begin(), part.end());
      const auto bad = [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == '"' || c == '\x7f'; };
      if (!name.empty() && std::ranges::none_of(name, bad)) continue;
      return fault("partition",
                   fmt::format("\"{}\" is neither a partition nor a list of some (a,b) without white space", *text));
    }
  }

  // The MCS label travels to Slurm as it is; white space or a comma there is always a slip.
  void read_slurm_word(std::string_view key, const json::Value& value, std::string& into) {
    const auto text = read_text(key, value);
    if (!text) return;
    const auto bad = [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == ',' || c == '"' || c == '\x7f'; };
    if (std::ranges::any_of(*text, bad)) {
      fault(key, fmt::format("\"{}\" has white space, a comma, a quote or a control character in it", *text));
    }
    into = *text;
  }

  LabelSelector read_selector(const json::Value& value) {
    static constexpr std::string_view kPath = "managedNamespaceSelector";
    static constexpr std::string_view kKnown[] = {"matchLabels", "matchExpressions"};
    LabelSelector selector;
    const json::Object* object = value.if_object();
    if (object == nullptr) {
      fault(kPath, "expected a mapping with matchLabels or matchExpressions, found " + kind_of(value));
      return selector;
    }
    std::vector<std::string_view> seen;
    for (const auto& [raw, part] : *object) {
      const std::string_view key = canonical("managedNamespaceSelector.", {raw.data(), raw.size()}, kKnown, seen);
      if (part.is_null()) continue;
      if (key == "matchLabels") read_match_labels(part, selector);
      if (key == "matchExpressions") read_match_expressions(part, selector);
    }
    return selector;
  }

  void read_match_labels(const json::Value& value, LabelSelector& selector) {
    static constexpr std::string_view kPath = "managedNamespaceSelector.matchLabels";
    const json::Object* object = value.if_object();
    if (object == nullptr) return fault(kPath, "expected a mapping of labels, found " + kind_of(value));
    for (const auto& [raw, part] : *object) {
      const std::string key(raw.data(), raw.size());
      check_key(kPath, key);
      const auto text = read_text(fmt::format("{}.{}", kPath, key), part);
      if (!text) continue;
      check_value(fmt::format("{}.{}", kPath, key), *text);
      selector.requirements.push_back({key, "In", {*text}});
    }
  }

  void read_match_expressions(const json::Value& value, LabelSelector& selector) {
    static constexpr std::string_view kPath = "managedNamespaceSelector.matchExpressions";
    const json::Array* list = value.if_array();
    if (list == nullptr) return fault(kPath, "expected a list, found " + kind_of(value));
    for (std::size_t i = 0; i < list->size(); ++i) {
      const std::string place = fmt::format("{}[{}]", kPath, i);
      if (const json::Object* item = (*list)[i].if_object()) {
        read_expression(place, *item, selector);
      } else {
        fault(place, "expected a mapping with key, operator and values, found " + kind_of((*list)[i]));
      }
    }
  }

  void read_expression(const std::string& place, const json::Object& item, LabelSelector& selector) {
    static constexpr std::string_view kKnown[] = {"key", "operator", "values"};
    static constexpr std::string_view kOperators[] = {"In", "NotIn", "Exists", "DoesNotExist"};
    LabelRequirement requirement;
    std::vector<std::string_view> seen;
    for (const auto& [raw, part] : item) {
      const std::string_view key = canonical(place + ".", {raw.data(), raw.size()}, kKnown, seen);
      if (part.is_null()) continue;
      if (key == "key") requirement.key = read_text(place + ".key", part).value_or("");
      if (key == "operator") requirement.op = read_text(place + ".operator", part).value_or("");
      if (key == "values") {
        // An empty value is a legal label value here.
        if (const json::Array* values = part.if_array()) {
          for (const json::Value& one : *values) {
            requirement.values.push_back(read_text(place + ".values", one).value_or(""));
            check_value(place + ".values", requirement.values.back());
          }
        } else {
          fault(place + ".values", "expected a list of texts, found " + kind_of(part));
        }
      }
    }
    if (requirement.key.empty()) {
      fault(place + ".key", "is required: a label's name");
    } else {
      check_key(place + ".key", requirement.key);
    }
    if (std::ranges::find(kOperators, requirement.op) == std::end(kOperators)) {
      fault(place + ".operator", fmt::format("\"{}\" is none of In, NotIn, Exists, DoesNotExist", requirement.op));
    } else if (requirement.op.ends_with("In") && requirement.values.empty()) {
      fault(place + ".values", fmt::format("is required with operator {}", requirement.op));
    } else if (!requirement.op.ends_with("In") && !requirement.values.empty()) {
      fault(place + ".values", fmt::format("must be absent with operator {}", requirement.op));
    }
    selector.requirements.push_back(std::move(requirement));
  }

  void check_key(std::string_view place, std::string_view key) {
    if (!is_label_key(key)) fault(place, fmt::format("\"{}\" cannot be a label's name", key));
  }
  void check_value(std::string_view place, std::string_view value) {
    if (!is_label_value(value)) fault(place, fmt::format("\"{}\" cannot be a label's value", value));
  }

  std::string_view file_;
  std::vector<std::string> faults_;
  bool url_faulty_ = false;
};

}  // namespace

std::optional<std::string_view> nearest_word(std::string_view word, std::span<const std::string_view> known) {
  if (word.size() > 100) return std::nullopt;
  std::optional<std::string_view> best;
  std::size_t least = 0;
  for (const std::string_view candidate : known) {
    const std::size_t steps = distance(lowered(word), lowered(candidate));
    if (steps > std::max<std::size_t>(2, candidate.size() / 3) || (best && steps >= least)) continue;
    best = candidate;
    least = steps;
  }
  return best;
}

std::vector<std::string> default_trusted_users(std::string_view ns, std::string_view scheduler_name) {
  return {fmt::format("system:serviceaccount:{}:slurm-bridge-*", ns),
          fmt::format("system:serviceaccount:{}:{}", ns, scheduler_name)};
}

Config parse_config(std::string_view yaml, std::string_view name, bool need_slurm) {
  json::Value document;
  try {
    document = json::parse_yaml(yaml, {.bytes = kMaxFile, .depth = 16, .nodes = 100'000});
  } catch (const json::ParseError& error) {
    throw ConfigFaults{{fmt::format("{}: {}", name, error.what())}};
  }
  return Reader(name).read(document, need_slurm);
}

Config load_config(const std::string& path, bool need_slurm) {
  const auto text = read_file(path, kMaxFile);
  if (!text && text.error().too_large) throw ConfigFaults{{fmt::format("{}: {}", path, text.error().why)}};
  if (!text) {
    throw ConfigFaults{
        {fmt::format("{}: cannot be read: {}; give the configuration file with --config", path, text.error().why)}};
  }
  return parse_config(*text, path, need_slurm);
}

}  // namespace bascule::bridge
