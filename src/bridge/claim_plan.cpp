#include "bridge/claim_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <ranges>
#include <set>

#include "bridge/names.hpp"
#include "bridge/record.hpp"
#include "slurm/hostlist.hpp"

namespace bascule::bridge {

namespace {

constexpr std::size_t kMaxName = 253;
constexpr std::size_t kMaxIndices = 1'024;
constexpr std::size_t kMostTold = 8;                // devices, in a sentence
constexpr std::string_view kGpuTres = "gres/gpu:";  // and TYPE=COUNT

std::string_view class_of_resource(std::string_view resource) {
  return resource.substr(std::min(resource.size(), names::kDeviceClassPrefix.size()));
}

// "0,2-3" in order; nullopt: unreadable.
std::optional<std::vector<std::size_t>> parse_indices(std::string_view text) {
  const auto words = slurm::expand_hostlist(fmt::format("[{}]", text), {.names = kMaxIndices, .bytes = 4'096});
  if (!words) return std::nullopt;
  std::vector<std::size_t> indices;
  for (const std::string& word : *words) {
    std::size_t index = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), index);
    if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
    indices.push_back(index);
  }
  return indices;
}

// Cores of a bitmap "0x0F", bit 0 first; nullopt: not hexadecimal.
std::optional<std::vector<std::size_t>> parse_bitmap(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0X")) text.remove_prefix(2);
  std::vector<std::size_t> bits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char digit = text[text.size() - 1 - i];
    unsigned value = 0;
    const auto [end, error] = std::from_chars(&digit, &digit + 1, value, 16);
    if (error != std::errc{}) return std::nullopt;
    for (std::size_t bit = 0; bit < 4; ++bit) {
      if ((value >> bit & 1u) != 0) bits.push_back(i * 4 + bit);
    }
  }
  return bits;
}

std::string cut(std::string_view text, std::size_t size) {
  std::string out(text.substr(0, size));
  while (!out.empty() && (out.back() == '-' || out.back() == '.')) out.pop_back();
  return out;
}

class ClaimPlanner final {
 public:
  ClaimPlanner(const kube::Pod& pod, const Placement& at, const JobLayout& layout, const DeviceLedger& ledger,
               const std::set<DeviceId>& taken)
      : pod_(pod), at_(at), layout_(layout), ledger_(ledger), devices_(ledger.on(at.kube_node)), taken_(taken) {
    if (const ClaimPtr own = ledger.claim_of(pod)) mine_.insert(own->devices.begin(), own->devices.end());
  }

  std::expected<WantedClaim, ClaimProblem> run() {
    passing_ = !ledger_.unknown().empty() || !devices_.unknown.empty();
    if (!ledger_.unknown().empty()) return no(ledger_.unknown());
    if (!devices_.unknown.empty()) return no(devices_.unknown);
    const auto found = std::ranges::find(layout_.nodes, at_.slurm_node, &slurm::NodeAllocation::node);
    if (found == layout_.nodes.end()) {
      return no(fmt::format("Slurm names no resources of job {} there", at_.job.str()));
    }
    held_ = &*found;
    claim_.key = claim_key(pod_);
    claim_.pod = pod_.meta.key;
    claim_.pod_uid = pod_.meta.uid;
    claim_.job = at_.job;
    claim_.node = at_.kube_node;
    std::map<std::string, std::vector<const kube::DeviceRequest*>, std::less<>> by_class;
    for (const kube::DeviceRequest& one : pod_.device_requests) {
      by_class[std::string(class_of_resource(one.resource.view()))].push_back(&one);
    }
    for (const auto& [name, wants] : by_class) {
      if (std::string why = take_class(name, wants); !why.empty()) return no(why);
    }
    return std::move(claim_);
  }

 private:
  std::unexpected<ClaimProblem> no(std::string_view why) const {
    return std::unexpected(ClaimProblem{fmt::format("has no devices for the pod: {}", why), passing_});
  }

