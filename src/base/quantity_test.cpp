#include "base/quantity.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <random>

#include "base/big_int.hpp"

namespace bascule {
namespace {

Quantity q(std::string_view text) {
  const auto parsed = Quantity::parse(text);
  if (!parsed) throw std::invalid_argument(std::string(text));
  return *parsed;
}

TEST(Quantity, ReadsAndPrintsTheUsual) {
  EXPECT_EQ(q("500m").str(), "500m");
  EXPECT_EQ(q("0.5").str(), "500m");
  EXPECT_EQ(q("1.5Gi").str(), "1536Mi");
  EXPECT_EQ(q("1024Mi").str(), "1Gi");
  EXPECT_EQ(q("128974848").str(), "128974848");
  EXPECT_EQ(q("129e6").str(), "129e6");
  EXPECT_EQ(q("129M").str(), "129M");
  EXPECT_EQ(q("0").str(), "0");
  EXPECT_EQ(q("0Gi").str(), "0");
  EXPECT_EQ(q("1500").str(), "1500");
  EXPECT_EQ(q("2000").str(), "2k");
  EXPECT_EQ(q("-1.5Ki").str(), "-1536");
  EXPECT_EQ(Quantity(96).str(), "96");
  EXPECT_EQ(Quantity(64ll << 20, Quantity::Format::kBinarySi).str(), "64Mi");
  EXPECT_EQ(Quantity::scaled(1500, -3).str(), "1500m");
}

TEST(Quantity, RefusesWhatIsNone) {
  for (const char* text : {"",
                           " ",
                           "1 ",
                           " 1",
                           "1.2.3",
                           "1Kb",
                           "1ki",
                           "1mi",
                           "1e",
                           "1e+",
                           "1e-",
                           "1e+-3",
                           "1em",
                           "x",
                           "--1",
                           "+-1",
                           "1e99999999999999999999",
                           "1e513",
                           "NaN",
                           "inf",
                           "0x10",
                           "1,5"}) {
    EXPECT_FALSE(Quantity::parse(text)) << '"' << text << '"';
  }
  EXPECT_FALSE(Quantity::parse(std::string(Quantity::kMaxText + 1, '1')));
  EXPECT_TRUE(Quantity::parse(std::string(Quantity::kMaxText, '1')));
}

TEST(Quantity, RoundsUpAtNanoAndCapsBinary) {
  EXPECT_EQ(q("0.1n").str(), "1n");
  EXPECT_EQ(q("-0.1n").str(), "-1n");
  EXPECT_EQ(q("1e-500").str(), "1e-9");
  EXPECT_EQ(q("1e-2000000000").str(), "1e-9");
  EXPECT_EQ(q("8Ei").str(), "9223372036854775807");
  EXPECT_EQ(q("-100Ei").str(), "-9223372036854775807");
  EXPECT_EQ(q("0.0000001Ki").str(), "102400n");
}

TEST(Quantity, WholeUnitsRoundAwayFromZeroAndSaturate) {
  EXPECT_EQ(q("1001m").ceil(), 2);
  EXPECT_EQ(q("-1001m").ceil(), -2);
  EXPECT_EQ(q("1n").ceil(), 1);
  EXPECT_EQ(q("1n").ceil_milli(), 1);
  EXPECT_EQ(q("2.5").ceil_milli(), 2500);
  EXPECT_EQ(q("100E").ceil(), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(q("-1e300").ceil(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(q("9.3E").ceil_milli(), std::numeric_limits<std::int64_t>::max());
}

TEST(Quantity, BeyondTheLargestSuffixKeepsIt) {
  EXPECT_EQ(q("1000E").str(), "1000E");
  EXPECT_EQ((q("1Ei") * 2048).str(), "2048Ei");
  EXPECT_EQ(q("1e30").str(), "1e30");
}

TEST(Quantity, ComparesByValueAlone) {
  EXPECT_EQ(q("1Ki"), q("1024"));
  EXPECT_EQ(q("1e3"), q("1k"));
  EXPECT_LT(q("999m"), q("1"));
  EXPECT_LT(q("-1E"), q("1n"));
  EXPECT_LT(q("1e400"), q("1e401"));
  EXPECT_GT(q("-1e400"), q("-1e401"));
  EXPECT_LT(q("1n"), q("1e50"));
}

TEST(Quantity, SumsAreExactAndZeroTakesTheOthersFormat) {
  EXPECT_EQ((Quantity() + q("1Gi")).str(), "1Gi");
  EXPECT_EQ((q("1Gi") - q("1Gi") + q("500m")).str(), "500m");
  EXPECT_EQ((q("1E") + q("1n")).str(), "1000000000000000000000000001n");
  EXPECT_EQ((q("1E") + q("1n") - q("1n")).str(), "1E");
  EXPECT_EQ((q("9E") + q("9E")).str(), "18E");
  EXPECT_EQ((q("100m") * 10).str(), "1");
  EXPECT_EQ((q("1E") * -10'000'000'000).str(), "-10000000000E");
  const Quantity low(std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ((-low).str(), "9223372036854775808");
  EXPECT_EQ(-(-low), low);
  EXPECT_EQ((q("12345678901234567890123") * 123456789012345).str(), "1524157875323875293552831135650568435");
}

TEST(Quantity, CopiesAndMovesBigOnes) {
  Quantity a = q("123456789012345678901234567890");
  const Quantity copy = a;
  Quantity moved = std::move(a);
  EXPECT_EQ(copy, moved);
  a = copy;
  EXPECT_EQ(a, copy);
  a = *&a;
  EXPECT_EQ(a.str(), "123456789012345678901234567890");
  moved = Quantity(3);
  EXPECT_EQ(moved.str(), "3");
  a -= copy;
  EXPECT_TRUE(a.zero());
}

// Random sums and products, against a walk in 128 bits.
TEST(Quantity, AgreesWithWideIntegers) {
  std::mt19937_64 random(20260101);
  for (int round = 0; round < 3000; ++round) {
    const auto number = [&] { return static_cast<std::int64_t>(random()) >> (random() % 64); };
    const std::int64_t a = number(), b = number();
    const Quantity x(a), y(b);
    const Int128 sum = static_cast<Int128>(a) + b, product = static_cast<Int128>(a) * b;
    ASSERT_EQ((x + y) <=> x, sum <=> static_cast<Int128>(a));
    ASSERT_EQ((x + y - y), x) << a << ' ' << b;
    ASSERT_EQ((x + y).sign(), (sum > 0) - (sum < 0));
    ASSERT_EQ((x * b).sign(), (product > 0) - (product < 0));
    const auto text = (product < 0 ? "-" : "") + BigInt(product).digits();
    ASSERT_EQ(x * b, q(text)) << a << ' ' << b;
    ASSERT_EQ(x * b * 3 - x * b - x * b, x * b) << a << ' ' << b;
  }
}

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields;
  for (std::size_t at = 0; at <= line.size();) {
    const std::size_t end = std::min(line.find('\t', at), line.size());
    fields.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return fields;
}

// Golden lines of tools/oracle/quantity; BASCULE_QUANTITY_CASES names another file of them.
TEST(Quantity, AgreesWithApimachinery) {
  const char* other = std::getenv("BASCULE_QUANTITY_CASES");
  std::ifstream file(other != nullptr ? other : BASCULE_SOURCE_DIR "/src/base/testdata/quantity.tsv");
  ASSERT_TRUE(file);
  const auto check = [](const std::string& mine, const std::string& golden, const std::string& line) {
    if (golden != "?") EXPECT_EQ(mine, golden) << line;
  };
  std::size_t cases = 0;
  for (std::string line; std::getline(file, line) && !testing::Test::HasFailure(); ++cases) {
    const auto f = fields_of(line);
    if (f[0] == "parse") {
      const auto parsed = Quantity::parse(f[1]);
      ASSERT_EQ(parsed.has_value(), f[2] == "ok") << line;
      if (!parsed) continue;
      check(parsed->str(), f[3], line);
      check(std::to_string(parsed->ceil()), f[4], line);
      check(std::to_string(parsed->ceil_milli()), f[5], line);
      const double golden = std::stod(f[6]);
      EXPECT_NEAR(parsed->approximate(), golden, std::abs(golden) * 1e-14) << line;
      EXPECT_EQ(q(parsed->str()), *parsed) << line;
    } else {
      const Quantity a = q(f[1]), b = q(f[2]);
      const auto order = a <=> b;
      EXPECT_EQ((order > 0) - (order < 0), std::stoi(f[3])) << line;
      check((a + b).str(), f[4], line);
      check((a - b).str(), f[5], line);
    }
  }
  EXPECT_GE(cases, 400u);
}

}  // namespace
}  // namespace bascule
