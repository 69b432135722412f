#include "slurm/shared_text.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>

#include "slurm/decode.hpp"

namespace bascule::slurm {
namespace {

static_assert(sizeof(SharedText) == 8);

std::size_t held() {
  return SharedText::interner().size();
}

TEST(SharedText, EqualTextsAreOneAndGoWithTheLastHandle) {
  const std::size_t before = held();
  std::optional<SharedText> a("a partition that nobody else has");
  std::optional<SharedText> b(std::string("a partition that nobody else has"));
  EXPECT_EQ(a->view().data(), b->view().data());
  EXPECT_EQ(held(), before + 1);
  a.reset();
  EXPECT_EQ(*b, "a partition that nobody else has");
  b = "";
  EXPECT_EQ(held(), before);
  EXPECT_TRUE(b->empty());
}

TEST(SharedText, ComparesAsText) {
  const SharedText text = "gpu";
  EXPECT_TRUE(text == "gpu" && "gpu" == text && text == std::string("gpu") && text == std::string_view("gpu"));
  EXPECT_TRUE(text != "cpu" && text != SharedText() && SharedText() == "" && text > SharedText("cpu"));
  EXPECT_EQ(text.str() + ",cpu", "gpu,cpu");
  EXPECT_EQ(fmt::format("{}|{:>5}", text, text), "gpu|  gpu");
}

TEST(SharedText, AJobReadTwiceIsEqualAndSharesWhatItCan) {
  constexpr const char* kBody = R"({"jobs":[{"job_id":7,"user_name":"ada","account":"physics","partition":"main",
      "qos":"normal","resv_name":"night","required_nodes":"n[1-2]","excluded_nodes":"n3","features":"a&b",
      "state_reason":"Priority","state_description":"waits","comment":"said","tres_per_node":"gres/gpu:2"}]})";
  const std::size_t before = held();
  {
    const auto first = decode_jobs(kBody).list;
    const auto second = decode_jobs(kBody).list;
    ASSERT_TRUE(first && second && first->jobs.size() == 1);
    const Job& job = first->jobs.front();
    EXPECT_EQ(first->jobs, second->jobs);
    EXPECT_EQ(job.excluded_nodes.view().data(), second->jobs.front().excluded_nodes.view().data());
    EXPECT_EQ(fmt::format("{} {} {} {} {} {} {} {} {} {} {} {}", job.user, job.account, job.partition, job.qos,
                          job.reservation, job.required_nodes, job.excluded_nodes, job.constraints, job.state_reason,
                          job.state_description, job.comment, job.tres_per_node),
              "ada physics main normal night n[1-2] n3 a&b Priority waits said gres/gpu:2");
    EXPECT_LE(held(), before + 12);
  }
  EXPECT_EQ(held(), before);
}

}  // namespace
}  // namespace bascule::slurm
