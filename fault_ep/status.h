// C++ behind ONNX Runtime's C callbacks: no exception may cross into it.
#pragma once
#include <onnxruntime_cxx_api.h>

#include <exception>

#include "fault_ep/injection.h"

namespace gradus::fault {

inline OrtStatus* status_of(OrtErrorCode code, const std::string& text) {
  return Ort::GetApi().CreateStatus(code, text.c_str());
}

inline OrtStatus* status_of(const Failure& failure) {
  return status_of(static_cast<OrtErrorCode>(failure.code), failure.text);
}

/// Null, or what `body` threw; ONNX Runtime's own errors keep their code and text.
template <class Body>
OrtStatus* guarded(Body&& body) noexcept {
  try {
    body();
    return nullptr;
  } catch (const Ort::Exception& e) {
    return status_of(e.GetOrtErrorCode(), e.what());
  } catch (const std::exception& e) {
    return status_of(ORT_EP_FAIL, e.what());
  }
}

/// Throws what a verdict says.
inline void obey(const Verdict& verdict) {
  if (verdict.failure) {
    throw Ort::Exception(verdict.failure->text, static_cast<OrtErrorCode>(verdict.failure->code));
  }
}

}  // namespace gradus::fault
