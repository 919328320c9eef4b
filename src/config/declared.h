// What is said of a model beside its ladder: how its inputs and outputs look to clients where that
// is not left to its file, and what it is run with before it serves.
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace gradus::config {

/// Dimensions are without the batch's; -1: variable.
struct DeclaredTensor {
  std::string name;
  std::string datatype;                           // the protocol's spelling; "": the file's
  std::optional<std::vector<std::int64_t>> dims;  // nothing: the file's
  std::optional<std::vector<std::int64_t>>
      reshape;            // what the file has in place of `dims`; as many
                          // elements, variable ones in the same order
  bool optional = false;  // an initializer of the file, whose value requests may replace
  bool operator==(const DeclaredTensor&) const = default;
};

struct Declared {
  // 0: `dims` are whole shapes. More: every tensor has the batch as its first dimension, at most so
  // large. Nothing: as the file has it.
  std::optional<std::uint32_t> max_batch_size;
  std::vector<DeclaredTensor> inputs;  // perhaps not all of them
  std::vector<DeclaredTensor> outputs;
  bool operator==(const Declared&) const = default;

  bool has_batch() const { return max_batch_size.value_or(0) > 0; }
};

struct WarmupInput {
  enum class Data { kZero, kRandom, kFile };
  std::string name;
  std::string datatype;            // the protocol's spelling
  std::vector<std::int64_t> dims;  // without the batch's; >= 0
  Data data = Data::kZero;
  std::filesystem::path file;  // of kFile: the bytes of one sample
  bool operator==(const WarmupInput&) const = default;
};

struct WarmupSample {
  std::string name;
  std::uint32_t batch_size = 1;  // >= 1; the inputs are repeated
  std::uint32_t runs = 1;        // >= 1
  std::vector<WarmupInput> inputs;
  bool operator==(const WarmupSample&) const = default;
};

}  // namespace gradus::config
