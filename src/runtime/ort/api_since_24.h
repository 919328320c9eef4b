// Functions that ONNX Runtime's C API has since version 1.24, for a build against older headers.
// The API is one table of function pointers that only ever grows at its end, and GetApi(24) gives a
// table only where the library has all of version 24; so a position in that table is as much a part
// of the binary interface as a name (onnxruntime_c_api.h, "Size of version 24 API cannot change").
#pragma once
#include <onnxruntime_c_api.h>

#include <cstddef>

struct OrtEpAssignedSubgraph;
struct OrtEpAssignedNode;

namespace gradus::runtime {

class ApiSince24 {
 public:
  /// Null functions in a library that is older than 1.24.
  ApiSince24() : table_(OrtGetApiBase()->GetApi(24)) {}
  explicit operator bool() const { return table_ != nullptr; }

  using HasShape = bool(ORT_API_CALL*)(const OrtTensorTypeAndShapeInfo* info);
  using GetAssignment = OrtStatusPtr(ORT_API_CALL*)(const OrtSession* session,
                                                    const OrtEpAssignedSubgraph* const** subgraphs,
                                                    std::size_t* count);
  using GetEpName = OrtStatusPtr(ORT_API_CALL*)(const OrtEpAssignedSubgraph* subgraph,
                                                const char** name);
  using GetNodes = OrtStatusPtr(ORT_API_CALL*)(const OrtEpAssignedSubgraph* subgraph,
                                               const OrtEpAssignedNode* const** nodes,
                                               std::size_t* count);

  HasShape tensor_has_shape() const { return at<HasShape>(390); }
  GetAssignment session_assignment() const { return at<GetAssignment>(407); }
  GetEpName subgraph_ep_name() const { return at<GetEpName>(408); }
  GetNodes subgraph_nodes() const { return at<GetNodes>(409); }

 private:
  template <class Function>
  Function at(std::size_t slot) const {
    return reinterpret_cast<Function>(reinterpret_cast<void* const*>(table_)[slot]);
  }

  const OrtApi* table_;
};

}  // namespace gradus::runtime
