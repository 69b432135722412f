#include "slurm/answer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/utf8.hpp"

namespace bascule::slurm {

namespace {

// slurm_errno.h
constexpr std::int32_t kAuthentication = 1007;
constexpr std::int32_t kInvalidJob = 2017;

// Slurm speaks of its protocol where it means the token.
constexpr std::string_view kTokenHint = "; is the token expired, or signed with another key?";

// slurmrestd could not talk to slurmctld, or not to the end: general failure, errno of sockets (1 is what DELETE gives
// while slurmctld is down), 1000 to 1008 unexpected messages, 1800 to 1803 connections to slurmctld, 5000 to 5004
// sockets and time-outs.
bool is_communication(std::int32_t number) noexcept {
  switch (number) {
    case -1:
    case 1:    // EPERM
    case 32:   // EPIPE
    case 104:  // ECONNRESET
    case 110:  // ETIMEDOUT
    case 111:  // ECONNREFUSED
    case 113:  // EHOSTUNREACH
      return true;
    default:
      return (number >= 1000 && number <= 1008) || (number >= 1800 && number <= 1803) ||
             (number >= 5000 && number <= 5004);
  }
}

// Nodes or job busy, an in-between state, MaxJobCount reached: the same request may be taken a little later.
bool is_busy(std::int32_t number) noexcept {
  return number == 2016 || number == 2020 || number == 2007 || number == 11;
}

// Bounded, on one line.
std::string excerpt(std::string_view text) {
  constexpr std::size_t kShown = 160;
  std::string shown(cut_utf8(text, kShown));
  std::ranges::replace_if(shown, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == '\x7f'; }, ' ');
  if (text.size() > kShown) shown += "...";
  return shown;
}

std::string words(const Complaint& complaint) {
  const std::string name = excerpt(complaint.name);
  const std::string description = excerpt(complaint.description);
  std::string text = name.empty() ? description : name;
  if (!name.empty() && !description.empty() && description != name) text += fmt::format(" ({})", description);
  if (text.empty()) text = "no reason given";
  if (complaint.number != 0) text += fmt::format(" [{}]", complaint.number);
  return text;
}

}  // namespace

void throw_transport(const CallName& call, const net::Error& error) {
  using Kind = net::Error::Kind;
  if (error.kind() == Kind::kStopped) throw error;
  const std::string message = fmt::format("{}: {}", call.doing, error.what());
  if ((error.kind() == Kind::kTooLarge || error.kind() == Kind::kMalformed) && !call.writes) {
    throw Malformed(0, 0, message);
  }
  throw Unreachable(0, 0, message, error.surely_not_sent());
}

bool says_unauthorized(int http, const std::vector<Complaint>& complaints) noexcept {
  return http == 401 || http == 511 || std::ranges::any_of(complaints, [](const Complaint& complaint) {
           return complaint.number == kAuthentication;
         });
}

void throw_complaint(const CallName& call, int http, const std::vector<Complaint>& complaints,
                     const std::vector<Complaint>& warnings) {
  Complaint first;
  if (!complaints.empty()) {
    first = complaints.front();
  } else if (!warnings.empty()) {
    first = warnings.front();
  }
  const std::string message = fmt::format("{}: Slurm says: {}", call.doing, words(first));
  if (says_unauthorized(http, complaints))
    throw Unauthorized(http, first.number, fmt::format("{}{}", message, kTokenHint));
  if (is_communication(first.number) || http == 502 || http == 503 || http == 504) {
    throw Unreachable(http, first.number, message, false);
  }
  if (is_busy(first.number) || http == 429) throw Busy(http, first.number, message);
  if (first.number == kInvalidJob || first.number == kInvalidNode) throw NotFound(http, first.number, message);
  throw Refused(http, first.number, message);
}

void throw_foreign(const CallName& call, int http, std::string_view body, std::string_view what) {
  const std::string said = body.empty() ? "an empty body" : fmt::format("\"{}\"", excerpt(body));
  const std::string message = fmt::format("{}: HTTP {} {}: {}", call.doing, http, what, said);
  switch (http) {
    case 401:
    case 511:
      throw Unauthorized(http, 0, fmt::format("{}{}", message, kTokenHint));
    case 429:
      throw Busy(http, 0, message);
    // slurmrestd says these before it looks at the request's content.
    case 400:
    case 403:
    case 404:
    case 405:
    case 406:
    case 413:
    case 415:
      throw Malformed(http, 0, message);
    default:
      break;
  }
  if (http >= 500 || call.writes) throw Unreachable(http, 0, message, false);
  throw Malformed(http, 0, message);
}

}  // namespace bascule::slurm