  std::string take_class(const std::string& name, const std::vector<const kube::DeviceRequest*>& wants) {
    const DeviceDriver* driver = ledger_.drivers().of_class(name);
    if (driver == nullptr) return fmt::format("device class {} is not supported", name);
    if (const auto problem = devices_.problems.find(name); problem != devices_.problems.end()) {
      passing_ = devices_.classless.contains(name);  // made anew with its driver
      return problem->second;
    }
    auto allocated = driver->kind == DeviceKind::kCpu ? cpus(name) : gpus(name);
    if (!allocated) return allocated.error();
    std::int64_t total = 0;
    for (const kube::DeviceRequest* want : wants) total += want->count;
    std::string unfree;  // why some cannot be had; those of the pods beside are among them
    std::size_t told = 0;
    std::vector<NumberedDevice> usable;  // what the pod's claim has already comes first: it stays its own
    std::vector<NumberedDevice> others;
    for (const NumberedDevice& device : *allocated) {
      const std::string why = why_not(device);
      if (why.empty()) {
        (mine_.contains(device.id) ? usable : others).push_back(device);
      } else if (told++ < kMostTold) {
        unfree += fmt::format("; {} {}", device.id.str(), why);
      }
    }
    std::ranges::move(others, std::back_inserter(usable));
    if (static_cast<std::int64_t>(usable.size()) < total) {
      return fmt::format("it asks for {} of class {}, and Slurm job {} has {} there that are free{}", total, name,
                         at_.job.str(), usable.size(), unfree);
    }
    // By number, so that what is cut below depends on nothing but which these are.
    std::ranges::sort(usable.begin(), usable.begin() + static_cast<std::ptrdiff_t>(total), {}, &NumberedDevice::number);
    std::size_t next = 0;
    for (std::size_t i = 0; i < wants.size(); ++i) {
      const auto count = static_cast<std::size_t>(wants[i]->count);
      std::vector<NumberedDevice> part(usable.begin() + static_cast<std::ptrdiff_t>(next),
                                       usable.begin() + static_cast<std::ptrdiff_t>(next + count));
      next += count;
      add_request(*driver, name, *wants[i], i, std::move(part));
    }
    return {};
  }

  // Empty: the pod may have it.
  std::string why_not(const NumberedDevice& device) const {
    if (!device.taint.empty()) return "has the taint " + device.taint;
    const std::string held = held_by(device.id);
    if (!held.empty()) return "is held by " + held;
    for (const DeviceId& other : device.overlaps) {
      if (const std::string its = held_by(other); !its.empty()) {
        return fmt::format("is a part of the same hardware as {}, which is held by {}", other.name, its);
      }
    }
    return {};
  }

  std::string held_by(const DeviceId& device) const {
    return taken_.contains(device) ? "a pod beside it" : ledger_.holder(device, pod_);
  }

  void add_request(const DeviceDriver& driver, const std::string& device_class, const kube::DeviceRequest& want,
                   std::size_t position, std::vector<NumberedDevice> part) {
    std::string name = driver.kind == DeviceKind::kCpu ? "cpu" : "gpu";
    // Two classes of GPUs in one pod, or two containers with one class.
    const auto used = [&](const std::string& text) {
      return std::ranges::find(claim_.requests, text, &WantedClaim::Request::name) != claim_.requests.end();
    };
    for (std::size_t i = std::max<std::size_t>(position, 1); used(name); ++i) {
      name = fmt::format("{}-{}", driver.kind == DeviceKind::kCpu ? "cpu" : "gpu", i);
    }
    std::vector<std::int64_t> numbers;
    WantedClaim::Request request{name, device_class, {}, {}};
    for (NumberedDevice& device : part) {
      numbers.push_back(device.number);
      request.devices.push_back(std::move(device.id));
    }
    request.selector = selecting(driver, numbers);
    claim_.requests.push_back(std::move(request));
    claim_.mappings.push_back({want.container.str(), name, want.resource.str()});
  }

  using Allocated = std::expected<std::vector<NumberedDevice>, std::string>;

