// The helper containers' scripts, run with their commands replaced.
#include "operator/builders/scripts.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace bascule::op {
namespace {

std::string folder() {
  std::string path = (std::filesystem::temp_directory_path() / "bascule-scripts-XXXXXX").string();
  return ::mkdtemp(path.data()) ? path : std::string();
}

// A31: slurmctld refuses for 40 looks, 80 s of the script's time. Every look would be a try without the pauses.
TEST(ScriptsTest, A31_ARefusedConfigurationIsTriedEverMoreSeldom) {
  const std::string dir = folder();
  ASSERT_FALSE(dir.empty());
  std::filesystem::create_directory(dir + "/slurm");
  std::ofstream(dir + "/slurm/slurm.conf") << "A=1\n";
  std::string script(scripts::kReconfigure);
  const std::string at = "dir=/etc/slurm";
  ASSERT_NE(script.find(at), std::string::npos);
  script.replace(script.find(at), at.size(), "dir=" + dir + "/slurm");
  std::ofstream(dir + "/run") << "looks=0\n"
                                 "sleep() { SECONDS=$((SECONDS + $1)); looks=$((looks + 1)); echo A=2 > "
                              << dir
                              << "/slurm/slurm.conf; [ $looks -lt 40 ] || exit 0; }\n"
                                 "scontrol() { echo x >> "
                              << dir << "/tries; return 1; }\n"
                              << script;
  ASSERT_EQ(std::system(("bash " + dir + "/run > " + dir + "/out 2>&1").c_str()), 0);
  std::ifstream file(dir + "/tries");
  int tries = 0;
  for (std::string line; std::getline(file, line);) ++tries;
  EXPECT_GE(tries, 2);
  EXPECT_LE(tries, 20) << "2, 4, 8, 16 and 32 s lie between them";
  std::filesystem::remove_all(dir);
}

}  // namespace
}  // namespace bascule::op
