// Beast 1.81 asserts that the last chunk of a body has five bytes; an empty body that arrives in pieces has four, and a
// peer could end the process with it. Its parser needs no assertion to be safe: the fuzz target runs without them too.
#define BOOST_DISABLE_ASSERTS

#include "net/codec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/status.hpp>
#include <ctime>

#include "base/check.hpp"

namespace bascule::net {

namespace beast = boost::beast;
namespace http = boost::beast::http;
using beast::error_code;

namespace {

constexpr std::size_t kFirstBuffer = std::size_t{8} << 10;
constexpr std::size_t kReadBuffer = std::size_t{64} << 10;
constexpr int kMaxInterim = 16;

std::string text(beast::string_view view) {
  return std::string(view.data(), view.size());
}

bool same_word(std::string_view a, std::string_view b) {
  return beast::iequals(beast::string_view(a.data(), a.size()), beast::string_view(b.data(), b.size()));
}

}  // namespace

// --- parser ----------------------------------------------------------------------------------------------------------

struct MessageReader::Parser {
  virtual ~Parser() = default;
  virtual std::size_t put(const char* data, std::size_t size, error_code& ec) = 0;
  virtual void put_eof(error_code& ec) = 0;
  virtual bool done() const = 0;
  virtual bool head_done() const = 0;

  MessageHead head;
  std::string_view piece;
};

template <bool kIsRequest>
struct MessageReader::ParserOf final : MessageReader::Parser, http::basic_parser<kIsRequest> {
  using Base = http::basic_parser<kIsRequest>;

  ParserOf(std::size_t max_header, bool bodyless) {
    Base::header_limit(static_cast<std::uint32_t>(max_header));
    Base::body_limit(boost::none);
    Base::skip(bodyless);
  }

  std::size_t put(const char* data, std::size_t size, error_code& ec) override {
    return Base::put(boost::asio::const_buffer(data, size), ec);
  }
  void put_eof(error_code& ec) override { Base::put_eof(ec); }
  bool done() const override { return Base::is_done(); }
  bool head_done() const override { return Base::is_header_done(); }

 private:
  void on_request_impl(http::verb, beast::string_view method, beast::string_view target, int version,
                       error_code&) override {
    head.method = text(method);
    head.target = text(target);
    head.version = version;
  }
  void on_response_impl(int status, beast::string_view, int version, error_code&) override {
    head.status = status;
    head.version = version;
  }
  void on_field_impl(http::field name, beast::string_view name_text, beast::string_view value,
                     error_code& ec) override {
    if (in_body_) return;  // trailers
    if (name == http::field::transfer_encoding && !beast::iequals(value, "chunked")) {
      ec = http::error::bad_transfer_encoding;
      return;
    }
    head.headers.add(text(name_text), text(value));
  }
  void on_header_impl(error_code&) override {
    in_body_ = true;
    head.keep_alive = Base::keep_alive();
    head.chunked = Base::chunked();
    if (const auto length = Base::content_length()) head.content_length = *length;
  }
  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(beast::string_view body, error_code&) override {
    piece = std::string_view(body.data(), body.size());
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t, beast::string_view, error_code&) override {}
  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view body, error_code&) override {
    piece = std::string_view(body.data(), body.size());
    return body.size();
  }
  void on_finish_impl(error_code&) override {}

  bool in_body_ = false;
};

// --- reader ----------------------------------------------------------------------------------------------------------

MessageReader::MessageReader(Role role, std::size_t max_header)
    : role_(role), max_header_(max_header), max_buffer_(std::max(kReadBuffer, max_header + 4096)) {
  start();
}

MessageReader::~MessageReader() = default;

void MessageReader::start(bool bodyless) {
  bodyless_ = bodyless;
  started_ = false;
  head_given_ = false;
  piece_ = {};
  if (role_ == Role::kRequest) {
    parser_ = std::make_unique<ParserOf<true>>(max_header_, bodyless);
  } else {
    parser_ = std::make_unique<ParserOf<false>>(max_header_, bodyless);
  }
}

MessageHead& MessageReader::head() noexcept {
  return parser_->head;
}

void MessageReader::refuse(Error::Kind kind, const std::string& what) const {
  throw Error(kind, (role_ == Role::kRequest ? "the request: " : "the answer: ") + what);
}

MessageReader::Event MessageReader::next() {
  piece_ = {};
  while (true) {
    if (parser_->head_done() && !head_given_) {
      const int status = parser_->head.status;
      if (role_ == Role::kResponse && status / 100 == 1 && status != 101) {
        if (++interim_ > kMaxInterim) refuse(Error::Kind::kMalformed, "interim answers without end");
        start(bodyless_);
        continue;
      }
      interim_ = 0;
      head_given_ = true;
      return Event::kHead;
    }
    if (parser_->done()) return Event::kEnd;
    if (begin_ == end_) return Event::kNeedMore;
    const std::size_t taken = parse();
    if (!piece_.empty()) return Event::kPiece;
    if (taken == 0 && !parser_->done() && (!parser_->head_done() || head_given_)) {
      if (buffered() >= max_buffer_) refuse(Error::Kind::kTooLarge, "a line that does not end");
      return Event::kNeedMore;
    }
  }
}

// Takes one step of the parser; returns how many bytes it took.
std::size_t MessageReader::parse() {
  error_code ec;
  parser_->piece = {};
  started_ = true;
  const std::size_t taken = parser_->put(buffer_.data() + begin_, end_ - begin_, ec);
  begin_ += taken;
  piece_ = parser_->piece;
  if (ec == http::error::header_limit) {
    refuse(Error::Kind::kTooLarge, fmt::format("a header of more than {} bytes", max_header_));
  }
  if (ec && ec != http::error::need_more) refuse(Error::Kind::kMalformed, ec.message());
  return taken;
}