  Allocated gpus(const std::string& name) {
    const auto known = devices_.gpus.find(name);
    std::set<std::size_t> indices;
    std::uint64_t count = 0;
    for (const slurm::NodeAllocation::Gres& gres : held_->gres) {
      if (gres.name != "gpu" || gres.type != name || gres.count == 0) continue;
      count += gres.count;
      const auto read = gres.index.empty() ? std::nullopt : parse_indices(gres.index);
      if (!read) {
        return std::unexpected(fmt::format("Slurm gave {} of gres/gpu:{} but does not say which ({})", gres.count, name,
                                           gres.index.empty() ? "no index" : gres.index));
      }
      indices.insert(read->begin(), read->end());
    }
    if (count == 0) {
      return std::unexpected(fmt::format("Slurm job {} has no gres/gpu:{} there", at_.job.str(), name));
    }
    passing_ = known == devices_.gpus.end() || at_.slurm == nullptr;
    if (known == devices_.gpus.end()) return std::unexpected(fmt::format("no device of class {} is published", name));
    // An index means a device only while both sides count the same ones.
    if (at_.slurm == nullptr) return std::unexpected("Slurm's node is not known yet");
    if (const std::uint64_t counted = gres_count(at_.slurm->gres, name); counted != known->second.size()) {
      passing_ = counted > known->second.size();
      return std::unexpected(fmt::format("Slurm counts \"{}\" there, and {} devices of class {} are published",
                                         normal_gres(at_.slurm->gres), known->second.size(), name));
    }
    std::vector<NumberedDevice> out;
    const std::uint64_t first = gres_index(at_.slurm->gres, name);
    for (const std::size_t index : indices) {
      if (index < first || index - first >= known->second.size()) {
        return std::unexpected(fmt::format("Slurm gave index {} of gres/gpu:{}, and the {} devices there begin with {}",
                                           index, name, known->second.size(), first));
      }
      out.push_back(known->second[index - first]);
    }
    return out;
  }

  Allocated cpus(const std::string& name) {
    const CpuLayout& layout = devices_.cpus;
    passing_ = layout.count() == 0;
    if (layout.count() == 0) return std::unexpected(fmt::format("no device of class {} is published", name));
    if (!layout_.has_cores) return std::unexpected("this Slurm does not say which cores it gave");
    const auto bits = parse_bitmap(held_->core_bitmap);
    if (!bits) return std::unexpected(fmt::format("Slurm's core bitmap \"{}\" cannot be read", held_->core_bitmap));
    if (held_->sockets != layout.sockets || held_->cores_per_socket != layout.cores) {
      return std::unexpected(fmt::format("Slurm counts {} sockets of {} cores there, the CPU devices are {} of {}",
                                         held_->sockets, held_->cores_per_socket, layout.sockets, layout.cores));
    }
    std::vector<NumberedDevice> whole, begun;
    for (const std::size_t core : *bits) {
      if (core >= layout.cpus.size()) {
        return std::unexpected(
            fmt::format("Slurm gave core {}, and only {} have CPU devices", core, layout.cpus.size()));
      }
      const std::vector<NumberedDevice>& cpus = layout.cpus[core];
      const auto is_held = [this](const NumberedDevice& cpu) { return !held_by(cpu.id).empty(); };
      std::ranges::copy(cpus, std::back_inserter(std::ranges::any_of(cpus, is_held) ? begun : whole));
    }
    // Pods that share the node also share cores only where there is no other way.
    std::ranges::move(begun, std::back_inserter(whole));
    return whole;
  }

  const kube::Pod& pod_;
  const Placement& at_;
  const JobLayout& layout_;
  const DeviceLedger& ledger_;
  const NodeDevices& devices_;
  const std::set<DeviceId>& taken_;
  std::set<DeviceId> mine_;
  const slurm::NodeAllocation* held_ = nullptr;
  bool passing_ = false;  // as ClaimProblem::passing; a kubelet or a driver that starts anew takes its devices away
  WantedClaim claim_;
};

// "gpu:a100:2(IDX:0-1)" and "gpu:h100(CNT:3)".
std::optional<slurm::NodeAllocation::Gres> parse_detail(std::string_view item) {
  const std::size_t open = item.find('(');
  if (open == std::string_view::npos || !item.ends_with(')')) return std::nullopt;
  std::string_view inside = item.substr(open + 1, item.size() - open - 2);
  std::string_view name = item.substr(0, open);
  slurm::NodeAllocation::Gres gres;
  gres.name = name.substr(0, name.find(':'));
  name.remove_prefix(std::min(name.size(), gres.name.size() + 1));
  const bool with_index = inside.starts_with("IDX:");
  if (!with_index && !inside.starts_with("CNT:")) return std::nullopt;
  inside.remove_prefix(4);
  std::string_view count = inside;
  if (with_index) {
    const std::size_t colon = name.rfind(':');
    count = colon == std::string_view::npos ? name : name.substr(colon + 1);
    name = colon == std::string_view::npos ? std::string_view{} : name.substr(0, colon);
    gres.index = inside;
  }
  gres.type = name;
  const auto [end, error] = std::from_chars(count.data(), count.data() + count.size(), gres.count);
  if (error != std::errc{} || end != count.data() + count.size()) return std::nullopt;
  return gres;
}

// Commas inside parentheses belong to the item.
std::vector<std::string_view> split_details(std::string_view text) {
  std::vector<std::string_view> items;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '(') ++depth;
    if (i < text.size() && text[i] == ')') --depth;
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    if (i > begin) items.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return items;
}

}  // namespace

