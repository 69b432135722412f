#include "bridge/device_slices.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace bascule::bridge {
namespace {

using ::testing::ElementsAre;

// Parameters of a driver are any JSON, and so is what of them is in managedFields.
std::string opaque() {
  std::string deep;
  for (int i = 0; i < 1500; ++i) deep += R"({"a":)";
  return R"({"driver":"gpu.example.com","parameters":)" + deep + "[]" + std::string(1500, '}') + "}";
}

TEST(DeviceSlices, AClaimIsReadWhateverItsParametersAre) {
  json::Interner interner;
  const std::string text = fmt::format(
      R"({{"metadata":{{"managedFields":[{{"fieldsV1":{0}}}],"name":"c","namespace":"ns","uid":"u","ownerReferences":[)"
      R"({{"apiVersion":"v1","kind":"Pod","name":"p","uid":"pod-uid","controller":true}}]}},)"
      R"("spec":{{"devices":{{"config":[{{"opaque":{0}}}]}}}},)"
      R"("status":{{"allocation":{{"devices":{{"config":[{{"opaque":{0}}}],"results":[)"
      R"({{"driver":"gpu.example.com","pool":"n1","device":"gpu-0","request":"r"}},)"
      R"({{"driver":"gpu.example.com","pool":"n1","device":"gpu-1","adminAccess":true}},)"
      R"({{"driver":"gpu.example.com","pool":"n1","device":"gpu-2","adminAccess":false}}]}}}},)"
      R"("reservedFor":[{{"resource":"pods","name":"p","uid":"pod-uid"}},{{"resource":"pods","name":"q","uid":"q-uid"}}],)"
      R"("devices":[{{"driver":"gpu.example.com","data":{0}}}]}}}})",
      opaque());
  const ClaimPtr claim = decode_claim(text, interner);
  EXPECT_EQ(claim->meta.key.str(), "ns/c");
  EXPECT_EQ(claim->pod.str(), "pod-uid");
  EXPECT_EQ(claim->pod_name, "p");
  EXPECT_TRUE(claim->allocated);
  EXPECT_THAT(claim->reserved_for, ElementsAre(Uid("pod-uid"), Uid("q-uid")));
  EXPECT_TRUE(serves_others(*claim));
  std::vector<std::string> devices;
  for (const DeviceId& device : claim->devices) devices.push_back(device.str());
  EXPECT_THAT(devices, ElementsAre("gpu.example.com/n1/gpu-0", "gpu.example.com/n1/gpu-2"));
  EXPECT_FALSE(decode_claim(R"({"metadata":{"name":"c"},"status":{}})", interner)->allocated);
  EXPECT_FALSE(decode_claim(R"({"metadata":{"name":"c"},"status":{"allocation":null}})", interner)->allocated);
  EXPECT_TRUE(decode_claim(R"({"metadata":{"name":"c"},"status":{"allocation":{}}})", interner)->allocated);
}

TEST(DeviceSlices, AClassIsReadWhateverItsParametersAre) {
  json::Interner interner;
  const std::string text =
      fmt::format(R"({{"metadata":{{"name":"gpu"}},"spec":{{"config":[{{"opaque":{0}}}],)"
                  R"("selectors":[{{"cel":{{"expression":"true"}}}},{{}},{{"cel":{{"expression":"false"}}}}]}}}})",
                  opaque());
  const ClassPtr device_class = decode_class(text, interner);
  EXPECT_EQ(device_class->meta.key.name, "gpu");
  EXPECT_THAT(device_class->selectors, ElementsAre("true", "", "false")) << "what is not known of holds for nothing";
}

}  // namespace
}  // namespace bascule::bridge
