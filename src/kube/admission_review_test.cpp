#include "kube/admission_review.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/base64.hpp"

namespace bascule::kube {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

json::Value document(std::string_view request, std::string_view version = "admission.k8s.io/v1") {
  json::Value made = json::parse(R"({"kind":"AdmissionReview"})");
  made.as_object()["apiVersion"] = version;
  made.as_object()["request"] = json::parse(request);
  return made;
}

TEST(AdmissionReview, IsReadWhole) {
  const json::Value asked = document(R"({"uid":"u","namespace":"n","name":"p","operation":"UPDATE","dryRun":true,
      "resource":{"group":"g","version":"v1","resource":"things"},"subResource":"scale",
      "userInfo":{"username":"ada","groups":["a","b"]},"object":{"x":1},"oldObject":{"x":2}})");
  const auto review = read_admission_review(asked);
  ASSERT_TRUE(review) << review.error();
  EXPECT_EQ(review->uid, "u");
  EXPECT_EQ(review->ns, "n");
  EXPECT_EQ(review->name, "p");
  EXPECT_EQ(review->operation, AdmissionOperation::kUpdate);
  EXPECT_EQ(review->group, "g");
  EXPECT_EQ(review->resource, "things");
  EXPECT_EQ(review->sub_resource, "scale");
  EXPECT_EQ(review->user, "ada");
  EXPECT_THAT(review->groups, ElementsAre("a", "b"));
  EXPECT_TRUE(review->dry_run);
  EXPECT_EQ(json::int_at(*review->object, {"x"}), 1);
  EXPECT_EQ(json::int_at(*review->old_object, {"x"}), 2);
}

TEST(AdmissionReview, SaysWhatIsMissing) {
  const auto said = [](const json::Value& asked) { return read_admission_review(asked).error(); };
  EXPECT_THAT(said(json::parse("{}")), HasSubstr("not an AdmissionReview"));
  EXPECT_THAT(said(document(R"({"uid":"u"})", "admission.k8s.io/v2")), HasSubstr("not an AdmissionReview"));
  EXPECT_THAT(said(document("null")), HasSubstr("no request"));
  EXPECT_THAT(said(document(R"({"operation":"CREATE"})")), HasSubstr("no uid"));
  EXPECT_THAT(said(document(R"({"uid":"u","operation":"PATCH"})")), HasSubstr("operation is 'PATCH'"));
  EXPECT_THAT(said(document(R"({"uid":"u","operation":"CREATE"})")), HasSubstr("no object"));
  EXPECT_THAT(said(document(R"({"uid":"u","operation":"UPDATE","object":{}})")), HasSubstr("without oldObject"));
  EXPECT_TRUE(read_admission_review(document(R"({"uid":"u","operation":"DELETE","oldObject":{}})")));
}

TEST(AdmissionReview, ADeletionSaysWhatBecomesOfDependents) {
  const auto propagation = [](std::string_view options) {
    const json::Value asked =
        document(fmt::format(R"({{"uid":"u","operation":"DELETE","oldObject":{{}},"options":{}}})", options));
    return std::string(read_admission_review(asked)->propagation);
  };
  EXPECT_EQ(propagation(R"({"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1","propagationPolicy":"Foreground"})"),
            "Foreground");
  EXPECT_EQ(propagation(R"({"kind":"DeleteOptions"})"), "");
  EXPECT_EQ(propagation("null"), "");
}

TEST(AdmissionReview, IsAnsweredInItsOwnVersion) {
  const json::Value asked = document(R"({"uid":"u","operation":"DELETE"})", "admission.k8s.io/v1beta1");
  const auto review = read_admission_review(asked);
  ASSERT_TRUE(review);
  EXPECT_EQ(
      json::dump(admission_answer(*review, {})),
      R"({"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","response":{"uid":"u","allowed":true}})");
  const json::Value refused = admission_answer(
      *review, {.allowed = false, .code = 422, .reason = "Invalid", .message = "no", .patch = {}, .warnings = {"w"}});
  EXPECT_EQ(json::dump(*json::find(refused, {"response"})),
            R"({"uid":"u","allowed":false,"status":{"status":"Failure","message":"no","reason":"Invalid","code":422},)"
            R"("warnings":["w"]})");
  const json::Array patch{json::Object{{"op", "remove"}, {"path", "/x"}}};
  const json::Value patched = admission_answer(*review, {.patch = patch});
  EXPECT_EQ(json::string_at(patched, {"response", "patch"}), base64_encode(json::dump(patch)));
  EXPECT_EQ(json::string_at(patched, {"response", "patchType"}), "JSONPatch");
}

}  // namespace
}  // namespace bascule::kube
