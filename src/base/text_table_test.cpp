#include "base/text_table.hpp"

#include <gtest/gtest.h>

namespace bascule {
namespace {

TEST(TextTableTest, ColumnsAlignByCharacters) {
  TextTable table({"NAME", "STATE", "WHY"});
  table.add({"größe", "RUNNING", ""});
  table.add({"a", "", "because"});
  EXPECT_EQ(table.str(false, "  "),
            "  NAME   STATE    WHY\n"
            "  größe  RUNNING  -\n"
            "  a      -        because\n");
}
TEST(TextTableTest, ColoursDoNotMoveColumns) {
  TextTable table({"A", "B"});
  table.add({{"x", colour::kGreen}, "y"});
  EXPECT_EQ(table.str(true), "\x1b[1mA\x1b[0m  \x1b[1mB\x1b[0m\n\x1b[32mx\x1b[0m  y\n");
}
TEST(TextTableTest, NobodysNameCommandsTheTerminal) {
  EXPECT_EQ(plain_text("a\x1b[2Jb\nc\x7f\xc2\x9b!"),
            "a?[2Jb?c?"
            "?!");
  EXPECT_EQ(plain_text("é \xc2\xa0 …"), "é \xc2\xa0 …");
}
TEST(TextTableTest, LongTextsAreCutAtCharacters) {
  EXPECT_EQ(cut_text("größer", 6), "größer");
  EXPECT_EQ(cut_text("größer", 4), "grö…");
  EXPECT_EQ(cut_text("", 4), "");
}

}  // namespace
}  // namespace bascule
