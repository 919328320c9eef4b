// Which path and method is answered by what. A path's form is text with its names in braces,
// `/v2/models/{model}[/versions/{version}]/ready`; what is in brackets may be left out.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "api/http/http_message.h"
#include "base/result.h"

namespace gradus::api {

/// What a path says where its form has braces; "": nothing.
struct PathNames {
  std::string repository;  // percent-decoded, as `model`
  std::string model;
  std::string version;  // digits
  std::string region;   // of shared memory; percent-decoded
};

/// As Handler::handle: must not block, and the reply may be called later.
using PathHandler =
    std::function<void(const PathNames& names, const HttpRequest& request, Reply reply)>;

struct Path {
  std::string_view form;  // static storage; at most one pair of brackets
  PathHandler get;        // for GET and HEAD; empty: not with this method
  PathHandler post;
};

class PathTable {
 public:
  /// Where two forms fit a path, the one that was added first has it.
  void add(std::vector<Path> paths);

  /// Answers 404 where no form fits, or the path has a name that no model can have (`..`, with a
  /// slash, with control characters) or a version that is no number; 400 for malformed
  /// percent-encoding; 405 for a method that the path does not take. What follows `?` is ignored.
  void handle(const HttpRequest& request, const Reply& reply) const;

 private:
  struct Form {
    std::string text;  // without brackets
    std::size_t path;
  };

  std::vector<Path> paths_;
  std::vector<Form> forms_;
};

}  // namespace gradus::api
