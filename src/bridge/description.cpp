#include "bridge/description.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>

#include "base/utf8.hpp"
#include "bridge/claim_plan.hpp"
#include "bridge/device_drivers.hpp"
#include "bridge/identity.hpp"
#include "bridge/names.hpp"
#include "bridge/peer_rules.hpp"
#include "bridge/record.hpp"

namespace bascule::bridge {

namespace {

constexpr std::size_t kMaxText = 1024;
constexpr std::uint32_t kMaxCount = std::numeric_limits<std::int32_t>::max();

// Sets what one annotation says. Empty: fine. Otherwise what was expected.
using Setter = std::string (*)(slurm::JobDescription& job, std::string_view value);

template <std::optional<std::string> slurm::JobDescription::* kField>
std::string set_text(slurm::JobDescription& job, std::string_view value) {
  if (value.size() > kMaxText) return fmt::format("at most {} bytes", kMaxText);
  if (std::ranges::any_of(value, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; })) {
    return "a text of one line without control characters";
  }
  if (!value.empty()) job.*kField = std::string(value);
  return {};
}

std::optional<std::uint32_t> parse_count(std::string_view value) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc{} || end != value.data() + value.size() || number > kMaxCount) return std::nullopt;
  return number;
}

template <std::optional<std::uint32_t> slurm::JobDescription::* kField>
std::string set_count(slurm::JobDescription& job, std::string_view value) {
  const auto number = parse_count(value);
  if (!number) return fmt::format("a whole number from 0 to {}", kMaxCount);
  job.*kField = number;
  return {};
}

std::string check_nodes(slurm::JobDescription&, std::string_view value) {
  const auto number = parse_count(value);
  return number && *number > 0 ? std::string{} : fmt::format("a whole number from 1 to {}", kMaxCount);
}

// Rounded up: a request of 200m must not become 0, which Slurm reads as its default. nullopt: none.
std::optional<std::uint32_t> whole_cpus(const Quantity& quantity) {
  const std::int64_t cpus = quantity.ceil();
  if (cpus <= 0) return std::nullopt;
  return static_cast<std::uint32_t>(std::min<std::int64_t>(cpus, kMaxCount));
}
// Rounded up, since 0 means all memory to Slurm. nullopt: none.
std::optional<std::uint64_t> whole_mib(const Quantity& quantity) {
  const std::int64_t bytes = quantity.ceil();
  if (bytes <= 0) return std::nullopt;
  return (static_cast<std::uint64_t>(bytes) + (1u << 20) - 1) >> 20;
}

std::string set_cpus(slurm::JobDescription& job, std::string_view value) {
  const auto quantity = Quantity::parse(value);
  if (!quantity || *quantity < Quantity(0)) return "a quantity of CPUs, e.g. 2 or 500m";
  job.cpus_per_task = whole_cpus(*quantity).value_or(1);  // as Slurm takes a 0
  return {};
}

std::string set_memory(slurm::JobDescription& job, std::string_view value) {
  const auto quantity = Quantity::parse(value);
  if (!quantity || *quantity < Quantity(0))
    return "a quantity of memory, e.g. 512Mi or 1Gi, or 0 for all of the node's";
  job.memory_per_node = whole_mib(*quantity).value_or(0);
  return {};
}

