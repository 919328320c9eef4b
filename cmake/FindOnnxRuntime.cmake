# Finds the ONNX Runtime below GRADUS_ONNXRUNTIME_ROOT and makes the target onnxruntime::onnxruntime.
# Accepts the layout that `./dev setup` makes, a release archive, and a distribution's folders.
if(NOT "${OnnxRuntime_FOUND_BELOW}" STREQUAL "${GRADUS_ONNXRUNTIME_ROOT}")
  unset(OnnxRuntime_INCLUDE_DIR CACHE)  # another root than in the last run: search again
  unset(OnnxRuntime_LIBRARY CACHE)
endif()
set(OnnxRuntime_FOUND_BELOW "${GRADUS_ONNXRUNTIME_ROOT}" CACHE INTERNAL "root of the last search")
find_path(OnnxRuntime_INCLUDE_DIR onnxruntime_c_api.h
          PATHS ${GRADUS_ONNXRUNTIME_ROOT} NO_DEFAULT_PATH
          PATH_SUFFIXES include include/onnxruntime include/onnxruntime/core/session)
find_library(OnnxRuntime_LIBRARY NAMES libonnxruntime.so.1 onnxruntime
             PATHS ${GRADUS_ONNXRUNTIME_ROOT} NO_DEFAULT_PATH
             PATH_SUFFIXES lib lib64 lib/x86_64-linux-gnu)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  OnnxRuntime REQUIRED_VARS OnnxRuntime_LIBRARY OnnxRuntime_INCLUDE_DIR
  REASON_FAILURE_MESSAGE "run ./dev setup, or give -DGRADUS_ONNXRUNTIME_ROOT=DIR")
if(OnnxRuntime_FOUND AND NOT TARGET onnxruntime::onnxruntime)
  add_library(onnxruntime::onnxruntime SHARED IMPORTED)
  set_target_properties(onnxruntime::onnxruntime PROPERTIES IMPORTED_LOCATION ${OnnxRuntime_LIBRARY})
  target_include_directories(onnxruntime::onnxruntime SYSTEM INTERFACE ${OnnxRuntime_INCLUDE_DIR})
endif()
