// What is done about a webhook's certificate that nobody else renews: a Secret holds it, with its key and the
// authorities it is checked with (ca.crt); webhook configurations tell the API server which authorities to trust
// (caBundle). Pure: the time is a parameter, the driver is runtime/webhook_certificate.hpp.
//
// Whatever is served is trusted at every moment, so a new certificate is trusted before it is written, and an old
// authority is dropped when nobody can serve by it any more: kSettled after this process first saw the present pair.
// Between the two nothing is kept but in these objects: a process killed in between leaves an authority in the bundles
// that vouches for nothing, and which goes with the old ones. It holds for several processes too, as long as each reads
// the configurations before the Secret, and writes only to what it has read (resourceVersion):
//   - who writes a pair has had it trusted after he read the Secret, and the Secret has not changed since;
//   - who drops an authority has read the Secret after the configurations, and its pair was not to be renewed for some
//     time: whoever has something trusted that is not in the Secret yet does so before that read, and is seen, or
//     after it, and the drop fails.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/loop.hpp"

namespace bascule::runtime {

using Bundle = std::vector<std::string>;  // certificates as net::certificates_in writes them

// What is there.
struct CertificateView {
  struct Pair {
    WallTime from{};                 // of the certificate and who vouches for it: when both
    WallTime until{};                // are good
    std::vector<std::string> names;  // for DNS
    Bundle authorities;              // of ca.crt, those that vouch for it
  };
  struct Fresh {  // a pair this process has made, and not written yet
    WallTime from{};
    WallTime until{};
    std::string authority;
  };
  std::optional<Pair> pair = {};     // nullopt: the API server believes nobody who serves it, and `fault` says why
  std::string fault = {};            //
  Bundle bundle = {};                // ca.crt
  std::vector<Bundle> trusted = {};  // of each webhook of each configuration
  Duration known = {};               // for how long this process has seen this pair
  std::optional<Fresh> fresh = {};   //
};

struct CertificatePlan {
  enum class Step {
    kRest,     // until `rest` has passed
    kMake,     // a fresh pair
    kTrust,    // `bundle` in all configurations
    kWrite,    // the fresh pair into the Secret, with `bundle`
    kShorten,  // the Secret's ca.crt to `bundle`
  };
  Step step = Step::kRest;
  Bundle bundle = {};
  Duration rest = {};
  std::string why = {};  // a new pair is needed; empty: none is
};

inline constexpr Duration kLookAtCertificate = std::chrono::hours(1);
// All pods have a changed Secret by then; kubelet takes a minute or two.
inline constexpr Duration kSettled = std::chrono::hours(1);

// `names`: those the API server may call the webhook by.
CertificatePlan plan_certificate(const CertificateView& view, const std::vector<std::string>& names, WallTime now);

}  // namespace bascule::runtime
