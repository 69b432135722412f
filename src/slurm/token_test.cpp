#include "slurm/token.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/base64.hpp"
#include "base/manual_loop.hpp"
#include "base/time.hpp"
#include "slurm/error.hpp"
#include "slurm/test_support.hpp"

namespace bascule::slurm {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

WallTime at(std::int64_t epoch) {
  return WallTime(std::chrono::seconds(epoch));
}

// Checked against `openssl dgst -sha256 -hmac key`.
TEST(SlurmToken, SignsHs256) {
  EXPECT_EQ(sign_token("key", "root", at(1700000000), 1h),
            "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpYXQiOjE3MDAwMDAwMDAsImV4cCI6MTcwMDAwMzYwMCwic3VuIjoicm9vdCJ9."
            "kD0pf0LdOD6paxJLKNVGTVXThgjcKSkiaL25QmcbAQA");
  EXPECT_THROW(sign_token("", "root", at(0), 1h), Unauthorized);
}

TEST(SlurmToken, KeyTokensAreMadeAnewInTime) {
  ManualLoop loop;
  const TokenSource source = key_token(loop, "key", "root", 10min);
  const std::string first = test::run(loop, source(false));
  loop.advance(4min);
  EXPECT_EQ(test::run(loop, source(false)), first);
  loop.advance(2min);
  const std::string second = test::run(loop, source(false));
  EXPECT_NE(second, first);
  loop.step_wall(-1h);
  EXPECT_NE(test::run(loop, source(false)), second);
}

// For a slurmctld whose clock is an hour ahead each was over when it came.
TEST(SlurmToken, AfterARefusalTheNextIsGoodForLonger) {
  ManualLoop loop;
  const TokenSource source = key_token(loop, "key", "root", 10min);
  EXPECT_EQ(times_of(test::run(loop, source(false))).expires, loop.wall() + 10min);
  const std::string longer = test::run(loop, source(true));
  EXPECT_GE(times_of(longer).expires, loop.wall() + 2h);
  loop.advance(4min);
  EXPECT_EQ(test::run(loop, source(false)), longer);
  loop.advance(2min);
  EXPECT_EQ(times_of(test::run(loop, source(false))).expires, loop.wall() + 10min);
}

std::string jwt(std::string_view claims) {
  return "e30." + base64url_encode(claims) + ".c2lnbmF0dXJl";
}

TEST(SlurmToken, SaysItselfWhenItExpires) {
  const TokenTimes times = times_of(sign_token("key", "root", at(1700000000), 1h));
  EXPECT_EQ(times.issued, at(1700000000));
  EXPECT_EQ(times.expires, at(1700003600));
  EXPECT_EQ(times_of(jwt(R"({"exp":4294967295})")).expires, at(4294967295));
  EXPECT_EQ(times_of(jwt(R"({"exp":1700003600.0})")).expires, at(1700003600));
  for (const std::string& without :
       {std::string(), std::string("word"), std::string("a.b"), std::string("a.*.c"), jwt(""), jwt("{"), jwt("[1]"),
        jwt("{}"), jwt(R"({"exp":null})"), jwt(R"({"exp":"soon"})"), jwt(R"({"exp":-1})"),
        jwt(R"({"exp":99999999999999})"), jwt(R"({"exp":1e300})"), jwt(std::string(100'000, '['))}) {
    EXPECT_FALSE(times_of(without).expires) << without;
  }
}

TEST(SlurmToken, AnotherTokenIsToldOfOnce) {
  ManualLoop loop;
  std::vector<TokenTimes> told;
  const TokenSource source =
      watched(key_token(loop, "key", "root", 10min), [&told](const TokenTimes& times) { told.push_back(times); });
  const WallTime begun = loop.wall();
  const std::string first = test::run(loop, source(false));
  loop.advance(4min);
  EXPECT_EQ(test::run(loop, source(false)), first);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(epoch_seconds(*told[0].expires), epoch_seconds(begun + 10min));
  loop.advance(2min);
  EXPECT_NE(test::run(loop, source(false)), first);
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(epoch_seconds(*told[1].expires), epoch_seconds(begun + 16min));
}

struct TokenFile : ::testing::Test {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("bascule_token_" + std::to_string(::getpid()));
  ManualLoop loop;
  void write(std::string_view text) const { std::ofstream(path) << text; }
  void TearDown() override { std::filesystem::remove(path); }
  std::string error_of(const TokenSource& source) {
    try {
      return "no error: " + test::run(loop, source(false));
    } catch (const Unauthorized& e) {
      return e.what();
    }
  }
};

TEST_F(TokenFile, IsReadAgainWhenItChanges) {
  const TokenSource source = file_token(path);
  write("SLURM_JWT=abc\n");
  EXPECT_EQ(test::run(loop, source(false)), "abc");
  write("  abcd  \n");
  EXPECT_EQ(test::run(loop, source(false)), "abcd");
}

TEST_F(TokenFile, ErrorsNameTheFileAndNotTheToken) {
  const TokenSource source = file_token(path);
  EXPECT_THAT(error_of(source), HasSubstr(path.string()));
  write("\n");
  EXPECT_THAT(error_of(source), HasSubstr("is empty"));
  write("secret1 secret2");
  EXPECT_THAT(error_of(source), HasSubstr("more than one word"));
  EXPECT_THAT(error_of(source), Not(HasSubstr("secret")));
  EXPECT_THAT(error_of(fixed_token("")), HasSubstr("is empty"));
}

}  // namespace
}  // namespace bascule::slurm