JobLayout layout_of(const slurm::Job& job) {
  JobLayout layout{job.start_time, {}, false};
  const auto hosts = slurm::expand_hostlist(job.nodes);
  if (!hosts) return layout;
  for (std::size_t i = 0; i < hosts->size(); ++i) {
    slurm::NodeAllocation& node = layout.nodes.emplace_back();
    node.node = (*hosts)[i];
    if (i >= job.gres_detail.size()) continue;
    for (const std::string_view item : split_details(job.gres_detail[i])) {
      if (auto gres = parse_detail(item)) node.gres.push_back(std::move(*gres));
    }
  }
  return layout;
}

std::optional<std::uint32_t> tasks_with_devices(const TaskSize& task, const JobLayout& layout,
                                                std::string_view slurm_node) {
  const auto held = std::ranges::find(layout.nodes, slurm_node, &slurm::NodeAllocation::node);
  std::optional<std::uint64_t> tasks;
  for (const auto part : std::views::split(std::string_view(task.gres), ',')) {
    std::string_view item(part.begin(), part.end());
    if (!item.starts_with(kGpuTres)) continue;
    item.remove_prefix(kGpuTres.size());
    const std::size_t equals = item.find('=');
    std::uint64_t each = 0;
    if (equals == item.npos) continue;
    std::from_chars(item.data() + equals + 1, item.data() + item.size(), each);
    if (each == 0) continue;
    std::uint64_t all = 0;
    if (held != layout.nodes.end()) {
      for (const slurm::NodeAllocation::Gres& gres : held->gres) {
        if (gres.name == "gpu" && gres.type == item.substr(0, equals)) all += gres.count;
      }
    }
    tasks = std::min(tasks.value_or(kMaxIndices), all / each);
  }
  if (!tasks) return std::nullopt;
  return static_cast<std::uint32_t>(*tasks);
}

NamespacedName claim_key(const kube::Pod& pod) {
  const std::string end = "-slurm-" + fingerprint(pod.meta.uid.str());
  return {pod.meta.key.ns, cut(pod.meta.key.name, kMaxName - end.size()) + end};
}

std::string resource_claims_fault() {
  return fmt::format(
      "spec.resourceClaims is not supported; ask for devices with the annotation {}gres or with a resource {}CLASS of "
      "a container",
      names::kJobPrefix, names::kDeviceClassPrefix);
}

std::vector<std::string> device_faults(const kube::Pod& pod) {
  std::vector<std::string> faults;
  if (pod.has_resource_claims) faults.push_back(resource_claims_fault());
  std::map<std::string_view, std::vector<const kube::DeviceRequest*>> by_class;
  std::int64_t total = 0;
  for (const kube::DeviceRequest& one : pod.device_requests) {
    by_class[class_of_resource(one.resource.view())].push_back(&one);
    total += one.count;
  }
  for (const auto& [name, wants] : by_class) {
    const auto init = std::ranges::find_if(wants, [](const kube::DeviceRequest* one) { return one->init; });
    if (init == wants.end() || wants.size() == 1) continue;
    faults.push_back(
        fmt::format("init container {} and other containers ask for devices of class {}; ask for them in "
                    "the containers alone",
                    (*init)->container.view(), name));
  }
  if (total > static_cast<std::int64_t>(kMaxClaimDevices)) {
    faults.push_back(
        fmt::format("the pod asks for {} devices by class; a ResourceClaim holds at most {}", total, kMaxClaimDevices));
  }
  return faults;
}

std::vector<DeviceId> WantedClaim::devices() const {
  std::vector<DeviceId> all;
  for (const Request& request : requests) all.insert(all.end(), request.devices.begin(), request.devices.end());
  return all;
}

