#include "bridge/node_table.hpp"

#include <algorithm>
#include <map>
#include <ranges>

#include "bridge/names.hpp"
#include "bridge/node_facts.hpp"
#include "slurm/hostlist.hpp"

namespace bascule::bridge {

namespace {

// Bounds memory when users invent classes.
constexpr std::size_t kMaxClasses = 2'000;
// A class that has missed more changes than these judges every node anew.
constexpr std::size_t kMaxChanges = 1'024;

constexpr std::uint16_t kOutside = 0;  // not in Slurm, or not in the partition
constexpr std::uint16_t kUsable = 1;
constexpr std::uint16_t kRefused = 2;
constexpr std::size_t kMaxReasons = 1'000;

// The rest of a node changes all the time (heartbeats, conditions) and decides nothing before a bind.
bool same_for_candidates(const kube::Node& a, const kube::Node& b) {
  return a.meta.key == b.meta.key && a.meta.labels == b.meta.labels && a.taints == b.taints &&
         a.allocatable == b.allocatable;
}

std::string text_of(const std::vector<std::vector<AffinityTerm>>& alternatives) {
  std::string text;
  const auto put = [&text](const std::vector<AffinityExpression>& expressions) {
    for (const AffinityExpression& e : expressions) {
      text += e.key + '\x1f' + e.op;
      for (const std::string& value : e.values) text += '\x1f' + value;
      text += ';';
    }
  };
  for (const auto& terms : alternatives) {
    text += '&';
    for (const AffinityTerm& term : terms) {
      text += '|';
      put(term.labels);
      text += ',';
      put(term.fields);
    }
  }
  return text;
}

// How many are attached decides, not which.
std::string text_of(const Volumes::Attached& attached) {
  std::string text;
  for (const auto& [driver, volumes] : attached) text += '@' + driver + '=' + std::to_string(volumes.size());
  return text;
}

bool asks_plugin_for_gpus(const PodConstraints& pods) {
  return std::ranges::any_of(
      names::kGpuResources, [&pods](std::string_view name) { return kube::amount(pods.requests, name) > Quantity(0); });
}

}  // namespace

void NodeTable::on_node(const NodePtr& before, const NodePtr& after) {
  const auto take_out = [this](const NodePtr& one) {
    std::vector<NodePtr>& nodes = nodes_[slurm_name_of(*one)];
    std::erase_if(nodes, [&](const NodePtr& node) { return node->meta.key == one->meta.key; });
    if (nodes.empty()) nodes_.erase(slurm_name_of(*one));
  };
  if (before) take_out(before);
  if (after) take_out(after);
  if (after) nodes_[slurm_name_of(*after)].push_back(after);
  if (before && after && same_for_candidates(*before, *after)) return;
  if (before) changed(slurm_name_of(*before));
  if (after && (!before || slurm_name_of(*after) != slurm_name_of(*before))) changed(slurm_name_of(*after));
}

void NodeTable::on_slurm_node(const SlurmNodePtr& before, const SlurmNodePtr& after) {
  bool same = before && after && before->partitions == after->partitions && before->gres == after->gres;
  if (before && !after) slurm_.erase(before->name);
  if (after) {
    SlurmSide& side = slurm_[after->name];
    const auto mark = after->states.has(slurm::NodeFlag::kExternal) ? parse_mark(after->extra) : std::nullopt;
    const bool elsewhere = mark && !cluster_.empty() && mark->cluster != cluster_;
    same = same && side.elsewhere == elsewhere;
    side = {after, elsewhere};
  }
  if (!same) changed(after ? after->name : before->name);
}

void NodeTable::on_devices(const std::string& kube_node) {
  const auto has = [&kube_node](const std::vector<NodePtr>& nodes) {
    return std::ranges::any_of(nodes, [&](const NodePtr& node) { return node->meta.key.name == kube_node; });
  };
  const auto same = nodes_.find(kube_node);
  if (same != nodes_.end() && has(same->second)) return changed(kube_node);
  for (const auto& [name, nodes] : nodes_) {
    if (kube_node.empty() || has(nodes)) changed(name);
  }
}

const slurm::Node* NodeTable::slurm_node(const std::string& name) const {
  const auto it = slurm_.find(name);
  return it == slurm_.end() ? nullptr : it->second.node.get();
}

void NodeTable::changed(const std::string& name) {
  ++generation_;
  const std::uint32_t number = number_of(name);
  changes_.push_back(number);
  if (changes_.size() > kMaxChanges) changes_.pop_front();
  if (nodes_.contains(name) || slurm_.contains(name)) return;
  // Whoever gets the number next is a change too, so no class takes it for this one.
  numbers_.erase(numbers_.find(names_[number]));
  names_[number].clear();
  free_.push_back(number);
}

std::uint32_t NodeTable::number_of(const std::string& name) {
  const auto known = numbers_.find(name);
  if (known != numbers_.end()) return known->second;
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(names_.size()));
    names_.emplace_back();
  }
  const std::uint32_t number = free_.back();
  free_.pop_back();
  names_[number] = name;
  numbers_.emplace(name, number);
  return number;
}

