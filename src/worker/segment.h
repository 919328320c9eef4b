// Memory that two processes share (a memfd), of fixed size: sealed, so that neither can pull it
// from under the other. Inputs can be written only by the side that made them, outputs only by
// theirs.
#pragma once
#include <cstddef>
#include <memory>
#include <span>

#include "base/result.h"
#include "worker/fd.h"
#include "worker/wire.h"

namespace gradus::worker {

/// After this nobody can map it writable who has not done so yet, nor change its size.
bool seal_for_readers(const Fd& fd);

class Segment {
 public:
  enum class Pages {
    kAll,      // mapped at once
    kTouched,  // as they are read: the maker has written some of them only
  };

  /// Mapped writable here; whoever else gets the descriptor can only read. @param bytes > 0; more
  /// may be given. kUnavailable: no memory.
  static Result<std::shared_ptr<Segment>> make(std::size_t bytes);
  /// The size that make() gives for so many bytes.
  static std::size_t roomy(std::size_t bytes);
  /// Maps a peer's for reading. kInternal: its size is not fixed by a seal, or over `most` or
  /// kMaxSegment, or it is to be mapped at once and lacks pages: they would become memory by it.
  static Result<std::shared_ptr<const Segment>> open(const Fd& fd, Pages pages = Pages::kAll,
                                                     std::size_t most = kMaxSegment);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  int fd() const { return fd_.get(); }  // of make() only
  std::span<std::byte> writable() { return data_; }
  std::span<const std::byte> data() const { return data_; }
  std::size_t size() const { return data_.size(); }

 private:
  Segment(Fd fd, std::span<std::byte> data) : fd_(std::move(fd)), data_(data) {}

  Fd fd_;
  std::span<std::byte> data_;
};

}  // namespace gradus::worker
