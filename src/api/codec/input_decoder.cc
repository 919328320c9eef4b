#include "api/codec/input_decoder.h"

#include <algorithm>
#include <limits>

#include "api/codec/infer_request.h"

namespace gradus::api {
namespace {

using ondemand::value;

constexpr std::size_t kMostDimensions = 64;
constexpr std::uint64_t kMostSize = std::numeric_limits<std::int64_t>::max();

}  // namespace

Result<bool> shared_parameter(JsonWalk& walk, std::string_view name, value member,
                              RegionName& place) {
  const std::string what = "parameter '" + std::string(name) + "'";
  if (name == "shared_memory_region") return assign_known(walk.string(member, what), place.region);
  if (name == "shared_memory_offset") {
    return assign_known(walk.integer(member, what, 0, kMostSize), place.offset);
  }
  if (name == "shared_memory_byte_size") {
    return assign_known(walk.integer(member, what, 0, kMostSize), place.byte_size);
  }
  return false;
}

Result<NamedView> InputDecoder::read(value element, std::size_t index) {
  Input in;
  if (auto read = read_input(element, in); !read) {
    const std::string label =
        in.name.empty() ? "inputs[" + std::to_string(index) + "]" : "input " + quote_name(in.name);
    return refuse(label + ": " + read.error().message);
  }
  auto tensor = finish(in);
  if (!tensor) {
    return fail(tensor.error().code,
                "input " + quote_name(in.name) + ": " + tensor.error().message);
  }
  return NamedView{std::move(in.name), std::move(*tensor)};
}

Result<void> InputDecoder::read_input(value element, Input& in) {
  if (auto fits = walk_.check_depth(3); !fits) return fits;
  ondemand::object object;
  if (const auto error = element.get_object().get(object)) {
    if (error != simdjson::INCORRECT_TYPE) return walk_.malformed(error);
    return walk_.unexpected_value(element, "it", "an object");
  }
  std::size_t position = 0;
  auto read = walk_.each_member(object, [&](std::string_view key, value member) {
    return read_member(key, member, position++, in);
  });
  if (!read) return read;
  if (!in.named) return refuse("'name' is missing");
  if (!in.shaped) return refuse("'shape' is missing");
  if (!in.typed) return refuse("'datatype' is missing");
  if (!names_.insert(in.name).second) return refuse("the name comes twice");
  return in.data_member ? read_late_data(object, in) : Result<void>();
}

Result<void> InputDecoder::read_member(std::string_view key, value member, std::size_t position,
                                       Input& in) {
  if (key == "name") {
    if (auto first = once(in.named, key); !first) return first;
    if (auto name = assign(walk_.string(member, "'name'"), in.name); !name) return name;
    if (in.name.empty()) return refuse("'name' is empty");
    return {};
  }
  if (key == "datatype") {
    if (auto first = once(in.typed, key); !first) return first;
    return read_datatype(member, in);
  }
  if (key == "shape") {
    if (auto first = once(in.shaped, key); !first) return first;
    return read_shape(member, in);
  }
  if (key == "parameters") {
    if (auto first = once(in.parametrised, key); !first) return first;
    return walk_.each_parameter(member, 4, [&](std::string_view name, value parameter) {
      return read_parameter(name, parameter, in);
    });
  }
  if (key == "data") {
    if (walk_.null(member)) return {};
    if (auto first = once(in.has_data, key); !first) return first;
    if (in.shaped && in.typed) return read_data(member, in);
    in.data_member = position;
    return {};
  }
  return walk_.skip(member, 3);
}

Result<void> InputDecoder::read_datatype(value member, Input& in) {
  const auto name = walk_.string(member, "'datatype'");
  if (!name) return tl::unexpected(name.error());
  if (const auto found = parse_dtype(*name)) {
    in.dtype = *found;
    return {};
  }
  return refuse("'datatype' is " + quote_name(*name) + "; expected " + std::string(kDatatypeNames));
}

Result<void> InputDecoder::read_shape(value member, Input& in) {
  const auto read_dimension = [&](value element, std::size_t index) -> Result<void> {
    if (index == kMostDimensions) {
      return refuse("'shape' has more than " + std::to_string(kMostDimensions) + " dimensions");
    }
    return assign(walk_.integer(element, "shape[" + std::to_string(index) + "]", 0, kMostSize),
                  in.shape.emplace_back());
  };
  if (auto read = walk_.each_element(member, 4, "'shape'", read_dimension); !read) return read;
  return assign(element_count(in.shape), in.count);
}

Result<bool> InputDecoder::read_parameter(std::string_view name, value member, Input& in) {
  if (const auto known = shared_parameter(walk_, name, member, in.place); !known || *known) {
    return known;
  }
  if (name != "binary_data_size") return false;
  return assign_known(walk_.integer(member, "parameter 'binary_data_size'", 0, kMostSize),
                      in.binary_size);
}

Result<void> InputDecoder::read_data(value data, Input& in) {
  return assign(read_json_tensor(walk_, data, 3, in.dtype, in.shape, in.count), in.data);
}

// The data was passed over unread, so no string of it has been unescaped yet: the parser has room
// for unescaping each string once.
Result<void> InputDecoder::read_late_data(ondemand::object& object, Input& in) {
  if (const auto error = object.reset().error()) return walk_.malformed(error);
  std::size_t position = 0;
  for (auto member : object) {
    ondemand::field field;
    if (const auto error = std::move(member).get(field)) return walk_.malformed(error);
    if (position++ == *in.data_member) return read_data(field.value(), in);
  }
  return walk_.malformed(simdjson::TAPE_ERROR);
}

Result<TensorView> InputDecoder::finish(Input& in) {
  TensorView tensor{in.dtype, std::move(in.shape), {}};
  if (in.binary_size && in.has_data) {
    return refuse("has both 'data' and parameter 'binary_data_size'; expected one of them");
  }
  if (in.place.any()) {
    if (in.binary_size || in.has_data) {
      return refuse("has both a place in shared memory and " +
                    std::string(in.has_data ? "'data'" : "parameter 'binary_data_size'") +
                    "; expected one of them");
    }
    if (auto taken = take_shared(in, tensor); !taken) {
      return tl::unexpected(std::move(taken.error()));
    }
  } else if (in.binary_size) {
    if (auto taken = take_binary(*in.binary_size, tensor); !taken) {
      return tl::unexpected(std::move(taken.error()));
    }
  } else if (in.data) {
    tensor.data = in.data->bytes;
    copies_.push_back(std::move(in.data->owner));
  } else if (in.count > 0) {
    return refuse("has neither 'data' nor parameter 'binary_data_size'; shape " +
                  shape_text(tensor.shape) + " needs " + std::to_string(in.count) + " elements");
  }
  return tensor;
}

Result<void> InputDecoder::take_shared(const Input& in, TensorView& tensor) {
  const auto range = find_range(memory_, in.place);
  if (!range) return tl::unexpected(range.error());
  auto read = read_shared(*range, tensor.dtype, tensor.shape, in.count, shared_left_);
  if (!read) return tl::unexpected(std::move(read.error()));
  tensor.data = read->data;
  copies_.push_back(std::move(read->owner));
  return {};
}

Result<void> InputDecoder::take_binary(std::uint64_t size, TensorView& tensor) {
  if (size > binary_.size()) {
    std::string text = "parameter 'binary_data_size' is " + std::to_string(size) + ", but " +
                       std::to_string(binary_.size()) + " bytes are left in the body";
    if (!has_header_) text += " (there is no header Inference-Header-Content-Length)";
    return refuse(std::move(text));
  }
  tensor.data = binary_.first(static_cast<std::size_t>(size));
  binary_ = binary_.subspan(static_cast<std::size_t>(size));
  if (auto fits = check_byte_size(tensor); !fits) return fits;
  const std::size_t alignment = std::max<std::size_t>(1, element_size(tensor.dtype));
  if (reinterpret_cast<std::uintptr_t>(tensor.data.data()) % alignment == 0) {
    views_body_ = views_body_ || size > 0;
    return {};
  }
  Tensor copy = make_tensor(tensor.dtype, {}, {tensor.data.begin(), tensor.data.end()});
  tensor.data = copy.data;
  copies_.push_back(std::move(copy.owner));
  return {};
}

}  // namespace gradus::api