std::string set_exclusive(slurm::JobDescription& job, std::string_view value) {
  const auto space = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (!value.empty() && space(value.front())) value.remove_prefix(1);
  while (!value.empty() && space(value.back())) value.remove_suffix(1);
  std::string word(value);
  std::ranges::transform(word, word.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  job.exclusive = word != "false";
  return {};
}

// "gpu:v100:2", as sbatch's --gres has it, becomes "gres/gpu:v100:2"; slurmctld refuses a TRES without its kind.
std::string set_gres(slurm::JobDescription& job, std::string_view value) {
  static constexpr std::string_view kKinds[] = {"cpu", "mem", "node", "billing", "energy", "vmem", "pages"};
  if (std::string wanted = set_text<&slurm::JobDescription::tres_per_node>(job, value); !wanted.empty()) return wanted;
  std::string joined;
  while (!value.empty()) {
    const std::size_t comma = value.find(',');
    const std::string_view item = value.substr(0, comma);
    value = comma == std::string_view::npos ? std::string_view{} : value.substr(comma + 1);
    const std::string_view kind = item.substr(0, item.find_first_of(":=/"));
    if (kind.empty()) return "generic resources, e.g. gres/gpu=2 or gpu:v100:2";
    const bool whole = item.find('/') != std::string_view::npos || kind == "gres" ||
                       std::ranges::find(kKinds, kind) != std::end(kKinds);
    joined += fmt::format("{}{}{}", joined.empty() ? "" : ",", whole ? "" : "gres/", item);
  }
  if (!joined.empty()) job.tres_per_node = std::move(joined);
  return {};
}

struct Annotation {
  std::string_view suffix;
  Setter set;
};
using Job = slurm::JobDescription;
constexpr Annotation kAnnotations[] = {
    {"account", set_text<&Job::account>},
    {"constraints", set_text<&Job::constraints>},
    {"cpu-per-task", set_cpus},
    {"exclusive", set_exclusive},
    {"gres", set_gres},
    {"group-id", set_text<&Job::group_id>},
    {"job-name", set_text<&Job::name>},
    {"licenses", set_text<&Job::licenses>},
    {"max-nodes", check_nodes},
    {"mem-per-node", set_memory},
    {"min-nodes", check_nodes},
    {"partition", set_text<&Job::partition>},
    {"priority", set_count<&Job::priority>},
    {"qos", set_text<&Job::qos>},
    {"reservation", set_text<&Job::reservation>},
    {"timelimit", set_count<&Job::time_limit>},
    {"user-id", set_text<&Job::user_id>},
    {"wckey", set_text<&Job::wckey>},
};

const Annotation* find_annotation(std::string_view key) {
  if (!key.starts_with(names::kJobPrefix)) return nullptr;
  const auto found = std::ranges::find(kAnnotations, key.substr(names::kJobPrefix.size()), &Annotation::suffix);
  return found == std::end(kAnnotations) ? nullptr : found;
}

void apply(const AnnotationViews& annotations, slurm::JobDescription& job, std::vector<std::string>& faults) {
  for (const auto& [key, value] : annotations) {
    const Annotation* annotation = find_annotation(key);
    if (annotation == nullptr) continue;
    if (const std::string wanted = annotation->set(job, value); !wanted.empty()) {
      faults.push_back(fmt::format("annotation {}: {} is not {}", key, in_quotes(value), wanted));
    }
  }
}

AnnotationViews views_of(const kube::StringMap& map) {
  AnnotationViews views;
  views.reserve(map.size());
  for (const auto& [key, value] : map) views.emplace_back(key.view(), value.view());
  return views;
}

// What the largest pod wants of everything: one node must be able to take any of them.
struct Wants {
  Quantity cpu, memory;
  std::map<std::string, std::int64_t, std::less<>> gres;  // "gres/gpu", "gres/gpu:TYPE" -> count
  bool cpu_class = false, gpu_class = false;
};

void raise(Quantity& to, const Quantity& amount) {
  if (to < amount) to = amount;
}

void add_list(const kube::ResourceList& list, const DeviceDrivers& drivers, Wants& wants) {
  std::int64_t untyped = 0;
  for (const auto& [name, quantity] : list) {
    const std::string_view resource = name.view();
    const std::int64_t count = quantity.ceil();
    if (resource == "cpu") {
      raise(wants.cpu, quantity);
    } else if (resource == "memory") {
      raise(wants.memory, quantity);
    } else if (is_gpu_of_plugin(resource)) {
      // A pod may ask for up to 2^63-1 of each kind.
      if (__builtin_add_overflow(untyped, count, &untyped)) untyped = std::numeric_limits<std::int64_t>::max();
    } else if (resource.starts_with(names::kDeviceClassPrefix) && count > 0) {
      const std::string_view device_class = resource.substr(names::kDeviceClassPrefix.size());
      if (drivers.is_cpu_class(device_class)) {
        wants.cpu_class = true;
        raise(wants.cpu, quantity);
      } else {
        wants.gpu_class = true;
        std::int64_t& most = wants.gres[fmt::format("gres/gpu:{}", device_class)];
        most = std::max(most, count);
      }
    }
  }
  if (untyped > 0) {
    std::int64_t& most = wants.gres["gres/gpu"];
    most = std::max(most, untyped);
  }
}

Wants wants_of(const std::vector<PodPtr>& pods, const DeviceDrivers& drivers) {
  Wants wants;
  for (const PodPtr& pod : pods) {
    add_list(pod->requests, drivers, wants);
    add_list(pod->limits, drivers, wants);
  }
  return wants;
}

void apply_wants(const Wants& wants, const Root& root, const DeviceDrivers& drivers, slurm::JobDescription& job,
                 std::vector<std::string>& faults) {
  job.cpus_per_task = whole_cpus(wants.cpu);
  if (!job.cpus_per_task) job.cpus_per_task = whole_cpus(kube::amount(root.fallback_limits, "cpu"));
  job.memory_per_node = whole_mib(wants.memory);
  if (!job.memory_per_node) job.memory_per_node = whole_mib(kube::amount(root.fallback_limits, "memory"));
  std::string gres;
  for (const auto& [name, count] : wants.gres) {
    const std::string_view type = std::string_view(name).substr(std::min(name.size(), sizeof("gres/gpu:") - 1));
    if (!type.empty() && drivers.of_class(type) == nullptr) {
      faults.push_back(
          fmt::format("device class {} is not supported; use one of {}", in_quotes(type), drivers.classes()));
    }
    gres += fmt::format("{}{}={}", gres.empty() ? "" : ",", name, count);
  }
  if (!gres.empty()) job.tres_per_node = std::move(gres);
}

// Each sentence once, however many pods it is true of.
void add_pod_faults(const std::vector<PodPtr>& pods, bool exclusive, std::vector<std::string>& faults) {
  const auto add = [&faults](std::vector<std::string> found) {
    for (std::string& fault : found) {
      if (std::ranges::find(faults, fault) == faults.end()) faults.push_back(std::move(fault));
    }
  };
  for (const PodPtr& pod : pods) {
    add(device_faults(*pod));
    add(peer_faults(pod->peers, exclusive));
  }
}

// Members of a gang that leave their nodes to others may share them among themselves as well: what was asked for each
// node is then asked for each task.
void pack(const Root& root, slurm::JobDescription& job) {
  if (!root.gang || job.exclusive.value_or(true)) return;
  job.tasks = job.nodes->maximum;
  job.tasks_per_node.reset();
  job.nodes = slurm::NodeCount{1, *job.tasks};
  job.cpus_per_task = job.cpus_per_task.value_or(1);
  if (job.memory_per_node.value_or(0) > 0) {
    job.memory_per_cpu = (*job.memory_per_node + *job.cpus_per_task - 1) / *job.cpus_per_task;
    job.memory_per_node.reset();
  }
  job.tres_per_task = std::exchange(job.tres_per_node, std::nullopt);
}

std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> out;
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    out.push_back(list.substr(0, comma));
    list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma + 1);
  }
  return out;
}