std::span<char> MessageReader::prepare() {
  if (begin_ == end_) begin_ = end_ = 0;
  if (end_ == buffer_.size()) {
    if (begin_ > 0) {
      std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(begin_),
                buffer_.begin() + static_cast<std::ptrdiff_t>(end_), buffer_.begin());
      end_ -= begin_;
      begin_ = 0;
    }
    if (end_ > buffer_.size() / 2 || buffer_.empty()) {
      BASCULE_CHECK(end_ < max_buffer_, "next() refuses a full buffer");
      buffer_.resize(std::min(std::max(buffer_.size() * 2, kFirstBuffer), max_buffer_));
    }
  }
  return {buffer_.data() + end_, buffer_.size() - end_};
}

void MessageReader::commit(std::size_t bytes) {
  end_ += bytes;
  // A read that filled an empty buffer: more is waiting, so the next one may be larger.
  if (end_ == buffer_.size() && begin_ == 0 && buffer_.size() < kReadBuffer) buffer_.resize(buffer_.size() * 2);
}

void MessageReader::end_of_input(bool clean) {
  if (parser_->done()) return;
  if (!started()) refuse(Error::Kind::kBroken, "the connection was closed");
  if (!parser_->head_done()) refuse(Error::Kind::kBroken, "the connection was closed in the header");
  const MessageHead& head = parser_->head;
  if (head.chunked || head.content_length) refuse(Error::Kind::kBroken, "the connection was closed in the body");
  if (!clean) refuse(Error::Kind::kBroken, "the connection was cut in a body that lasts until its end");
  error_code ec;
  parser_->put_eof(ec);
  if (ec) refuse(Error::Kind::kBroken, ec.message());
}

// --- writing ---------------------------------------------------------------------------------------------------------

namespace {

bool is_token(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("!#$%&'*+-.^_`|~").contains(c);
  });
}

bool is_value(std::string_view value) {
  return std::ranges::none_of(value, [](char c) { return c == '\r' || c == '\n' || c == '\0'; });
}

bool is_target(std::string_view target) {
  return !target.empty() &&
         std::ranges::all_of(target, [](char c) { return static_cast<unsigned char>(c) > ' ' && c != '\x7f'; });
}

bool is_framing(std::string_view name) {
  return same_word(name, "content-length") || same_word(name, "transfer-encoding") || same_word(name, "connection");
}

// The name of the first field that cannot be written.
std::optional<std::string> bad_field(const Headers& headers) {
  for (const auto& [name, value] : headers.fields()) {
    if (!is_token(name) || !is_value(value)) return name;
  }
  return std::nullopt;
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ").append(value).append("\r\n");
}

// RFC 9110 section 5.6.7.
std::string http_date(WallTime now) {
  static constexpr const char* kDays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::time_t seconds = std::chrono::floor<std::chrono::seconds>(now).time_since_epoch().count();
  std::tm tm{};
  gmtime_r(&seconds, &tm);
  return fmt::format("{}, {:02} {} {} {:02}:{:02}:{:02} GMT", kDays[tm.tm_wday], tm.tm_mday, kMonths[tm.tm_mon],
                     tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

}  // namespace

std::string request_head(const Request& request, std::string_view target, std::string_view host, bool keep_alive) {
  const auto refuse = [](const std::string& what) { throw Error(Error::Kind::kMalformed, what, Error::Sent::kNo); };
  if (!is_token(request.method)) refuse("the method is not a token");
  if (!is_target(target)) refuse("the target has a space or control character, or is empty");
  if (const auto name = bad_field(request.headers)) refuse("the header \"" + *name + "\" cannot be sent");
  std::string out;
  out.reserve(512);
  out.append(request.method).append(" ").append(target).append(" HTTP/1.1\r\n");
  append_field(out, "Host", host);
  for (const auto& [name, value] : request.headers.fields()) {
    if (!is_framing(name) && !same_word(name, "host")) append_field(out, name, value);
  }
  const bool expects_body = request.method == "POST" || request.method == "PUT" || request.method == "PATCH";
  if (!request.body.empty() || expects_body) append_field(out, "Content-Length", std::to_string(request.body.size()));
  if (!keep_alive) append_field(out, "Connection", "close");
  out.append("\r\n");
  return out;
}

std::string answer_head(int status, const Headers& headers, const AnswerFraming& framing, WallTime now) {
  if (status < 200 || status > 599) throw std::invalid_argument(fmt::format("status {} cannot be sent", status));
  if (const auto name = bad_field(headers)) throw std::invalid_argument("the header \"" + *name + "\" cannot be sent");
  const beast::string_view reason = http::obsolete_reason(http::int_to_status(static_cast<unsigned>(status)));
  std::string out;
  out.reserve(256);
  out.append(fmt::format("HTTP/1.1 {} {}\r\n", status, std::string_view(reason.data(), reason.size())));
  for (const auto& [name, value] : headers.fields()) {
    if (!is_framing(name)) append_field(out, name, value);
  }
  if (!headers.has("Date")) append_field(out, "Date", http_date(now));
  if (framing.chunked) append_field(out, "Transfer-Encoding", "chunked");
  if (framing.content_length) append_field(out, "Content-Length", std::to_string(*framing.content_length));
  if (!framing.keep_alive) append_field(out, "Connection", "close");
  if (framing.keep_alive && framing.say_keep_alive) append_field(out, "Connection", "keep-alive");
  out.append("\r\n");
  return out;
}

}  // namespace bascule::net