const Candidates& NodeTable::candidates(const std::vector<PodPtr>& pods, const std::string& partition) {
  Class& kind = class_for(pods, partition);
  const std::uint64_t missed = generation_ - kind.generation;
  if (missed == 0) return kind.candidates;
  bool other = kind.generation == 0;
  kind.verdicts.resize(names_.size(), kOutside);
  if (kind.generation == 0 || missed > changes_.size()) {
    judged_ += names_.size();
    for (std::uint32_t number = 0; number < names_.size(); ++number) other = judge(kind, number) || other;
  } else {
    judged_ += missed;
    for (std::size_t i = changes_.size() - missed; i < changes_.size(); ++i) other = judge(kind, changes_[i]) || other;
  }
  kind.generation = generation_;
  if (other || kind.plugin_gpus) conclude(kind);
  return kind.candidates;
}

PodConstraints NodeTable::constraints_for(const kube::Pod& pod) const {
  PodConstraints out = constraints_of(pod);
  if (pod.claims.empty()) return out;
  out.volumes = volumes_.needs_of(pod).alternatives;
  out.attached = volumes_.attached_by(pod);
  return out;
}

NodeTable::Class& NodeTable::class_for(const std::vector<PodPtr>& pods, const std::string& partition) {
  std::map<std::string, const kube::Pod*> kinds;  // members of a gang are mostly alike
  for (const PodPtr& pod : pods) {
    std::string text = class_of(*pod);
    if (!pod->claims.empty()) {
      text += text_of(volumes_.needs_of(*pod).alternatives) + text_of(volumes_.attached_by(*pod));
    }
    kinds.emplace(std::move(text), pod.get());
  }
  std::string key = partition;
  for (const auto& [text, pod] : kinds) {
    key += '\n';
    key += text;
  }
  if (classes_.size() >= kMaxClasses && !classes_.contains(key)) drop_a_class();
  const auto [it, fresh] = classes_.try_emplace(std::move(key));
  if (fresh) {
    it->second.partition = partition;
    for (const auto name : std::views::split(partition, ',')) {
      if (!name.empty()) it->second.partitions.emplace_back(name.begin(), name.end());
    }
    for (const auto& [text, pod] : kinds) it->second.constraints.push_back(constraints_for(*pod));
    it->second.plugin_gpus = std::ranges::any_of(it->second.constraints, asks_plugin_for_gpus);
  }
  return it->second;
}

// Any: units that wait are looked at in the same order again and again, so that the class which was asked for longest
// ago is the very one that is asked for next.
void NodeTable::drop_a_class() {
  std::size_t bucket = dice_() % classes_.bucket_count();
  while (classes_.bucket_size(bucket) == 0) bucket = (bucket + 1) % classes_.bucket_count();
  const std::string key = classes_.begin(bucket)->first;
  classes_.erase(key);
}

