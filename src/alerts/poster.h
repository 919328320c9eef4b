// HTTP POSTs side by side on one thread. libcurl stays in the .cc file. Proxies are those of the
// environment (`https_proxy`, `no_proxy`), as libcurl reads them; redirects are not followed.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"

namespace gradus::alerts {

/// What came of a post.
struct Reply {
  std::size_t slot = 0;
  long status = 0;    // HTTP; 0: no answer
  std::string error;  // without an answer: why; with one that is not 2xx: its begin
};

class Poster {
 public:
  /// @param slots posts that may be under way
  /// @param timeout of one post, from its start to its answer
  Poster(std::size_t slots, Duration timeout);
  /// What is under way is given up.
  ~Poster();

  /// JSON to `url`. The slot is free: its last reply was returned. The owner's thread.
  void start(std::size_t slot, const std::string& url, std::string body);
  /// Returns when a post has ended, wake() was called, or after about `at_most`. The owner's
  /// thread.
  std::vector<Reply> wait(Duration at_most);
  /// Ends the wait() under way, or the next one. Any thread.
  void wake();

 private:
  struct Curl;
  const std::unique_ptr<Curl> curl_;
};

}  // namespace gradus::alerts