// One item of a TRES list, "gres/gpu=2". Where there is no such count only the same text is no more.
bool within(std::string_view wanted, std::string_view given) {
  if (wanted == given) return true;
  const std::size_t equals = wanted.find('=');
  if (equals == std::string_view::npos || wanted.substr(0, equals) != given.substr(0, given.find('='))) return false;
  const auto much = parse_count(wanted.substr(equals + 1));
  const auto has = given.size() > equals ? parse_count(given.substr(equals + 1)) : std::nullopt;
  return much && has && *much <= *has;
}

bool within(const TaskSize& wanted, const TaskSize& given) {
  if (wanted.cpus > given.cpus) return false;
  const bool all = given.memory == std::uint64_t{0};
  if (wanted.memory && !all && (*wanted.memory == 0 || *wanted.memory > given.memory.value_or(0))) return false;
  const auto there = split(given.gres);
  return std::ranges::all_of(split(wanted.gres), [&there](std::string_view item) {
    return std::ranges::any_of(there, [item](std::string_view one) { return within(item, one); });
  });
}

// In the order of the record: new ones come last.
template <class Description, class Do>
void each_asked(Description& job, Do act) {
  act(job.partition);
  act(job.name);
  act(job.account);
  act(job.qos);
  act(job.reservation);
  act(job.constraints);
  act(job.licenses);
  act(job.wckey);
  act(job.mcs_label);
  act(job.user_id);
  act(job.group_id);
  act(job.comment);
  act(job.time_limit);
  act(job.priority);
  act(job.exclusive);
}