bool NodeTable::judge(Class& kind, std::uint32_t number) const {
  std::uint16_t verdict = kOutside;
  const auto slurm_node = slurm_.find(names_[number]);
  const auto in_partition = [&](const slurm::Node& node) {
    return kind.partitions.empty() || std::ranges::any_of(kind.partitions, [&](const std::string& one) {
             return std::ranges::find(node.partitions, one) != node.partitions.end();
           });
  };
  if (slurm_node != slurm_.end() && in_partition(*slurm_node->second.node)) {
    const NodePtr node = by_slurm_name(names_[number]);
    std::string why = node ? "" : absence(names_[number]);
    for (const PodConstraints& one : kind.constraints) {
      if (why.empty()) why = misfit(one, *node, When::kBeforeSubmit);
      if (why.empty() && !one.attached.empty()) {
        why = volumes_.excess(one.attached, {}, node->meta.key.name);
        if (!why.empty()) why.insert(0, "cannot have so many ");
      }
      if (why.empty() && devices_ != nullptr) {
        why = devices_->shortage(one.requests, node->meta.key.name, slurm_node->second.node->gres);
      }
    }
    verdict = kUsable;
    if (!why.empty()) {
      auto reason = std::ranges::find(kind.reasons, why, &Reason::first);
      if (reason == kind.reasons.end()) {
        reason = std::ranges::find(kind.reasons, 0, &Reason::second);
        if (reason != kind.reasons.end()) {
          reason->first = std::move(why);
        } else {
          if (kind.reasons.size() >= kMaxReasons) why = "are refused for other reasons";
          reason = std::ranges::find(kind.reasons, why, &Reason::first);
          if (reason == kind.reasons.end()) reason = kind.reasons.insert(reason, {std::move(why), 0});
        }
      }
      verdict = static_cast<std::uint16_t>(kRefused + (reason - kind.reasons.begin()));
    }
  }
  std::uint16_t& known = kind.verdicts[number];
  if (known == verdict) return false;
  if (known >= kRefused) --kind.reasons[known - kRefused].second;
  if (verdict >= kRefused) ++kind.reasons[verdict - kRefused].second;
  known = verdict;
  return true;
}

void NodeTable::conclude(Class& kind) const {
  Candidates& out = kind.candidates;
  std::vector<std::string> excluded;
  out.usable = 0;
  out.uncounted_gpus = kind.plugin_gpus;
  for (std::size_t number = 0; number < kind.verdicts.size(); ++number) {
    if (kind.verdicts[number] == kUsable) {
      ++out.usable;
      out.uncounted_gpus = out.uncounted_gpus && is_without_gpus(names_[number]);
    }
    if (kind.verdicts[number] >= kRefused) excluded.push_back(names_[number]);
  }
  std::ranges::sort(excluded);
  out.excluded = slurm::format_hostlist(excluded);
  if (out.usable > 0) {
    out.why_none = "only " + std::to_string(out.usable) + " nodes fit";
    return;
  }
  out.why_none = excluded.empty()
                     ? "Slurm has no node" + (kind.partition.empty() ? "" : " in partition " + kind.partition)
                     : std::to_string(excluded.size()) + " nodes:";
  std::map<std::string, int> reasons(kind.reasons.begin(), kind.reasons.end());
  for (const auto& [why, count] : reasons) {
    if (count > 0) out.why_none += (out.why_none.ends_with(':') ? " " : ", ") + std::to_string(count) + " " + why;
  }
}

// What slurmd has found on its node is Slurm's own to say.
bool NodeTable::is_without_gpus(const std::string& name) const {
  const slurm::Node* node = slurm_node(name);
  return node != nullptr && node->states.has(slurm::NodeFlag::kExternal) && node->gres.empty();
}

std::vector<Neighbour> NodeTable::neighbours(const std::string& node) const {
  std::vector<Neighbour> out;
  for (const auto& [uid, other] : usage_.ours(node)) {
    out.push_back({other.pod, other.job, other.restarts, Neighbour::Hold::kHolds, TimePoint::max()});
    if (look_) look_(node, out.back());
  }
  return out;
}

NodePtr NodeTable::by_slurm_name(const std::string& name) const {
  const auto it = nodes_.find(name);
  if (it == nodes_.end() || it->second.size() != 1) return nullptr;
  const auto side = slurm_.find(name);
  return side != slurm_.end() && side->second.elsewhere ? nullptr : it->second.front();
}

std::string NodeTable::absence(const std::string& slurm_name) const {
  const auto it = nodes_.find(slurm_name);
  const bool several = it != nodes_.end() && it->second.size() > 1;
  return several ? "is the name in Slurm of several Kubernetes nodes" : NodeView::absence(slurm_name);
}

std::string NodeTable::refusal(const kube::Pod& pod, const kube::Node& node, const std::vector<PodPtr>& beside) const {
  const PodConstraints constraints = constraints_for(pod);
  std::string why = misfit(constraints, node, When::kBeforeBind);
  if (!why.empty()) return why;
  why = usage_.shortage(pod, node, beside);
  if (why.empty() && !constraints.attached.empty()) {
    Volumes::Attached there;
    volumes_.attach_standing(node.meta.key.name, there);
    for (const NamespacedName& claim : usage_.claims(node.meta.key.name, beside)) volumes_.attach(claim, there);
    why = volumes_.excess(constraints.attached, there, node.meta.key.name);
  }
  return why.empty() ? why : "has no room: " + why;
}

}  // namespace bascule::bridge
