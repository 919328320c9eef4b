// The control file, mapped into this process.
#pragma once
#include <string>

#include "base/result.h"
#include "fault_ep/control_layout.h"

namespace gradus::fault {

class ControlFile {
 public:
  /// Makes the file, readable and writable by its owner, or sets every word of the one that is
  /// there back, under those who have it open. kUnavailable: it cannot be made or mapped.
  static Result<ControlFile> create(const std::string& path);

  /// kNotFound: no such file; kInvalid: it is no control file of this version.
  static Result<ControlFile> open(const std::string& path);

  /// Belongs to this process alone, so that no fault is ever ordered. kUnavailable: no memory.
  static Result<ControlFile> in_memory();

  ControlFile(ControlFile&& other) noexcept;
  ControlFile& operator=(ControlFile&&) = delete;
  ~ControlFile();

  Layout& operator*() const { return *layout_; }
  Layout* operator->() const { return layout_; }

 private:
  explicit ControlFile(Layout* layout) : layout_(layout) {}
  static Result<ControlFile> map(int descriptor, const std::string& who);

  Layout* layout_;  // null after it was moved from
};

}  // namespace gradus::fault
