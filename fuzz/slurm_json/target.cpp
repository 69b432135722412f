// Whatever slurmrestd, a proxy or an enemy sends: every decoder gives records or throws one of json's errors. Records
// have their ids.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "json/error.hpp"
#include "slurm/decode.hpp"

namespace {

void require(bool promise) {
  if (!promise) std::abort();
}

template <class F>
void attempt(F&& decode) {
  try {
    decode();
  } catch (const bascule::json::ParseError&) {
  } catch (const bascule::json::ShapeError&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bascule::slurm;
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  attempt([&] { (void)decode_envelope(body); });
  attempt([&] {
    const auto answer = decode_jobs(body);
    if (answer.list) {
      for (const Job& job : answer.list->jobs) require(static_cast<bool>(job.id));
    }
  });
  attempt([&] {
    const auto answer = decode_job_states(body);
    if (answer.list) {
      for (const JobBrief& job : *answer.list) require(static_cast<bool>(job.id));
    }
  });
  attempt([&] {
    const auto answer = decode_nodes(body);
    if (answer.list) {
      for (const Node& node : answer.list->nodes) require(!node.name.empty());
    }
  });
  attempt([&] { (void)decode_partitions(body); });
  attempt([&] { (void)decode_allocation(body); });
  attempt([&] { (void)decode_ping(body); });
  return 0;
}
