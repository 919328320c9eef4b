// Bytes of an answer that are sent from where they lie.
#pragma once
#include <cstddef>
#include <memory>
#include <span>

namespace gradus::api {

/// Bytes to send as they are, and what keeps them alive.
struct Segment {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

}  // namespace gradus::api
