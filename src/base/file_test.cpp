#include "base/file.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

namespace bascule {
namespace {

struct FileTest : testing::Test {
  FileTest() {
    std::string name = (std::filesystem::temp_directory_path() / "bascule-file-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error(name);
    folder = name;
  }
  ~FileTest() override { std::filesystem::remove_all(folder); }

  std::string write(const std::string& text) const {
    std::ofstream(folder / "file", std::ios::binary) << text;
    return (folder / "file").string();
  }
  std::filesystem::path folder;
};

TEST_F(FileTest, ReadsAllOfIt) {
  EXPECT_EQ(read_file(write(""), 0), "");
  EXPECT_EQ(read_file(write(std::string("a\0\r\n", 4)), 100), std::string("a\0\r\n", 4));
  const std::string large(100'000, 'x');
  EXPECT_EQ(read_file(write(large), large.size()), large);
}

TEST_F(FileTest, KeepsItsLimit) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{16} << 10, std::size_t{100'000}}) {
    const auto text = read_file(write(std::string(size, 'x')), size - 1);
    ASSERT_FALSE(text);
    EXPECT_TRUE(text.error().too_large);
    EXPECT_EQ(text.error().why, "has more than " + std::to_string(size - 1) + " bytes");
  }
  EXPECT_FALSE(read_file("/dev/zero", 1 << 20)) << "a file without an end";
}

TEST_F(FileTest, SaysWhyItCannotBeRead) {
  const auto missing = read_file((folder / "missing").string(), 10);
  ASSERT_FALSE(missing);
  EXPECT_FALSE(missing.error().too_large);
  EXPECT_EQ(missing.error().why, "No such file or directory");
  const auto directory = read_file(folder.string(), 10);
  ASSERT_FALSE(directory);
  EXPECT_EQ(directory.error().why, "Is a directory");
}

TEST_F(FileTest, ReadsAPipe) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  ASSERT_EQ(::write(ends[1], "abc", 3), 3);
  ::close(ends[1]);
  EXPECT_EQ(read_file("/dev/fd/" + std::to_string(ends[0]), 3), "abc");
  ::close(ends[0]);
}

}  // namespace
}  // namespace bascule
