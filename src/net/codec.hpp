// HTTP/1.1 messages from and to bytes, without any I/O: what a connection feeds and asks, step by step.
// Framing rules: RFC 9112 sections 6 and 7. Where framing could be read in two ways (length and chunked together,
// unknown transfer codings), the message is refused, since a peer or proxy may read it the other way.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "net/http.hpp"

namespace bascule::net {

struct MessageHead {
  int version = 11;  // 10 or 11
  std::string method;
  std::string target;
  int status = 0;
  Headers headers;
  bool keep_alive = false;
  bool chunked = false;
  std::optional<std::uint64_t> content_length;
};

class MessageReader final {
 public:
  enum class Role : std::uint8_t { kRequest, kResponse };
  enum class Event : std::uint8_t {
    kNeedMore,  // read into prepare(), then commit(); or end_of_input()
    kHead,      // head() is there
    kPiece,     // piece() is a part of the body, valid until the next call of any kind but head()
    kEnd,       // the message is complete; what follows stays in the buffer
  };

  MessageReader(Role role, std::size_t max_header);
  ~MessageReader();

  // Begins the next message. `bodyless`: the answer to HEAD. Interim answers (1xx) are passed over.
  void start(bool bodyless = false);
  // Throws Error: kMalformed, kTooLarge.
  Event next();
  MessageHead& head() noexcept;
  std::string_view piece() const noexcept { return piece_; }
  // Whether a byte of the message at hand has come.
  bool started() const noexcept { return started_ || begin_ < end_; }

  // Space for at least one byte more; its size grows while reads fill it.
  std::span<char> prepare();
  void commit(std::size_t bytes);
  // Bytes not yet part of a message.
  std::size_t buffered() const noexcept { return end_ - begin_; }
  // The peer has ended its side. `clean` is false when that may be an attacker's cut (TLS without close_notify).
  // Throws kBroken unless the end of input is the framing; then next() says kEnd.
  void end_of_input(bool clean);

 private:
  struct Parser;
  template <bool kIsRequest>
  struct ParserOf;

  std::size_t parse();
  [[noreturn]] void refuse(Error::Kind kind, const std::string& what) const;

  const Role role_;
  const std::size_t max_header_;
  const std::size_t max_buffer_;
  std::unique_ptr<Parser> parser_;
  std::string buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::string_view piece_;
  bool bodyless_ = false;
  bool started_ = false;
  bool head_given_ = false;
  int interim_ = 0;
};

// The bytes of a request before its body. `target` may be the absolute form. Throws Error::kMalformed (not sent) when a
// part would break the framing (a line break in a header, a space in the target).
std::string request_head(const Request& request, std::string_view target, std::string_view host, bool keep_alive);

// The bytes of an answer before its body. Framing headers set by the handler are dropped. Throws std::invalid_argument
// as above.
struct AnswerFraming {
  std::optional<std::uint64_t> content_length;
  bool chunked = false;
  bool keep_alive = false;
  bool say_keep_alive = false;  // to HTTP/1.0 clients
};
std::string answer_head(int status, const Headers& headers, const AnswerFraming& framing, WallTime now);

}  // namespace bascule::net
