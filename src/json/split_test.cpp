#include "json/split.hpp"

#include <gmock/gmock.h>

#include <random>
#include <string>
#include <vector>

#include "json/random_objects.hpp"
#include "json/value.hpp"

namespace bascule::json {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Feeds `text` in pieces of `size` bytes, each in memory of its own, so that a read beyond a piece is seen by ASan.
template <class Splitter>
std::vector<std::string> split(Splitter& splitter, std::string_view text, std::size_t size) {
  std::vector<std::string> items;
  for (std::size_t at = 0; at < text.size(); at += size) {
    const std::vector<char> piece(text.begin() + at, text.begin() + std::min(text.size(), at + size));
    splitter.feed({piece.data(), piece.size()});
    while (const auto item = splitter.next()) {
      // The padding must be readable.
      volatile char last = *(item->data() + item->size() + kPadding - 1);
      (void)last;
      items.emplace_back(*item);
    }
  }
  return items;
}

std::string failure(std::string_view text, SplitLimits limits = {}, std::size_t size = 7) {
  try {
    ListSplitter splitter(limits);
    split(splitter, text, size);
    splitter.finish();
  } catch (const ParseError& error) {
    return error.what();
  }
  return "none";
}

// Lists of others than Kubernetes have another name for their items, and what stands around them counts.
TEST(ListSplitter, GivesWhatStandsAroundAListOfAnyName) {
  const std::string_view text =
      R"( {"jobs":[{"a":1},{"items":[{}]}], "items": [{}] ,"last_update":{"number":7},"b":null} )";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    ListSplitter splitter({}, "jobs");
    ASSERT_THAT(split(splitter, text, size), ElementsAre(R"({"a":1})", R"({"items":[{}]})")) << size;
    ASSERT_EQ(splitter.frame(), R"({"jobs":[],"items":[{}],"last_update":{"number":7},"b":null})") << size;
  }
  ListSplitter none({}, "jobs");
  split(none, R"({"jobs":null})", 5);
  EXPECT_EQ(none.frame(), R"({"jobs":null})");
  ListSplitter empty;
  split(empty, "{}", 1);
  EXPECT_EQ(empty.frame(), "{}");
  ListSplitter cut({}, "jobs");
  split(cut, R"({"jobs":[{"a":1})", 5);
  EXPECT_THROW(cut.frame(), ParseError);
}

TEST(ListSplitter, TakesKeysInAnyOrder) {
  for (
      const std::string_view text :
      {R"({"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7","continue":"c","remainingItemCount":3},"items":[{"a":"]}\"\\"},{}]})",
       R"( { "items" : [ {"a":"]}\"\\"} , {} ] , "x":[[{}],"]"], "y" : -1.5e3 ,"z":null,
           "metadata":{"remainingItemCount":3,"continue":"c","resourceVersion":"7"},"apiVersion":"v1","kind":"PodList"} )"}) {
    for (std::size_t size = 1; size <= text.size(); ++size) {
      ListSplitter splitter;
      ASSERT_THAT(split(splitter, text, size), ElementsAre(R"({"a":"]}\"\\"})", "{}")) << size;
      const ListMeta meta = splitter.finish();
      ASSERT_EQ(meta.kind, "PodList");
      ASSERT_EQ(meta.api_version, "v1");
      ASSERT_EQ(meta.resource_version, "7");
      ASSERT_EQ(meta.continue_token, "c");
      ASSERT_EQ(meta.remaining, 3);
      ASSERT_EQ(splitter.items(), 2u);
    }
  }
}

TEST(ListSplitter, EmptyLists) {
  EXPECT_EQ(failure(R"({"kind":"PodList","items":[]})"), "none");
  EXPECT_EQ(failure(R"({"kind":"PodList","items":null,"metadata":{}})"), "none");
  EXPECT_EQ(failure(R"({})"), "none");
}

TEST(ListSplitter, RefusesWhatIsNoList) {
  EXPECT_THAT(failure("[]"), HasSubstr("expected an object at byte 0"));
  EXPECT_THAT(failure(R"({"items":{}})"), HasSubstr("items is not an array"));
  EXPECT_THAT(failure(R"({"items":[1]})"), HasSubstr("items[0] is not an object"));
  EXPECT_THAT(failure(R"({"items":[{}{}]})"), HasSubstr("expected a comma"));
  EXPECT_THAT(failure(R"({"items":[{},]})"), HasSubstr("items[1] is not an object"));
  EXPECT_THAT(failure(R"({"items":[],"items":[]})"), HasSubstr("second time"));
  EXPECT_THAT(failure(R"({"a":1 "b":2})"), HasSubstr("expected a comma"));
  EXPECT_THAT(failure(R"({} x)"), HasSubstr("text after the list at byte 3"));
  EXPECT_THAT(failure(R"({"a":})"), HasSubstr("expected a value"));
  EXPECT_THAT(failure(R"({"a":4{}})"), HasSubstr("expected a comma or the end of the object at byte 6"));
  EXPECT_THAT(failure("<html>"), HasSubstr("expected an object"));
}