// Short, since every job carries them.
template <class T>
std::string mark_of(const std::optional<T>& field) {
  return field ? fingerprint(fmt::format("{}", *field)).substr(0, 8) : std::string();
}

// Takes it off.
std::string_view next_mark(std::string_view& marks) {
  const std::size_t comma = std::min(marks.find(','), marks.size());
  const std::string_view mark = marks.substr(0, comma);
  marks.remove_prefix(std::min(comma + 1, marks.size()));
  return mark;
}

template <class T>
bool same(const std::optional<T>& field, std::string_view mark) {
  return field && mark_of(field) == mark;
}

}  // namespace

std::optional<TaskSize> task_size(const slurm::JobDescription& job) {
  if (job.exclusive.value_or(true)) return std::nullopt;
  TaskSize size{job.cpus_per_task.value_or(1), job.memory_per_node, job.tres_per_node.value_or("")};
  if (job.memory_per_cpu) size.memory = *job.memory_per_cpu * size.cpus;
  if (job.tres_per_task) size.gres = *job.tres_per_task;
  return size;
}

bool has_room_for(const JobRecord& record, const Config& config, const Root& root, const PodPtr& pod) {
  // A record of before sizes were written tells only of some jobs that they share their nodes.
  if (!record.task) return record.cpus == 0;
  Root alone = root;
  alone.gang.reset();
  const auto job = describe_job(config, alone, {pod});
  const auto wanted = job ? task_size(*job) : std::nullopt;
  return wanted && within(*wanted, *record.task);
}

std::expected<slurm::JobDescription, DescriptionFaults> describe_job(const Config& config, const Root& root,
                                                                     const std::vector<PodPtr>& pods) {
  slurm::JobDescription job;
  DescriptionFaults result;
  // Slurm's own default would be the program that submits; people look for their workload's name in squeue.
  job.name = !root.job_name.empty()   ? root.job_name
             : !root.key.name.empty() ? root.key.name
                                      : pods.front()->meta.key.name;
  if (!config.partition.empty()) job.partition = config.partition;
  if (!config.mcs_label.empty()) job.mcs_label = config.mcs_label;
  job.exclusive = true;
  job.nodes = static_cast<std::uint32_t>(pods.size());
  job.tasks_per_node = 1;
  // 0 would mean no limit to Slurm and "at once" to Kubernetes, which then ends the Job itself.
  if (const auto seconds = root.active_deadline_seconds; seconds && *seconds > 0) {
    job.time_limit = static_cast<std::uint32_t>(std::min<std::int64_t>((*seconds - 1) / 60 + 1, kMaxCount));
  }
  const Wants wants = wants_of(pods, config.device_drivers);
  apply_wants(wants, root, config.device_drivers, job, result.faults);
  const AnnotationViews annotations = views_of(root.annotations);
  apply(annotations, job, result.faults);
  add_pod_faults(pods, *job.exclusive, result.faults);
  for (std::string& fault :
       apply_identity(config.identities, pods.front()->meta.key.ns, annotations, job, config.partition)) {
    result.faults.push_back(std::move(fault));
  }
  for (std::string& fault : annotation_conflicts(annotations, wants.cpu_class, wants.gpu_class)) {
    result.faults.push_back(std::move(fault));
  }
  if (!result.faults.empty()) return std::unexpected(std::move(result));
  pack(root, job);
  return job;
}

std::string asked_of(const slurm::JobDescription& job) {
  std::string out;
  each_asked(job, [&out](const auto& field) { out += (out.empty() ? "" : ",") + mark_of(field); });
  return out;
}

