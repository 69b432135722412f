#include "operator/nodeset/revisions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

namespace bascule::op::nodeset {

namespace {

std::string hash_of(const Spec& spec, const RevisionView& revision) {
  if (revision.hash_label && !revision.hash_label->empty()) return *revision.hash_label;
  const std::string prefix = revision_name(spec.name, "");
  return revision.name.starts_with(prefix) ? revision.name.substr(prefix.size()) : revision.name;
}

std::vector<const RevisionView*> sorted(const State& state) {
  std::vector<const RevisionView*> all;
  for (const RevisionView& revision : state.revisions) {
    if (revision.owner != Owner::kOther) all.push_back(&revision);
  }
  std::ranges::sort(all, {}, [](const RevisionView* r) { return std::tie(r->revision, r->created, r->name); });
  return all;
}

void adopt(const State& state, const std::vector<const RevisionView*>& all, Plan& plan) {
  for (const RevisionView* revision : all) {
    PatchRevision patch{.name = revision->name};
    if (!revision->hash_label || revision->hash_label->empty()) patch.hash_label = hash_of(state.spec, *revision);
    patch.adopt = revision->owner == Owner::kNone;
    if (patch.hash_label || patch.adopt) plan.act(patch, "the revision has no owner or no hash label");
  }
}

// The data of a revision never changes, and has the NodeSet's own labels and annotations of its time.
bool is_same(const State& state, const RevisionView& revision) {
  return revision.data == state.template_data ||
         (!state.template_hash.empty() && revision.template_hash == state.template_hash);
}

void truncate(const State& state, const std::vector<const RevisionView*>& all, const Revisions& wanted, Plan& plan) {
  std::set<std::string> live{wanted.update_hash, wanted.current_hash};
  for (const PodView& pod : state.pods) {
    if (pod.owner == Owner::kUs && pod.hash_label) live.insert(*pod.hash_label);
  }
  std::vector<const RevisionView*> dead;
  for (const RevisionView* revision : all) {
    if (!live.contains(hash_of(state.spec, *revision))) dead.push_back(revision);
  }
  const auto limit = static_cast<std::size_t>(std::max(0, state.spec.history_limit));
  for (std::size_t i = 0; i + limit < dead.size(); ++i) {
    plan.act(DeleteRevision{dead[i]->name},
             fmt::format("no pod has revision {} and the history keeps {}", dead[i]->name, limit));
  }
}

}  // namespace

std::string revision_hash(std::string_view data, std::optional<std::int32_t> collisions) {
  constexpr std::string_view kAlphabet = "bcdfghjklmnpqrstvwxz2456789";
  std::uint32_t hash = 2166136261;  // FNV-1
  const auto feed = [&](std::string_view text) {
    for (const char c : text) hash = (hash * 16777619) ^ static_cast<unsigned char>(c);
  };
  feed(data);
  if (collisions) feed(std::to_string(*collisions));
  std::string out;
  for (const char digit : std::to_string(hash)) out += kAlphabet[static_cast<unsigned char>(digit) % kAlphabet.size()];
  return out;
}

std::string revision_name(std::string_view nodeset, std::string_view hash) {
  constexpr std::size_t kLongest = 223;
  return fmt::format("{}-{}", nodeset.substr(0, kLongest), hash);
}

Revisions plan_revisions(const State& state, Plan& plan) {
  const std::vector<const RevisionView*> all = sorted(state);
  adopt(state, all, plan);
  Revisions wanted{.update_hash = {}, .current_hash = {}, .collisions = state.status.collisions};
  const std::int64_t next = all.empty() ? 1 : all.back()->revision + 1;
  const auto equal =
      std::ranges::find_if(all.rbegin(), all.rend(), [&](const RevisionView* r) { return is_same(state, *r); });
  if (equal != all.rend()) {
    const RevisionView& revision = **equal;
    wanted.update_hash = hash_of(state.spec, revision);
    if (!state.template_hash.empty() && revision.template_hash != state.template_hash) {
      plan.act(PatchRevision{.name = revision.name, .template_hash = state.template_hash},
               "its template is known by what makes a revision");
    }
    if (equal != all.rbegin()) {
      plan.act(PatchRevision{.name = revision.name, .revision = next},
               fmt::format("the template is that of revision {} again", revision.name));
    }
  } else {
    const auto taken = [&](const std::string& name) {
      return std::ranges::any_of(all, [&](const RevisionView* r) { return r->name == name; });
    };
    // Kubernetes counts collisions from 0, and hashes the count from the start.
    std::int32_t collisions = wanted.collisions.value_or(0);
    std::string hash = revision_hash(state.template_data, collisions);
    while (taken(revision_name(state.spec.name, hash))) {
      hash = revision_hash(state.template_data, ++collisions);
      wanted.collisions = collisions;
    }
    wanted.update_hash = hash;
    plan.act(CreateRevision{revision_name(state.spec.name, hash), hash, next}, "the template is new");
  }
  const bool known =
      std::ranges::any_of(all, [&](const RevisionView* r) { return hash_of(state.spec, *r) == state.status.hash; });
  wanted.current_hash = known ? state.status.hash : wanted.update_hash;
  truncate(state, all, wanted, plan);
  return wanted;
}

}  // namespace bascule::op::nodeset
