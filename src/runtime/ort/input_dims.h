// What an ONNX file says of its inputs' shapes, read without loading the model: whether to plan
// memory for a session's runs must be known before the session exists.
#pragma once
#include <filesystem>

namespace gradus::runtime {

/// True when the graph has an input, no initializer of it, of which a dimension other than the
/// first is variable or the rank is unknown; true as well for a file that cannot be read as ONNX.
/// Reads the headers of the file's messages only (onnx.proto: ModelProto.graph, GraphProto.input,
/// ValueInfoProto.type), skipping the weights.
bool shapes_vary(const std::filesystem::path& file);

}  // namespace gradus::runtime
