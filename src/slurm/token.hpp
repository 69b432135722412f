// Where the JWT for slurmrestd comes from. Tokens are never logged.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/loop.hpp"
#include "base/task.hpp"

namespace bascule::slurm {

// The token for the next request. `refresh` is true after the last one was refused. Throws slurm::Unauthorized with a
// sentence that names the file or key and the remedy.
using TokenSource = std::function<Task<std::string>(bool refresh)>;

TokenSource fixed_token(std::string token);
// Read for every request (cheaply: again only when the file changed). Accepts the bare token or SLURM_JWT=<token>,
// white space around.
TokenSource file_token(std::string path);
// Signs HS256 tokens {iat, exp, sun} with the raw key bytes of jwt_hs256.key; made anew before half of `lifetime` has
// passed. In place of one that was refused it makes one for a day more: Slurm's clock may be ahead.
TokenSource key_token(const Clock& clock, std::string key, std::string user, Duration lifetime);
// What a token says of itself, its claims iat and exp. It proves nothing: whether it is good, Slurm alone decides.
struct TokenTimes {
  std::optional<WallTime> issued = {};   // it does not say, or is no JWT
  std::optional<WallTime> expires = {};  // likewise
};
TokenTimes times_of(std::string_view token);
// `source`; `tell` hears of each token that is another than the one before.
TokenSource watched(TokenSource source, std::function<void(const TokenTimes& times)> tell);
// One token. Source: Slurm "JSON Web Tokens (JWT) Authentication".
std::string sign_token(const std::string& key, const std::string& user, WallTime issued, Duration lifetime);

}  // namespace bascule::slurm
