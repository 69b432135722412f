#include "kube/watch_frame.hpp"

#include <gtest/gtest.h>

#include "json/error.hpp"
#include "json/split.hpp"
#include "kube/objects.hpp"

namespace bascule::kube {
namespace {

using Type = WatchFrame::Type;

// A line with the readable bytes after it that the decoders ask for.
class Line final {
 public:
  explicit Line(std::string_view text) : text_(text), size_(text.size()) { text_.append(json::kPadding, ' '); }
  std::string_view view() const { return std::string_view(text_).substr(0, size_); }

 private:
  std::string text_;
  std::size_t size_;
};

TEST(WatchFrame, ReadsMembersInAnyOrderAndCompany) {
  for (const char* text : {R"({"type":"DELETED","object":{"a":[1,{}]}})", R"({"object":{"a":[1,{}]},"type":"DELETED"})",
                           R"({ "new":{}, "type" : "DELETED", "object" : {"a":[1,{}]} , "x":1 } )"}) {
    const Line line(text);
    const WatchFrame frame = decode_watch_frame(line.view());
    EXPECT_EQ(frame.type, Type::kDeleted) << text;
    EXPECT_EQ(frame.object, R"({"a":[1,{}]})") << text;
  }
}

TEST(WatchFrame, RefusesWhatIsNoEvent) {
  for (const char* text : {R"({"object":{}})", R"({"type":"ADDED"})", R"({"type":"LATER","object":{}})",
                           R"({"type":"ADDED","object":[]})", R"({"type":"ADDED","object":null})"}) {
    const Line line(text);
    EXPECT_THROW(decode_watch_frame(line.view()), json::ShapeError) << text;
  }
}

TEST(WatchFrame, PeeksAtTheUsualForm) {
  const auto added = peek_watch_frame(R"({"type":"ADDED","object":{"a":1}})");
  ASSERT_TRUE(added);
  EXPECT_EQ(added->type, Type::kAdded);
  EXPECT_EQ(added->object, R"({"a":1})");
  const auto modified = peek_watch_frame(R"({"type":"MODIFIED","object":{}})");
  ASSERT_TRUE(modified);
  EXPECT_EQ(modified->type, Type::kModified);
  EXPECT_EQ(modified->object, "{}");
}

TEST(WatchFrame, PeeksAtNothingElse) {
  for (const char* text :
       {"", "{", R"({"type":"ADDED","object":)", R"({"type":"ADDED","object":})", R"({"type":"ADDED","object":}})",
        R"({"type":"ADDED","object":[]})", R"({"type":"ADDED","object":{}} )", R"({"type": "ADDED","object":{}})",
        R"({"type":"DELETED","object":{}})", R"({"type":"BOOKMARK","object":{}})", R"({"type":"ERROR","object":{}})",
        R"({"object":{},"type":"ADDED"})"}) {
    EXPECT_FALSE(peek_watch_frame(text)) << text;
  }
}

// Whatever comes after the object makes the peeked text something that no decoder reads.
TEST(WatchFrame, APeekedObjectThatReadsIsTheObject) {
  json::Interner interner;
  for (const char* text :
       {R"({"type":"ADDED","object":{"metadata":{"name":"a"}},"more":{}})",
        R"({"type":"ADDED","object":{"metadata":{"name":"a"}},"type":"MODIFIED","object":{"metadata":{"name":"b"}}})",
        R"({"type":"ADDED","object":{"metadata":{"name":"a"}}}})", R"({"type":"ADDED","object":{"metadata":{}})"}) {
    const Line line(text);
    const auto frame = peek_watch_frame(line.view());
    ASSERT_TRUE(frame) << text;
    EXPECT_THROW(decode_object_meta(frame->object, interner), json::ParseError) << text;
  }
}

}  // namespace
}  // namespace bascule::kube