void leave_unchanged(slurm::JobDescription& job, std::string_view before) {
  each_asked(job, [&before](auto& field) {
    if (same(field, next_mark(before))) field.reset();
  });
}

bool keeps_partition(const slurm::JobDescription& job, std::string_view before) {
  return same(job.partition, next_mark(before));
}

std::vector<std::string> annotation_faults(const AnnotationViews& annotations) {
  slurm::JobDescription scratch;
  std::vector<std::string> faults;
  apply(annotations, scratch, faults);
  return faults;
}

bool asks_exclusive(const AnnotationViews& annotations) {
  slurm::JobDescription job;
  std::vector<std::string> unused;
  apply(annotations, job, unused);
  return job.exclusive.value_or(true);
}

std::vector<std::string> annotation_conflicts(const AnnotationViews& annotations, bool cpu_class, bool gpu_class) {
  std::vector<std::string> faults;
  const auto check = [&](std::string_view suffix, bool clash, std::string_view what) {
    const auto found = std::ranges::find_if(annotations, [&](const auto& annotation) {
      return annotation.first.starts_with(names::kJobPrefix) &&
             annotation.first.substr(names::kJobPrefix.size()) == suffix;
    });
    if (!clash || found == annotations.end()) return;
    faults.push_back(fmt::format(
        "annotation {} contradicts the containers, which ask for {} by device class; remove one", found->first, what));
  };
  check("cpu-per-task", cpu_class, "CPUs");
  check("gres", gpu_class, "GPUs");
  return faults;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kMax = 100;
  if (text.size() <= kMax) return fmt::format("\"{}\"", text);
  return fmt::format("\"{}...\"", cut_utf8(text, kMax));
}

std::vector<std::string> annotation_warnings(const AnnotationViews& annotations, std::string_view gpu) {
  std::vector<std::string> warnings;
  for (const auto& [key, value] : annotations) {
    if (key.starts_with(names::kJobPrefix)) {
      const std::string_view suffix = key.substr(names::kJobPrefix.size());
      if (suffix == "min-nodes" || suffix == "max-nodes") {
        warnings.push_back(fmt::format("{} has no effect: a pod gets one node", key));
      } else if (find_annotation(key) == nullptr) {
        std::vector<std::string_view> known;
        for (const Annotation& annotation : kAnnotations) known.push_back(annotation.suffix);
        const auto near = nearest_word(suffix, known);
        warnings.push_back(
            near ? fmt::format("{} is not known and has no effect; did you mean {}{}?", key, names::kJobPrefix, *near)
                 : fmt::format("{} is not known and has no effect", key));
      }
    } else if (key.starts_with(names::kRetiredJobPrefix)) {
      const std::string_view suffix = key.substr(names::kRetiredJobPrefix.size());
      if (std::ranges::find(kAnnotations, suffix, &Annotation::suffix) == std::end(kAnnotations)) continue;
      warnings.push_back(
          fmt::format("{} is of an old release and has no effect; use {}{}", key, names::kJobPrefix, suffix));
    }
  }
  if (!gpu.empty() && !asks_exclusive(annotations)) {
    warnings.push_back(fmt::format(
        "{}exclusive \"false\" and {}: the device plugin may give other GPUs of the node than Slurm did, so "
        "that one has two users; ask for {}CLASS, or leave it exclusive",
        names::kJobPrefix, gpu, names::kDeviceClassPrefix));
  }
  return warnings;
}

bool is_gpu_of_plugin(std::string_view resource) {
  return std::ranges::find(names::kGpuResources, resource) != std::end(names::kGpuResources);
}

std::vector<std::string> root_warnings(const Root& root, const std::vector<PodPtr>& pods) {
  std::string_view gpu;
  for (const PodPtr& pod : pods) {
    for (const auto& [name, quantity] : pod->limits) {
      if (is_gpu_of_plugin(name.view()) && quantity.ceil() > 0) gpu = name.view();
    }
  }
  return annotation_warnings(views_of(root.annotations), gpu);
}

}  // namespace bascule::bridge
