// protobuf's maps have no order; what is told and shown of them has one.
#pragma once
#include <set>

namespace gradus::triton {

template <class Map>
std::set<typename Map::key_type> sorted_keys(const Map& map) {
  std::set<typename Map::key_type> keys;
  for (const auto& [key, value] : map) keys.insert(key);
  return keys;
}

}  // namespace gradus::triton
