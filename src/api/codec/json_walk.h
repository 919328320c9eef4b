// Walking a JSON text with simdjson's on-demand parser so that every byte of it is checked, depth
// is bounded and each fault says where. Only this folder's .cc files include it.
//
// On-demand parsing checks only what it visits: whatever a decoder does not want, it must skip().
// After an error the document is dead; all a caller may do is return the error.
#pragma once
#include <simdjson.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace gradus::api {

namespace ondemand = simdjson::ondemand;

/// `'name'`, cut after 80 bytes, for error texts.
std::string quote_name(std::string_view name);

inline tl::unexpected<Error> refuse(std::string message) {
  return fail(Code::kInvalid, std::move(message));
}

/// Marks a key as seen; kInvalid when it was already.
Result<void> once(bool& seen, std::string_view key);

/// Moves a decoded value to its place, or passes its error on.
template <class T, class To>
Result<void> assign(Result<T> from, To& to) {
  if (!from) return tl::unexpected(std::move(from.error()));
  to = To(std::move(*from));
  return {};
}

/// assign() for a parameter that is known: true.
template <class T, class To>
Result<bool> assign_known(Result<T> from, To& to) {
  if (auto assigned = assign(std::move(from), to); !assigned) {
    return tl::unexpected(std::move(assigned.error()));
  }
  return true;
}

class JsonWalk {
 public:
  /// @param document borrowed; `text` is what it was made of
  JsonWalk(ondemand::document& document, std::string_view text, std::size_t max_depth)
      : document_(document), text_(text), max_depth_(max_depth) {}

  std::size_t text_size() const { return text_.size(); }

  /// Checks a value that nobody wants, with all that is in it. `depth`: containers around it.
  Result<void> skip(ondemand::value value, std::size_t depth);

  /// kInvalid when a container at this depth (the outermost: 1) is one too many.
  Result<void> check_depth(std::size_t depth) const;

  /// "malformed JSON at byte 12: …".
  tl::unexpected<Error> malformed(simdjson::error_code code) const;

  /// Why a text, as `error` says, has no object for its root: "`what` must be a JSON object"; or
  /// followed(), malformed().
  tl::unexpected<Error> no_object(simdjson::error_code error, std::string_view what) const;

  /// "malformed JSON: 'xx' follows the request at byte 12".
  tl::unexpected<Error> followed(std::string_view what, std::size_t at) const;

  /// "`what` is 3.5; expected `wanted`": a value of the wrong type or range. Malformed when the
  /// value is no JSON at all.
  tl::unexpected<Error> unexpected_value(ondemand::value value, std::string_view what,
                                         std::string_view wanted) const;

  /// True and consumed when it is null, which clients write for what they leave out.
  bool null(ondemand::value& value) const;

  /// A string, unescaped; lives as long as the parser. Refuses lone surrogates.
  Result<std::string_view> string(ondemand::value value, std::string_view what);
  Result<bool> boolean(ondemand::value value, std::string_view what);
  /// An integer in [least, most].
  Result<std::uint64_t> integer(ondemand::value value, std::string_view what, std::uint64_t least,
                                std::uint64_t most);

  /// Calls `take(key, value)` for each member; depth is the object's own, the outermost's is 1.
  template <class Take>
  Result<void> each_member(ondemand::value value, std::size_t depth, std::string_view what,
                           Take take);
  template <class Take>
  Result<void> each_member(ondemand::object object, Take take);

  /// Calls `take(value, index)` for each element; depth is the array's own.
  template <class Take>
  Result<void> each_element(ondemand::value value, std::size_t depth, std::string_view what,
                            Take take);

  /// Calls `take(name, value)` for each member of a `parameters` object, which may be null; `take`
  /// returns Result<bool>, false for a name that it does not know and leaves. Those are checked to
  /// be strings, numbers or booleans and dropped.
  template <class Take>
  Result<void> each_parameter(ondemand::value value, std::size_t depth, Take take);

 private:
  Result<void> skip_parameter(ondemand::value value, std::size_t depth, std::string_view name);

  ondemand::document& document_;
  std::string_view text_;
  std::size_t max_depth_;
};

template <class Take>
Result<void> JsonWalk::each_member(ondemand::object object, Take take) {
  for (auto member : object) {
    ondemand::field field;
    if (const auto error = std::move(member).get(field)) return malformed(error);
    std::string_view key;
    if (const auto error = field.unescaped_key().get(key)) return malformed(error);
    if (auto taken = take(key, field.value()); !taken) return taken;
  }
  return {};
}

template <class Take>
Result<void> JsonWalk::each_member(ondemand::value value, std::size_t depth, std::string_view what,
                                   Take take) {
  if (auto fits = check_depth(depth); !fits) return fits;
  ondemand::object object;
  if (const auto error = value.get_object().get(object)) {
    if (error != simdjson::INCORRECT_TYPE) return malformed(error);
    return unexpected_value(value, what, "an object");
  }
  return each_member(object, take);
}

template <class Take>
Result<void> JsonWalk::each_element(ondemand::value value, std::size_t depth, std::string_view what,
                                    Take take) {
  if (auto fits = check_depth(depth); !fits) return fits;
  ondemand::array array;
  if (const auto error = value.get_array().get(array)) {
    if (error != simdjson::INCORRECT_TYPE) return malformed(error);
    return unexpected_value(value, what, "an array");
  }
  std::size_t index = 0;
  for (auto each : array) {
    ondemand::value element;
    if (const auto error = each.get(element)) return malformed(error);
    if (auto taken = take(element, index++); !taken) return taken;
  }
  return {};
}

template <class Take>
Result<void> JsonWalk::each_parameter(ondemand::value value, std::size_t depth, Take take) {
  if (null(value)) return {};
  return each_member(value, depth, "'parameters'",
                     [&](std::string_view name, ondemand::value member) -> Result<void> {
                       const Result<bool> known = take(name, member);
                       if (!known) return tl::unexpected(known.error());
                       return *known ? Result<void>() : skip_parameter(member, depth, name);
                     });
}

}  // namespace gradus::api
