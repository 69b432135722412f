#include "base/uid.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <unordered_set>
#include <vector>

#include "base/strong.hpp"

namespace bascule {
namespace {

static_assert(sizeof(Uid) <= 24);

constexpr const char* kUuid = "0b9f3c1e-77aa-4d52-9c0f-fedcba987654";

std::string random_uuid(std::mt19937_64& random) {
  std::string text = kUuid;
  for (char& letter : text) {
    if (letter != '-') letter = "0123456789abcdef"[random() % 16];
  }
  return text;
}

// UUIDs, and what is nearly one: a letter other, missing or too many, a dash elsewhere.
std::string random_text(std::mt19937_64& random) {
  std::string text = random_uuid(random);
  const std::size_t at = random() % text.size();
  switch (random() % 8) {
    case 0:
      text[at] = "-ABFGg/ :`\0\xff"[random() % 12];
      break;
    case 1:
      text.erase(at, 1);
      break;
    case 2:
      text.insert(at, 1, "0f-"[random() % 3]);
      break;
    case 3:
      std::swap(text[at], text[8]);
      break;
    case 4:
      text.resize(at);
      break;
    case 5:
      text.assign(text.size(), "0-f"[random() % 3]);
      break;
    default:
      break;
  }
  return text;
}

TEST(Uid, GivesBackTheTextItWasMadeOf) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 100'000; ++i) {
    const std::string text = random_text(random);
    const Uid uid(text);
    ASSERT_EQ(uid.str(), text);
    ASSERT_EQ(uid.empty(), text.empty());
  }
}

TEST(Uid, NearlyAUuidIsKeptToTheLetter) {
  const std::vector<std::string> texts = {"",
                                          "u",
                                          kUuid,
                                          "00000000-0000-0000-0000-000000000000",
                                          "00000000-0000-0000-0000-000000000001",
                                          "10000000-0000-0000-0000-000000000000",
                                          "ffffffff-ffff-ffff-ffff-ffffffffffff",
                                          "0B9F3C1E-77AA-4D52-9C0F-FEDCBA987654",
                                          "0b9f3c1e-77aa-4d52-9c0f-fedcba98765",
                                          "0b9f3c1e-77aa-4d52-9c0f-fedcba9876543",
                                          "0b9f3c1e77-aa-4d52-9c0f-fedcba987654",
                                          "0b9f3c1e-77aa-4d52-9c0f-fedcba98765-",
                                          "0b9f3c1e-77aa-4d52-9c0f-fedcba98765g",
                                          "0b9f3c1e077aa04d5209c0f0fedcba987654",
                                          "scheduling.k8s.io/default/a-gang"};
  for (const std::string& text : texts) {
    EXPECT_EQ(Uid(text).str(), text);
    for (const std::string& other : texts) EXPECT_EQ(Uid(text) == Uid(other), text == other) << text << " " << other;
  }
}

TEST(Uid, IsOrderedAndEqualAsItsText) {
  std::mt19937_64 random(2);
  std::vector<std::string> texts;
  for (int i = 0; i < 300; ++i) texts.push_back(random_text(random));
  for (int i = 0; i < 100; ++i) {  // that differ late
    std::string text = texts[random() % texts.size()];
    if (!text.empty()) text.back() = "019af"[random() % 5];
    texts.push_back(text);
  }
  for (const std::string& a : texts) {
    for (const std::string& b : texts) {
      const Uid x(a);
      const Uid y(b);
      ASSERT_EQ(x <=> y, a <=> b) << a << " " << b;
      ASSERT_EQ(x == y, a == b) << a << " " << b;
      if (a == b) ASSERT_EQ(std::hash<Uid>{}(x), std::hash<Uid>{}(y));
    }
  }
}

TEST(Uid, CopiesAndMovesAreWhatTheyWereMadeOf) {
  for (const char* text : {"", kUuid, "scheduling.k8s.io/default/a-gang"}) {
    const Uid uid(text);
    Uid copy = uid;
    const Uid moved = std::move(copy);
    copy = moved;
    EXPECT_EQ(moved, uid);
    EXPECT_EQ(copy.str(), text);
  }
}

TEST(Uid, UuidsThatDifferInFewBitsSpread) {
  constexpr std::size_t kBuckets = 1024;
  constexpr std::size_t kEach = 16;
  for (std::size_t at = 0; at + 4 <= 36; ++at) {  // the four digits from here count
    std::unordered_set<std::size_t> hashes;
    std::array<std::size_t, kBuckets> low{};
    std::array<std::size_t, kBuckets> high{};
    for (std::size_t i = 0; i < kBuckets * kEach; ++i) {
      std::string text = kUuid;
      std::size_t rest = i;
      for (std::size_t digit = at; digit < at + 4; ++digit, rest /= 16) {
        if (text[digit] != '-') text[digit] = "0123456789abcdef"[rest % 16];
      }
      const std::size_t hash = std::hash<Uid>{}(Uid(text));
      if (!hashes.insert(hash).second) continue;  // the dash does not count
      ++low[hash % kBuckets];
      ++high[hash >> 54];
    }
    ASSERT_GE(hashes.size(), 1024u) << at;  // none fall together
    ASSERT_LT(std::ranges::max(low), 4 * kEach) << at;
    ASSERT_LT(std::ranges::max(high), 4 * kEach) << at;
  }
}

TEST(Uid, one_that_was_moved_from_is_harmless) {
  Uid from("gang/x");
  const Uid to = std::move(from);
  EXPECT_EQ(to.str(), "gang/x");
  EXPECT_EQ(from.str(), "");  // NOLINT(bugprone-use-after-move)
  EXPECT_NE(from, to);
}

}  // namespace
}  // namespace bascule
