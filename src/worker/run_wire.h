// One turn on a channel: which session runs on what, and where its outputs lie.
#pragma once
#include <cstdint>
#include <vector>

#include "worker/wire.h"

namespace gradus::worker {

/// Carries the input segment where the worker does not have it: a block of the server's pool that
/// it meets for the first time, or the channel's own slot when the one before was too small.
struct RunRequest {
  std::uint64_t session = 0;
  std::uint64_t input_block = 0;              // 0: the channel's slot
  std::vector<std::uint64_t> dropped_blocks;  // not used any more on this channel
  std::uint64_t output_segment = 0;    // the one to write to; unknown to the worker: a new one
  std::vector<std::uint64_t> dropped;  // output segments that are not used any more
  std::vector<std::uint32_t> outputs;  // indices into the signature
  std::vector<std::uint32_t> optional_inputs;  // as runtime::RunInputs::optional
  std::vector<Placed> inputs;                  // in the input segment
};
void put_run(Writer& writer, const RunRequest& run);
RunRequest get_run(Reader& reader);

/// `true` and the outputs' places, or `false` and an error. Carries the output segment where it is
/// new, or had to grow.
void put_run_reply(Writer& writer, const Result<std::vector<Placed>>& outputs);
/// Fails the reader also for an error with a code that no run gives: it might count nowhere.
Result<std::vector<Placed>> get_run_reply(Reader& reader);

}  // namespace gradus::worker
