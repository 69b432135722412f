// Arbitrary bytes as the body of a review of each kind: an answer with a verdict, or a sentence why there is none; what
// is let in can be read by the operator.
#include <cstdint>
#include <string_view>

#include "base/check.hpp"
#include "kube/admission_http.hpp"
#include "operator/webhook/binding.hpp"
#include "operator/webhook/review.hpp"

using namespace bascule;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto document = kube::parse_admission_review(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!document) {
    BASCULE_CHECK(!document.error().empty(), "a refusal says why");
    return 0;
  }
  const auto review = kube::read_admission_review(*document);
  if (!review) {
    BASCULE_CHECK(!review.error().empty(), "a refusal says why");
    return 0;
  }
  for (const char* word : {"controller", "accounting", "restapi", "loginset", "nodeset", "token"}) {
    const op::Kind kind = op::kind_of(word).value();
    op::Known known;
    for (const std::string& name : op::wanted(kind, *review).config_maps) {
      known.config_maps[name] = {.exists = name.size() % 2 == 0, .keys = {"slurm.conf", name}};
    }
    if (review->old_object != nullptr) known.node_sets.push_back(*review->old_object);
    const kube::AdmissionVerdict verdict = op::validate(kind, *review, known);
    BASCULE_CHECK(verdict.allowed != (verdict.code == 422), "a verdict and its code agree");
    BASCULE_CHECK(verdict.allowed || !verdict.message.empty(), "a refusal says why");
    json::parse(json::dump(kube::admission_answer(*review, verdict)));
  }
  if (review->object != nullptr && review->old_object != nullptr) {
    op::binding_patch(*review->object, *review->old_object);
  }
  return 0;
}
