#include "runtime/webhook_certificate_plan.hpp"

#include <algorithm>

#include "base/time.hpp"

namespace bascule::runtime {

namespace {

constexpr Duration kShortestRest = std::chrono::minutes(1);
constexpr Duration kEarly = std::chrono::hours(1);

bool has(const Bundle& bundle, const std::string& one) {
  return std::ranges::find(bundle, one) != bundle.end();
}

bool has_all(const Bundle& bundle, const Bundle& wanted) {
  return std::ranges::all_of(wanted, [&](const std::string& one) { return has(bundle, one); });
}

bool same(const Bundle& a, const Bundle& b) {
  return has_all(a, b) && has_all(b, a);
}

void add(Bundle& bundle, const Bundle& more) {
  for (const std::string& one : more) {
    if (!has(bundle, one)) bundle.push_back(one);
  }
}

// A third of its life is left.
WallTime renewal_of(WallTime from, WallTime until) {
  return until - (until - from) / 3;
}

// Empty: no.
std::string why_renew(const CertificateView& view, const std::vector<std::string>& names, WallTime now) {
  if (!view.pair) return view.fault;
  for (const std::string& name : names) {
    if (!has(view.pair->names, name)) return "it does not name " + name;
  }
  // Made by a clock that was ahead. Not where ours is far behind: two replicas would take turns for ever.
  const Duration early = view.pair->from - now;
  if (early > kEarly && early < (view.pair->until - view.pair->from) / 2) return "it is not good yet";
  return now < renewal_of(view.pair->from, view.pair->until) ? "" : "it ends at " + print_rfc3339(view.pair->until);
}

bool all_trust(const CertificateView& view, const Bundle& wanted) {
  return std::ranges::all_of(view.trusted, [&](const Bundle& one) { return has_all(one, wanted); });
}

// What anybody trusts, may serve, or will.
Bundle everything(const CertificateView& view) {
  Bundle out;
  for (const Bundle& one : view.trusted) add(out, one);
  add(out, view.bundle);
  if (view.fresh) add(out, {view.fresh->authority});
  return out;
}

CertificatePlan renew(const CertificateView& view, std::string why, WallTime now) {
  using Step = CertificatePlan::Step;
  const bool usable = view.fresh && now < renewal_of(view.fresh->from, view.fresh->until);
  if (!usable) return {.step = Step::kMake, .why = std::move(why)};
  const bool trusted = all_trust(view, {view.fresh->authority}) && all_trust(view, view.bundle);
  const Step step = trusted ? Step::kWrite : Step::kTrust;
  return {.step = step, .bundle = everything(view), .why = std::move(why)};
}

CertificatePlan rest(const CertificateView& view, bool shorter, WallTime now) {
  Duration until = std::min<Duration>(kLookAtCertificate, renewal_of(view.pair->from, view.pair->until) - now);
  if (shorter && view.known < kSettled) until = std::min(until, kSettled - view.known);
  return {.rest = std::max(until, kShortestRest)};
}

}  // namespace

CertificatePlan plan_certificate(const CertificateView& view, const std::vector<std::string>& names, WallTime now) {
  using Step = CertificatePlan::Step;
  if (std::string why = why_renew(view, names, now); !why.empty()) return renew(view, std::move(why), now);
  // As after an upgrade of the chart that has read the Secret before it changed.
  if (!all_trust(view, view.bundle)) return {.step = Step::kTrust, .bundle = everything(view)};
  const bool secret_has_more = !same(view.bundle, view.pair->authorities);
  const bool others_have_more = !all_trust({.trusted = {view.bundle}}, everything({.trusted = view.trusted}));
  const bool settled = view.known >= kSettled && why_renew(view, names, now + kSettled).empty();
  if (!settled || (!secret_has_more && !others_have_more)) return rest(view, secret_has_more || others_have_more, now);
  if (secret_has_more) return {.step = Step::kShorten, .bundle = view.pair->authorities};
  return {.step = Step::kTrust, .bundle = view.bundle};
}

}  // namespace bascule::runtime