TEST(ListSplitter, NoticesEveryCut) {
  const std::string text = R"({"kind":"L","items":[{"a":"b"},{}],"metadata":{"resourceVersion":"1"}})";
  for (std::size_t n = 0; n < text.size(); ++n) {
    EXPECT_THAT(failure(text.substr(0, n)), HasSubstr("cut off")) << n;
  }
  EXPECT_THAT(failure(text.substr(0, 26)), HasSubstr("inside items[0]"));
}

TEST(ListSplitter, BoundsItemsAndEnvelope) {
  const std::string big(1000, 'x');
  const SplitLimits limits{.item_bytes = 100, .envelope_bytes = 100};
  for (const std::size_t size : {std::size_t{7}, std::size_t{5000}}) {
    EXPECT_THAT(failure(R"({"items":[{},{"a":")" + big + "\"}]}", limits, size),
                HasSubstr("items[1] is over 100 bytes"));
    EXPECT_THAT(failure(R"({"x":")" + big + "\"}", limits, size), HasSubstr("a field of the list itself"));
    EXPECT_THAT(failure("{\"" + big + "\":1}", limits, size), HasSubstr("a field of the list itself"));
  }
}

TEST(ListSplitter, DoesNotCopyWhatLiesWithinAPiece) {
  const std::string text =
      R"({"items":[{"a":1},{"b":2}],"metadata":{"resourceVersion":"1000000","continue":"aaaaaaaaaaaaaaaaaaaaaaaaaaaa"}})";
  ListSplitter splitter;
  splitter.feed(text);
  const auto item = splitter.next();
  EXPECT_EQ(item->data(), text.data() + 10);
  EXPECT_EQ(splitter.next()->data(), text.data() + 18);
  EXPECT_FALSE(splitter.next());
}

TEST(ListSplitter, RandomListsInRandomPieces) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    random::Objects random(seed);
    Array items;
    std::vector<std::string> expected;
    for (std::size_t n = random.pick(8); n > 0; --n) {
      items.push_back(random.object(StrategicSchema::of("Pod").type()));
      expected.push_back(dump(items.back()));
    }
    Object list{{"kind", "PodList"}, {"items", items}, {"metadata", Object{{"resourceVersion", "5"}}}};
    ListSplitter splitter;
    ASSERT_EQ(split(splitter, dump(list), 1 + random.pick(3000)), expected) << seed;
    ASSERT_EQ(splitter.finish().resource_version, "5");
  }
}

// Strings of nothing but what means something outside of them, in pieces that end anywhere.
TEST(ListSplitter, BracketsAndQuotesInStringsMeanNothing) {
  std::mt19937 random(7);
  const auto pick = [&random](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
  const auto text = [&] {
    std::string out;
    for (std::size_t n = pick(pick(4) == 0 ? 200 : 20); n > 0; --n) out += R"("\{}[],:a)"[pick(10)];
    return out;
  };
  for (int seed = 0; seed < 3'000; ++seed) {
    std::vector<std::string> expected;
    for (std::size_t n = 1 + pick(4); n > 0; --n) {
      Value item(text());
      for (std::size_t depth = pick(12); depth > 0; --depth) {
        if (pick(2) == 0) {
          item = Array{std::move(item), text(), Object{{text(), Array{}}}};
        } else {
          item = Object{{text(), std::move(item)}, {text(), static_cast<std::int64_t>(pick(1000))}};
        }
      }
      expected.push_back(dump(Object{{"x", std::move(item)}}));
    }
    std::string list = R"({"items":[)";
    for (const std::string& item : expected) list += (list.back() == '[' ? "" : ",") + item;
    ListSplitter splitter;
    ASSERT_EQ(split(splitter, list + "]}", 1 + pick(pick(2) == 0 ? 100 : 3000)), expected) << seed;
  }
}

TEST(LineSplitter, CutsAtNewlines) {
  const std::string text = "{\"a\":1}\n\n{\"b\":2}\r\n\r\n" + std::string(200, 'x') + "\nrest";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    LineSplitter splitter;
    ASSERT_THAT(split(splitter, text, size), ElementsAre("{\"a\":1}", "{\"b\":2}", std::string(200, 'x'))) << size;
    ASSERT_EQ(splitter.pending(), 4u);
  }
}

TEST(LineSplitter, PendingIsZeroAtALineEnd) {
  LineSplitter splitter;
  EXPECT_THAT(split(splitter, "{}\n", 2), ElementsAre("{}"));
  EXPECT_EQ(splitter.pending(), 0u);
}

TEST(LineSplitter, BoundsLines) {
  for (const std::size_t size : {std::size_t{3}, std::size_t{500}}) {
    LineSplitter splitter(100);
    EXPECT_EQ(split(splitter, std::string(100, 'x') + "\n", size).size(), 1u);
    EXPECT_THROW(split(splitter, std::string(101, 'x') + "\n", size), LimitError);
  }
}

}  // namespace
}  // namespace bascule::json