std::string WantedClaim::content() const {
  std::string text = fmt::format("{}\n{}\n", job.str(), node);
  for (const Request& request : requests) {
    text += fmt::format("{} {} {}", request.name, request.device_class, request.selector);
    for (const DeviceId& device : request.devices) text += " " + device.str();
    text += '\n';
  }
  for (const Mapping& one : mappings) text += fmt::format("{} {} {}\n", one.container, one.request, one.resource);
  return fingerprint(text);
}

std::expected<WantedClaim, ClaimProblem> plan_claim(const kube::Pod& pod, const Placement& at, const JobLayout& layout,
                                                    const DeviceLedger& ledger, const std::set<DeviceId>& taken) {
  return ClaimPlanner(pod, at, layout, ledger, taken).run();
}

json::Value claim_object(const WantedClaim& claim, std::string_view bridge) {
  json::Array requests;
  for (const WantedClaim::Request& one : claim.requests) {
    requests.push_back(json::Object{
        {"name", one.name},
        {"exactly",
         json::Object{{"deviceClassName", one.device_class},
                      {"allocationMode", "ExactCount"},
                      {"count", one.devices.size()},
                      {"selectors", json::Array{json::Object{{"cel", json::Object{{"expression", one.selector}}}}}}}}});
  }
  return json::Object{
      {"apiVersion", kResourceClaims.api_version()},
      {"kind", kResourceClaims.kind},
      {"metadata", json::Object{{"name", claim.key.name},
                                {"namespace", claim.key.ns},
                                {"finalizers", json::Array{kClaimProtection}},
                                {"labels", json::Object{{std::string(names::kSlurmJobId), claim.job.str()}}},
                                {"annotations", json::Object{{std::string(kExtendedClaim), "true"},
                                                             {std::string(names::kClaimedBy), bridge},
                                                             {std::string(names::kClaimContent), claim.content()},
                                                             {std::string(names::kSlurmNode), claim.node}}},
                                {"ownerReferences", json::Array{json::Object{{"apiVersion", "v1"},
                                                                             {"kind", "Pod"},
                                                                             {"name", claim.pod.name},
                                                                             {"uid", claim.pod_uid.str()},
                                                                             {"controller", true}}}}}},
      {"spec", json::Object{{"devices", json::Object{{"requests", std::move(requests)}}}}}};
}

json::Value claim_status(const WantedClaim& claim, std::string_view now) {
  json::Array results;
  for (const WantedClaim::Request& one : claim.requests) {
    for (const DeviceId& device : one.devices) {
      results.push_back(json::Object{
          {"request", one.name}, {"driver", device.driver}, {"pool", device.pool}, {"device", device.name}});
    }
  }
  json::Object here{{"key", "metadata.name"}, {"operator", "In"}, {"values", json::Array{claim.node}}};
  return json::Object{
      {"allocation",
       json::Object{
           {"allocationTimestamp", now},
           {"devices", json::Object{{"results", std::move(results)}}},
           {"nodeSelector", json::Object{{"nodeSelectorTerms",
                                          json::Array{json::Object{{"matchFields", json::Array{std::move(here)}}}}}}}}},
      {"reservedFor",
       json::Array{json::Object{{"resource", "pods"}, {"name", claim.pod.name}, {"uid", claim.pod_uid.str()}}}}};
}

json::Value pod_claim_status(const WantedClaim& claim) {
  json::Array mappings;
  for (const WantedClaim::Mapping& one : claim.mappings) {
    mappings.push_back(
        json::Object{{"containerName", one.container}, {"requestName", one.request}, {"resourceName", one.resource}});
  }
  return json::Object{{"resourceClaimName", claim.key.name}, {"requestMappings", std::move(mappings)}};
}

bool stands_for(const ResourceClaim& claim, const WantedClaim& wanted) {
  if (claim.pod != wanted.pod_uid || claim.meta.deleted) return false;
  if (kube::value_or(claim.meta.annotations, names::kClaimContent) != wanted.content()) return false;
  if (!claim.allocated) return true;
  std::vector<DeviceId> has = claim.devices;
  std::vector<DeviceId> should = wanted.devices();
  std::ranges::sort(has);
  std::ranges::sort(should);
  return has == should;
}

JobId job_of(const ResourceClaim& claim) noexcept {
  const std::string_view text = kube::value_or(claim.meta.labels, names::kSlurmJobId);
  JobId job;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), job.value);
  return error == std::errc{} && end == text.data() + text.size() ? job : JobId{};
}

}  // namespace bascule::bridge
