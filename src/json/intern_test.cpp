#include "json/intern.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <unordered_map>
#include <vector>

namespace bascule::json {
namespace {

static_assert(sizeof(InternedString) == 8);

TEST(Intern, KeepsOneCopy) {
  Interner interner;
  const InternedString a = interner("default");
  const InternedString b = interner.intern(std::string("default"));
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.view().data(), b.view().data());
  EXPECT_EQ(a, "default");
  EXPECT_NE(a, interner("kube-system"));
  EXPECT_EQ(interner.size(), 1u);
}

TEST(Intern, EmptyIsDefault) {
  Interner interner;
  EXPECT_EQ(interner(""), InternedString());
  EXPECT_TRUE(interner("").empty());
  EXPECT_EQ(InternedString().view(), "");
  EXPECT_EQ(interner.size(), 0u);
}

TEST(Intern, OrdersByTextAndComparesAcrossInterners) {
  Interner one;
  Interner two;
  EXPECT_EQ(one("a"), two("a"));
  EXPECT_EQ(std::hash<InternedString>{}(one("a")), std::hash<InternedString>{}(two("a")));
  EXPECT_LT(one("a"), two("b"));
  EXPECT_LT(InternedString(), one("a"));
}

TEST(Intern, HandlesOutliveTheInterner) {
  auto interner = std::make_unique<Interner>();
  InternedString kept = interner->intern("kept");
  interner.reset();
  const InternedString copy = kept;
  kept = InternedString();
  EXPECT_EQ(copy, "kept");
}

// Against a plain model: what is held is found, what is not held takes no memory.
TEST(Intern, ForgetsWhatNobodyHolds) {
  std::mt19937_64 random(7);
  Interner interner;
  std::vector<InternedString> held(200);
  for (int step = 0; step < 50'000; ++step) {
    InternedString& slot = held[random() % held.size()];
    const std::string text = std::to_string(random() % 1000);
    slot = random() % 4 == 0 ? InternedString() : interner.intern(text);
    if (!slot.empty()) ASSERT_EQ(slot, text);
    if (step % 1000 == 0) {
      std::unordered_map<std::string, const char*> texts;
      for (const InternedString& h : held) {
        if (h.empty()) continue;
        const auto [at, added] = texts.emplace(h.str(), h.view().data());
        ASSERT_EQ(at->second, h.view().data());
      }
      ASSERT_EQ(interner.size(), texts.size());
    }
  }
  held.clear();
  EXPECT_EQ(interner.size(), 0u);
  EXPECT_LT(interner.bytes(), 8192u);
}

}  // namespace
}  // namespace bascule::json
