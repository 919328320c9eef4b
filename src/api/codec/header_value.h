// Names as values of HTTP headers and of gRPC's metadata.
#pragma once
#include <string>
#include <string_view>

namespace gradus::api {

/// Percent-encoded where it is not visible ASCII, and its `%`: names of files may hold any byte, a
/// header's value no line break, and gRPC's metadata none beyond ASCII.
std::string header_value(std::string_view name);

}  // namespace gradus::api
