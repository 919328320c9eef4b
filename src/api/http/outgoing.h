// Pieces of memory on their way into a socket, written from where they lie.
#pragma once
#include <sys/uio.h>

#include <cstddef>
#include <string_view>
#include <vector>

namespace gradus::api {

class Outgoing {
 public:
  enum class Sent { kAll, kSome, kFailed };  // kSome: the socket takes no more for now

  /// @param bytes borrowed until they are sent, or `clear`
  void add(std::string_view bytes);
  void clear();
  bool empty() const { return next_ == pieces_.size(); }
  std::size_t size() const;  // bytes that are left

  /// Writes what is left, as far as the socket takes it at once. Never blocks.
  Sent send(int socket);

 private:
  void advance(std::size_t sent);

  std::vector<iovec> pieces_;  // left: from next_ on
  std::size_t next_ = 0;
};

}  // namespace gradus::api
