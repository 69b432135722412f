#include "bridge/record.hpp"

#include <gtest/gtest.h>

#include <random>

namespace bascule::bridge {
namespace {

JobRecord sample() {
  return {.bridge = "slurm-bridge-scheduler",
          .cluster = "c0ffee",
          .unit = Uid("u-1"),
          .spec = "0123456789abcdef",
          .pods = {{"a", "x"}, {"a", "y"}},
          .uids = {Uid("u-1"), Uid("u-2")},
          .legacy = false,
          .asked = "01234567,,89abcdef"};
}

TEST(Record, KeepsEverythingAcrossPrintAndParse) {
  const auto back = parse_record(print_record(sample()));
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, sample());
  JobRecord shares = sample();
  shares.task = TaskSize{2, 0, "gres/gpu=1"};
  shares.note = "INC-17 \"quoted\"";
  EXPECT_EQ(parse_record(print_record(shares)), shares);
  shares.task = TaskSize{2};
  EXPECT_EQ(parse_record(print_record(shares)), shares);
}

// It is whose the job is that must be kept.
TEST(Record, KeepsTheWordsOfOthersWhereThereIsRoom) {
  JobRecord record = sample();
  record.note = std::string(kMaxNote + 1, 'x');
  EXPECT_EQ(print_record(record), print_record(sample()));
  const std::size_t room = kMaxRecord - print_record(record).size();
  record.pods.front().name += std::string(room - 100, 'x');
  JobRecord longer = record;
  longer.note = std::string(kMaxNote, 'y');
  record.note.clear();
  EXPECT_EQ(parse_record(print_record(longer)), record);
  EXPECT_EQ(room_for_pods(longer), 2u);
}

TEST(Record, IsReadableBySlurmBridge) {
  EXPECT_TRUE(print_record(sample()).starts_with(R"({"pods":["a/x","a/y"],"bascule":{"v":1,)"));
}

TEST(Record, TakesSlurmBridgesOwnRecords) {
  const auto record = parse_record(R"({"pods":["bar/foo"]})");
  ASSERT_TRUE(record);
  EXPECT_TRUE(record->legacy);
  EXPECT_EQ(record->pods, (std::vector<NamespacedName>{{"bar", "foo"}}));
  EXPECT_EQ(print_record(*record), R"({"pods":["bar/foo"]})");
}

// W3: any JSON object counted as ours, and its job was cancelled.
TEST(Record, LeavesForeignCommentsAlone) {
  for (const char* text : {
           "",
           "a comment",
           "{}",
           "[]",
           "{",
           R"({"owner":"ada"})",
           R"({"pods":null})",
           R"({"pods":[]})",
           R"({"pods":"a/b"})",
           R"({"pods":[1]})",
           R"({"pods":["bare"]})",
           R"({"pods":["a/b/c"]})",
           R"({"pods":["/b"]})",
           R"({"pods":["a/b"],"other":1})",
           R"({"pods":["a/b"],"bascule":{"v":2,"bridge":"b","cluster":"c","unit":"u","spec":"s","uids":["1"]}})",
           R"({"pods":["a/b"],"bascule":{"v":1,"bridge":"b","cluster":"c","unit":"u","spec":"s","uids":[]}})",
           R"({"pods":["a/b"],"bascule":{"v":1,"bridge":"","cluster":"c","unit":"u","spec":"s","uids":["1"]}})",
           R"({"pods":["a/b"],"bascule":{"v":1,"bridge":"b","cluster":"c","unit":"u","spec":"s"}})",
       }) {
    EXPECT_FALSE(parse_record(text)) << text;
  }
}

TEST(Record, RefusesWhatIsTooBig) {
  std::string big = R"({"pods":["a/)" + std::string(std::size_t{2} << 20, 'x') + R"("]})";
  EXPECT_FALSE(parse_record(big));
}

TEST(Record, NamesAsManyPodsAsCanBeReadAgain) {
  JobRecord record = sample();
  record.pods.clear();
  record.uids.clear();
  for (int i = 0; i < 10'000; ++i) {
    record.pods.push_back({"a", std::string(static_cast<std::size_t>(i) % 250, 'x') + std::to_string(i)});
    record.uids.emplace_back("uid-" + std::to_string(i));
  }
  const std::size_t room = room_for_pods(record);
  ASSERT_LT(room, record.pods.size());
  const auto cut = [&record](std::size_t to) {
    JobRecord part = record;
    part.pods.resize(to);
    part.uids.resize(to);
    return print_record(part);
  };
  EXPECT_TRUE(parse_record(cut(room)));
  EXPECT_GT(cut(room + 2).size(), kMaxRecord);
  EXPECT_EQ(room_for_pods(sample()), 2u);
}

TEST(Record, SurvivesCutsAndFlips) {
  const unsigned seed = 7;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const std::string whole = print_record(sample());
  for (std::size_t cut = 0; cut < whole.size(); ++cut) EXPECT_FALSE(parse_record(whole.substr(0, cut)));
  for (int i = 0; i < 2000; ++i) {
    std::string bent = whole;
    bent[random() % bent.size()] = static_cast<char>(random());
    static_cast<void>(parse_record(bent));
  }
}

TEST(Fingerprint, IsTheSameForEver) {
  EXPECT_EQ(fingerprint(""), "cbf29ce484222325");
  EXPECT_EQ(fingerprint("a"), "af63dc4c8601ec8c");
  EXPECT_EQ(fingerprint("foobar"), "85944171f73967e8");
}

}  // namespace
}  // namespace bascule::bridge
