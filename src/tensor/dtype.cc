#include "tensor/dtype.h"

#include <array>

namespace gradus {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  std::size_t size;
};

constexpr std::array<Row, 14> kRows{{
    {DType::kBool, "BOOL", 1},
    {DType::kUint8, "UINT8", 1},
    {DType::kUint16, "UINT16", 2},
    {DType::kUint32, "UINT32", 4},
    {DType::kUint64, "UINT64", 8},
    {DType::kInt8, "INT8", 1},
    {DType::kInt16, "INT16", 2},
    {DType::kInt32, "INT32", 4},
    {DType::kInt64, "INT64", 8},
    {DType::kFp16, "FP16", 2},
    {DType::kFp32, "FP32", 4},
    {DType::kFp64, "FP64", 8},
    {DType::kBf16, "BF16", 2},
    {DType::kBytes, "BYTES", 0},
}};

constexpr const Row& row(DType dtype) { return kRows[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::size_t element_size(DType dtype) { return row(dtype).size; }

std::string_view dtype_name(DType dtype) { return row(dtype).name; }

std::optional<DType> parse_dtype(std::string_view name) {
  for (const Row& r : kRows) {
    if (r.name == name) return r.dtype;
  }
  return std::nullopt;
}

}  // namespace gradus
