#include "net/codec.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace bascule::net {
namespace {

using Role = MessageReader::Role;
using Event = MessageReader::Event;

struct Read {
  int heads = 0;
  std::string body;
  bool ended = false;
  std::string failure = "none";
  std::size_t left = 0;  // bytes behind the message
};

// Feeds bytes in pieces of the given sizes (the last one repeats), then the end of input.
Read read_all(Role role, std::string_view wire, const std::vector<std::size_t>& sizes, bool clean = true) {
  Read out;
  MessageReader reader(role, 4096);
  std::size_t turn = 0;
  try {
    while (!out.ended) {
      switch (reader.next()) {
        case Event::kHead:
          ++out.heads;
          break;
        case Event::kPiece:
          out.body += reader.piece();
          break;
        case Event::kEnd:
          out.ended = true;
          break;
        case Event::kNeedMore: {
          if (wire.empty()) {
            reader.end_of_input(clean);
            break;
          }
          const std::span<char> space = reader.prepare();
          const std::size_t size = std::min({sizes[std::min(turn, sizes.size() - 1)], space.size(), wire.size()});
          ++turn;
          std::memcpy(space.data(), wire.data(), size);
          reader.commit(size);
          wire.remove_prefix(size);
        }
      }
    }
  } catch (const Error& e) {
    out.failure = to_string(e.kind());
  }
  out.left = reader.buffered() + wire.size();
  return out;
}

TEST(MessageReader, ReadsARequestByteForByteAndAtOnce) {
  const std::string wire =
      "POST /x HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;ext=1\r\nabc\r\n2\r\nde\r\n0\r\nT: "
      "v\r\n\r\nGET";
  for (const std::size_t size : {1U, 2U, 3U, 7U, 1000U}) {
    const Read out = read_all(Role::kRequest, wire, {size});
    EXPECT_EQ(out.failure, "none") << size;
    EXPECT_EQ(out.heads, 1);
    EXPECT_EQ(out.body, "abcde");
    EXPECT_TRUE(out.ended);
    EXPECT_EQ(out.left, 3U) << "the next request stays";
  }
}

TEST(MessageReader, ReadsAnEmptyChunkedBodyInAnyPieces) {
  const std::string wire = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
  for (std::size_t first = 1; first < wire.size(); ++first) {
    for (std::size_t second = 1; second < 6; ++second) {
      const Read out = read_all(Role::kResponse, wire, {first, second, 1});
      EXPECT_EQ(out.failure, "none") << first << " " << second;
      EXPECT_TRUE(out.ended);
    }
  }
}

TEST(MessageReader, GivesTheHead) {
  MessageReader reader(Role::kRequest, 4096);
  const std::string_view wire = "PUT /a?b HTTP/1.0\r\nA:  x y \r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n";
  std::memcpy(reader.prepare().data(), wire.data(), wire.size());
  reader.commit(wire.size());
  ASSERT_EQ(reader.next(), Event::kHead);
  const MessageHead& head = reader.head();
  EXPECT_EQ(head.method, "PUT");
  EXPECT_EQ(head.target, "/a?b");
  EXPECT_EQ(head.version, 10);
  EXPECT_EQ(head.headers.get("a"), "x y");
  EXPECT_TRUE(head.keep_alive);
  EXPECT_EQ(head.content_length, 0U);
  EXPECT_EQ(reader.next(), Event::kEnd);
  EXPECT_EQ(reader.next(), Event::kEnd);
}

TEST(MessageReader, BoundsHeadersAndLines) {
  EXPECT_EQ(read_all(Role::kRequest, "GET /" + std::string(100'000, 'a'), {1000}).failure, "too large");
  EXPECT_EQ(read_all(Role::kRequest, "GET / HTTP/1.1\r\nX: " + std::string(100'000, 'a'), {1000}).failure, "too large");
  EXPECT_EQ(read_all(Role::kResponse,
                     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + std::string(200'000, 'e'), {1000})
                .failure,
            "too large");
  EXPECT_EQ(
      read_all(Role::kResponse,
               "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nT: " + std::string(200'000, 'e'), {1000})
          .failure,
      "too large");
  std::string interim;
  for (int i = 0; i < 100; ++i) interim += "HTTP/1.1 102 Processing\r\n\r\n";
  EXPECT_EQ(read_all(Role::kResponse, interim, {1000}).failure, "malformed");
}

TEST(MessageReader, AnEndIsAnEndOnlyWhenTheFramingSaysSo) {
  EXPECT_EQ(read_all(Role::kResponse, "HTTP/1.1 200 OK\r\n\r\nabc", {5}).failure, "none");
  EXPECT_EQ(read_all(Role::kResponse, "HTTP/1.1 200 OK\r\n\r\nabc", {5}, false).failure, "broken");
  EXPECT_EQ(read_all(Role::kResponse, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc", {5}).failure, "broken");
  EXPECT_EQ(read_all(Role::kResponse, "HTTP/1.1 100 Continue\r\n\r\n", {5}).failure, "broken");
  EXPECT_EQ(read_all(Role::kResponse, "", {5}).failure, "broken");
}

// A chunked answer of random chunks, cut at every offset, fed in random pieces: what is read is a prefix of what was
// sent, and never a regular end but for the whole.
TEST(MessageReader, ARandomChunkedAnswerCutAnywhereIsAPrefixAndBroken) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 20; ++round) {
    std::string body;
    std::string wire = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    const int chunks = static_cast<int>(random() % 12);
    for (int i = 0; i < chunks; ++i) {
      std::string piece(1 + random() % 40, '\0');
      for (char& c : piece) c = static_cast<char>(random() % 4 == 0 ? "\r\n0;"[random() % 4] : random() % 256);
      char line[32];
      std::snprintf(line, sizeof line, "%s%zX%s\r\n", random() % 2 ? "0" : "", piece.size(),
                    random() % 4 ? "" : ";a=b");
      wire += line + piece + "\r\n";
      body += piece;
    }
    wire += random() % 2 ? "0\r\n\r\n" : "0\r\nTrailer: x\r\n\r\n";
    for (std::size_t cut = 0; cut <= wire.size(); ++cut) {
      std::vector<std::size_t> sizes;
      for (int i = 0; i < 50; ++i) sizes.push_back(1 + random() % 60);
      const Read out = read_all(Role::kResponse, std::string_view(wire).substr(0, cut), sizes, random() % 2 == 0);
      ASSERT_EQ(out.failure, cut == wire.size() ? "none" : "broken") << "cut " << cut << " of " << wire.size();
      ASSERT_EQ(out.ended, cut == wire.size());
      ASSERT_TRUE(body.starts_with(out.body));
    }
  }
}

// Whatever comes, reading ends with a message or an Error.
TEST(MessageReader, SurvivesMutations) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::string good =
      "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nConnection: keep-alive, x\r\nTransfer-Encoding: chunked\r\n\r\n"
      "a\r\n0123456789\r\n1;x=\"y\"\r\nz\r\n0\r\nA: b\r\n\r\n";
  for (int i = 0; i < 5000; ++i) {
    std::string wire = good;
    for (unsigned k = 0; k < 1 + random() % 3; ++k) {
      const std::size_t at = random() % wire.size();
      switch (random() % 3) {
        case 0:
          wire[at] = static_cast<char>(random() % 256);
          break;
        case 1:
          wire.erase(at, 1 + random() % 3);
          break;
        default:
          wire.insert(at, wire.substr(random() % wire.size(), random() % 8));
      }
    }
    read_all(random() % 4 == 0 ? Role::kRequest : Role::kResponse, wire, {1 + random() % 30});
  }
}

TEST(RequestHead, WritesFramingItself) {
  Request request{.method = "POST", .body = "abc"};
  request.headers.add("transfer-encoding", "chunked");
  request.headers.add("Connection", "close");
  request.headers.add("X", "y");
  EXPECT_EQ(request_head(request, "/t", "host", true),
            "POST /t HTTP/1.1\r\nHost: host\r\nX: y\r\nContent-Length: 3\r\n\r\n");
  EXPECT_EQ(request_head({}, "/", "h", false), "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(request_head({.method = "PATCH"}, "/", "h", true),
            "PATCH / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n");
}

TEST(AnswerHead, WritesTheDate) {
  const WallTime when = std::chrono::sys_days{std::chrono::year{2026} / 2 / 3} + std::chrono::hours(4);
  EXPECT_EQ(answer_head(404, {}, {.content_length = 3, .keep_alive = true}, when),
            "HTTP/1.1 404 Not Found\r\nDate: Tue, 03 Feb 2026 04:00:00 GMT\r\nContent-Length: 3\r\n\r\n");
  EXPECT_THROW(answer_head(199, {}, {}, when), std::invalid_argument);
}

}  // namespace
}  // namespace bascule::net
