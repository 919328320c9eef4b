// One member of a request's `inputs`: its JSON object, and its share of the binary data behind the
// JSON. Only this folder's .cc files include it.
#pragma once
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "api/codec/json_tensor.h"
#include "api/codec/json_walk.h"
#include "api/codec/shared_tensor.h"
#include "tensor/tensor.h"

namespace gradus::api {

/// Reads a parameter that says where in shared memory a tensor lies; false: it is another one.
Result<bool> shared_parameter(JsonWalk& walk, std::string_view name, ondemand::value member,
                              RegionName& place);

class InputDecoder {
 public:
  /// @param walk borrowed
  /// @param binary what follows the JSON; inputs take their parts of it in JSON order
  /// @param has_header the request says where its JSON ends
  InputDecoder(JsonWalk& walk, std::span<const std::byte> binary, bool has_header,
               const SharedInputs& shared)
      : walk_(walk),
        binary_(binary),
        has_header_(has_header),
        memory_(shared.memory),
        shared_left_(shared.most_bytes) {}

  /// The next input; its data lies in the body or in one of the copies. Errors name it:
  /// kInvalid, or as find_range() and read_shared().
  Result<NamedView> read(ondemand::value element, std::size_t index);

  std::size_t bytes_left() const { return binary_.size(); }
  /// True when an input's data lies in the body itself.
  bool views_body() const { return views_body_; }
  /// What owns the data of the other inputs.
  std::vector<std::shared_ptr<const void>> take_copies() && { return std::move(copies_); }

 private:
  struct Input {
    std::string name;
    bool named = false, shaped = false, typed = false, parametrised = false, has_data = false;
    DType dtype = DType::kFp32;
    Shape shape;
    std::uint64_t count = 0;
    std::optional<std::uint64_t> binary_size;
    RegionName place;
    std::optional<std::size_t> data_member;  // came before shape or datatype: read afterwards
    std::optional<OwnedBytes> data;
  };

  Result<void> read_input(ondemand::value element, Input& in);
  Result<void> read_member(std::string_view key, ondemand::value member, std::size_t position,
                           Input& in);
  Result<void> read_datatype(ondemand::value member, Input& in);
  Result<void> read_shape(ondemand::value member, Input& in);
  Result<bool> read_parameter(std::string_view name, ondemand::value member, Input& in);
  Result<void> read_data(ondemand::value data, Input& in);
  Result<void> read_late_data(ondemand::object& object, Input& in);
  Result<TensorView> finish(Input& in);
  Result<void> take_binary(std::uint64_t size, TensorView& tensor);
  Result<void> take_shared(const Input& in, TensorView& tensor);

  JsonWalk& walk_;
  std::span<const std::byte> binary_;  // what no input has taken yet
  bool has_header_;
  const SharedMemory* const memory_;  // null: not allowed
  std::uint64_t shared_left_;         // bytes that inputs may still take from it
  std::set<std::string> names_;
  std::vector<std::shared_ptr<const void>> copies_;
  bool views_body_ = false;
};

}  // namespace gradus::api
