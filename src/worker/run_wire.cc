#include "worker/run_wire.h"

#include "worker/spec_wire.h"

namespace gradus::worker {
namespace {

template <class T>
void put_numbers(Writer& writer, const std::vector<T>& numbers) {
  writer.put(static_cast<std::uint32_t>(numbers.size()));
  for (const T number : numbers) writer.put(number);
}

template <class T>
std::vector<T> get_numbers(Reader& reader) {
  std::vector<T> numbers;
  for (std::uint32_t left = reader.count(sizeof(T)); left > 0; --left) {
    numbers.push_back(reader.get<T>());
  }
  return numbers;
}

// As runtime::Backend::run: the server asks no worker to stop a run, and it alone knows of losses.
bool may_end_a_run(Code code) {
  return code == Code::kInvalid || code == Code::kUnavailable || code == Code::kInternal;
}

}  // namespace

void put_run(Writer& writer, const RunRequest& run) {
  writer.put(run.session).put(run.input_block);
  put_numbers(writer, run.dropped_blocks);
  writer.put(run.output_segment);
  put_numbers(writer, run.dropped);
  put_numbers(writer, run.outputs);
  put_numbers(writer, run.optional_inputs);
  put_placed(writer, run.inputs);
}

RunRequest get_run(Reader& reader) {
  RunRequest run;
  run.session = reader.get<std::uint64_t>();
  run.input_block = reader.get<std::uint64_t>();
  run.dropped_blocks = get_numbers<std::uint64_t>(reader);
  run.output_segment = reader.get<std::uint64_t>();
  run.dropped = get_numbers<std::uint64_t>(reader);
  run.outputs = get_numbers<std::uint32_t>(reader);
  run.optional_inputs = get_numbers<std::uint32_t>(reader);
  run.inputs = get_placed(reader);
  return run;
}

void put_run_reply(Writer& writer, const Result<std::vector<Placed>>& outputs) {
  writer.put(outputs.has_value());
  if (outputs) {
    put_placed(writer, *outputs);
  } else {
    put_error(writer, outputs.error());
  }
}

Result<std::vector<Placed>> get_run_reply(Reader& reader) {
  if (reader.get<std::uint8_t>() == 0) {
    Error error = get_error(reader);
    if (!may_end_a_run(error.code)) reader.refuse();
    return tl::unexpected(std::move(error));
  }
  return get_placed(reader);
}

}  // namespace gradus::worker
