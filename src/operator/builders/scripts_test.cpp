// The helper containers' scripts, run with their commands replaced.
#include "operator/builders/scripts.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "operator/config/hash.hpp"

namespace bascule::op {
namespace {

std::string folder() {
  std::string path = (std::filesystem::temp_directory_path() / "bascule-scripts-XXXXXX").string();
  return ::mkdtemp(path.data()) ? path : std::string();
}

// The reconfigure sidecar over a folder of its own. `scontrol show config` says the digest in the file `running`,
// `scontrol reconfigure` does what `reconfigure` says and is counted; so many looks, 2 s apart, `at_look` before each.
class Sidecar final {
 public:
  Sidecar() : dir_(folder()) { std::filesystem::create_directory(dir_ + "/slurm"); }
  ~Sidecar() { std::filesystem::remove_all(dir_); }

  void file(const std::string& digest) { write("slurm/slurm.conf", "SlurmctldParameters=x,config_digest=" + digest); }
  void running(const std::string& digest) { write("running", digest); }
  void key(const std::string& key) { write("slurm/slurm.key", key); }
  void made_for(const std::string& key) { key_hash_ = sha256_hex(key + "\n"); }
  std::string running() const { return read("running"); }
  // Takes what is in the file.
  static constexpr const char* kTake = "sed 's/.*config_digest=//' slurm/slurm.conf > running";

  int tries(const std::string& reconfigure, const std::string& at_look, int looks) {
    std::string script(scripts::kReconfigure);
    const std::string at = "dir=/etc/slurm";
    script.replace(script.find(at), at.size(), "dir=" + dir_ + "/slurm");
    std::filesystem::remove(dir_ + "/tries");
    write("run", "cd " + dir_ +
                     "\nlooks=0\nconf() { echo \"SlurmctldParameters=x,config_digest=$1\" > slurm/slurm.conf; }\n" +
                     "sleep() { SECONDS=$((SECONDS + $1)); looks=$((looks + 1)); " + at_look + "\n[ $looks -lt " +
                     std::to_string(looks) + " ] || exit 0; }\n" +
                     "scontrol() {\n  case $1 in\n    show) [ -s running ] && echo \"SlurmctldParameters     = "
                     "x,config_digest=$(cat running)\" ;;\n    *) echo x >> tries; " +
                     reconfigure + " ;;\n  esac\n}\n" + script);
    EXPECT_EQ(std::system(("SLURM_KEY_HASH=" + key_hash_ + " bash " + dir_ + "/run > " + dir_ + "/out 2>&1").c_str()),
              0)
        << read("out");
    std::ifstream file(dir_ + "/tries");
    int tries = 0;
    for (std::string line; std::getline(file, line);) ++tries;
    return tries;
  }
  std::string said() const { return read("out"); }
  int said(std::string_view words) const {
    const std::string text = said();
    int times = 0;
    for (auto at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++times;
    return times;
  }

 private:
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_ + "/" + name) << text << '\n';
  }
  std::string read(const std::string& name) const {
    std::ifstream file(dir_ + "/" + name);
    std::string text{std::istreambuf_iterator<char>(file), {}};
    while (text.ends_with('\n')) text.pop_back();
    return text;
  }
  std::string dir_, key_hash_;
};

constexpr const char* kRefuse = "return 1";

// A31: slurmctld refuses for 40 looks, 80 s of the script's time. Every look would be a try without the pauses.
TEST(ScriptsTest, A31_ARefusedConfigurationIsTriedEverMoreSeldom) {
  Sidecar sidecar;
  sidecar.file("a");
  sidecar.running("a");
  const int tries = sidecar.tries(kRefuse, "conf b", 40);
  EXPECT_GE(tries, 2);
  EXPECT_LE(tries, 20) << "2, 4, 8, 16 and 32 s lie between them";
}

TEST(ScriptsTest, A31_AConfigurationThatWasRefusedBeforeTheSidecarStartedIsTriedAgain) {
  Sidecar sidecar;
  sidecar.file("b");
  sidecar.running("a");
  EXPECT_EQ(sidecar.tries(Sidecar::kTake, ":", 5), 1);
  EXPECT_EQ(sidecar.running(), "b");
}

TEST(ScriptsTest, A31_NothingIsDoneAtStartWhereSlurmctldRunsWhatIsThere) {
  Sidecar sidecar;
  sidecar.file("a");
  EXPECT_EQ(sidecar.tries(kRefuse, "[ $looks -lt 3 ] || echo a > running", 6), 0)
      << "slurmctld answers at the third look";
  EXPECT_NE(sidecar.said().find("slurmctld took the new configuration"), std::string::npos) << "`explain` waits for it";
}

// b is taken, but the answer is lost; then the file is a again.
TEST(ScriptsTest, A31_WhatWasTakenAlthoughTheAnswerWasLostIsTakenBack) {
  Sidecar sidecar;
  sidecar.file("a");
  sidecar.running("a");
  const std::string lost = std::string(Sidecar::kTake) + "; [ \"$(cat running)\" = a ]";
  sidecar.tries(lost, "case $looks in 2) conf b ;; 3) conf a ;; esac", 8);
  EXPECT_EQ(sidecar.running(), "a");
}

// Workers keep the key that they were started with: when slurmctld takes another is the operator's to say.
TEST(ScriptsTest, AnotherKeyAloneIsNotTaken) {
  Sidecar sidecar;
  sidecar.file("a");
  sidecar.running("a");
  EXPECT_EQ(sidecar.tries("true", "[ $looks != 3 ] || echo rotated > slurm/slurm.key", 10), 0) << sidecar.said();
}

constexpr const char* kKept = "slurmctld keeps its configuration, ";

// slurmctld would take the key with the configuration, and jobs on workers that have the old one would be lost. A
// changed JWT key is a file as any other.
TEST(ScriptsTest, WithAnotherKeyThanItsPodWasMadeForNothingIsReconfigured) {
  for (const std::string change : {"conf b", "echo x > slurm/jwt.key", "echo x > slurm/gres.conf"}) {
    for (const bool comes_back : {false, true}) {
      Sidecar sidecar;
      sidecar.file("a");
      sidecar.running("a");
      sidecar.key("old");
      sidecar.made_for("old");
      const std::string looks = "case $looks in 3) echo rotated > slurm/slurm.key ;; 5) " + change + " ;; " +
                                (comes_back ? "12) echo old > slurm/slurm.key ;; " : "") + "esac";
      EXPECT_EQ(sidecar.tries(Sidecar::kTake, looks, 20), comes_back ? 1 : 0) << sidecar.said();
      EXPECT_EQ(sidecar.said(kKept), 1) << sidecar.said();
    }
  }
}

// A try that slurmctld refused comes again by itself.
TEST(ScriptsTest, WhatWasWrittenBeforeTheKeyChangedWaitsForItToo) {
  Sidecar sidecar;
  sidecar.file("a");
  sidecar.running("a");
  sidecar.key("old");
  sidecar.made_for("old");
  const int tries = sidecar.tries(kRefuse, "case $looks in 2) conf b ;; 4) echo rotated > slurm/slurm.key ;; esac", 40);
  EXPECT_GE(tries, 1);
  EXPECT_LE(tries, 2) << "the pauses alone would let 5 through";
  EXPECT_EQ(sidecar.said(kKept), 1) << sidecar.said();
}

// A kubelet may give a new pod the old key for a while: slurmctld was started with it.
TEST(ScriptsTest, AKeyThatComesLateIsTaken) {
  Sidecar sidecar;
  sidecar.file("a");
  sidecar.running("a");
  sidecar.key("old");
  sidecar.made_for("new");
  EXPECT_EQ(sidecar.tries(Sidecar::kTake, "[ $looks != 6 ] || echo new > slurm/slurm.key", 12), 1) << sidecar.said();
}

// Of two sidecars the other one may have told slurmctld before this pod had the files: its own slurmctld, a standby,
// would stay with the old ones.
TEST(ScriptsTest, A31_AChangeIsToldAlsoWhereTheServingSlurmctldHasItAlready) {
  Sidecar sidecar;
  sidecar.file("a");
  sidecar.running("a");
  EXPECT_EQ(sidecar.tries(Sidecar::kTake, "[ $looks -ne 2 ] || { conf b; echo b > running; }", 6), 1);
}

}  // namespace
}  // namespace bascule::op
