#include "api/http/path_table.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "api/http/answers.h"

namespace gradus::api {
namespace {

constexpr std::size_t kShownPath = 200;  // bytes of a path that an error repeats

Error no_such_path(std::string_view path) {
  std::string shown(path.substr(0, kShownPath));
  if (path.size() > kShownPath) shown += "…";
  return {Code::kNotFound, "no such path: " + shown};
}

Result<std::string> percent_decoded(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    const std::string_view digits = text.substr(i + 1, 2);
    unsigned value = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (error != std::errc{} || digits.size() != 2 || end != digits.data() + 2) {
      return fail(Code::kInvalid, "malformed percent-encoding in the path");
    }
    out.push_back(static_cast<char>(value));
    i += 2;
  }
  return out;
}

bool possible_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         std::none_of(name.begin(), name.end(), [](char c) {
           return c == '/' || c == '\\' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
         });
}

// Cuts the first segment off `path`, which begins with a slash.
std::string_view next_segment(std::string_view& path) {
  path.remove_prefix(1);
  const std::string_view segment = path.substr(0, path.find('/'));
  path.remove_prefix(segment.size());
  return segment;
}

bool fits(std::string_view form, std::string_view path) {
  while (!form.empty() && !path.empty()) {
    const std::string_view wanted = next_segment(form);
    const std::string_view segment = next_segment(path);
    if (wanted.starts_with('{') ? segment.empty() : segment != wanted) return false;
  }
  return form.empty() && path.empty();
}

Result<std::string> decoded_name(std::string_view segment, const char* of_what) {
  auto name = percent_decoded(segment);
  if (name && !possible_name(*name)) {
    return fail(Code::kNotFound, std::string("no ") + of_what + " can have the name in the path");
  }
  return name;
}

Result<std::string> version_number(std::string_view segment) {
  if (segment.find_first_not_of("0123456789") != segment.npos) {
    return fail(Code::kNotFound, "a model's version is a number, in digits");
  }
  return std::string(segment);
}

Result<PathNames> names_in(std::string_view form, std::string_view path) {
  PathNames names;
  while (!form.empty()) {
    const std::string_view wanted = next_segment(form);
    const std::string_view segment = next_segment(path);
    Result<std::string> name;
    std::string* into = nullptr;
    if (wanted == "{model}") {
      into = &names.model;
      name = decoded_name(segment, "model");
    } else if (wanted == "{version}") {
      into = &names.version;
      name = version_number(segment);
    } else if (wanted == "{repository}") {
      into = &names.repository;
      name = decoded_name(segment, "repository");
    } else if (wanted == "{region}") {
      into = &names.region;
      name = decoded_name(segment, "region");
    } else {
      continue;
    }
    if (!name) return tl::unexpected(std::move(name.error()));
    *into = std::move(*name);
  }
  return names;
}

HttpResponse wrong_method(const Path& path) {
  std::string allow = path.get ? "GET, HEAD" : "";
  if (path.post) allow += allow.empty() ? "POST" : ", POST";
  HttpResponse response = error_response(405, "this path takes " + allow + " only");
  response.headers.emplace_back("Allow", std::move(allow));
  return response;
}

}  // namespace

void PathTable::add(std::vector<Path> paths) {
  for (Path& path : paths) {
    const std::string_view form = path.form;
    const std::size_t open = form.find('[');
    if (open == form.npos) {
      forms_.push_back({std::string(form), paths_.size()});
    } else {
      const std::size_t close = form.find(']');
      const std::string before(form.substr(0, open));
      const std::string_view after = form.substr(close + 1);
      forms_.push_back({before + std::string(after), paths_.size()});
      forms_.push_back(
          {before + std::string(form.substr(open + 1, close - open - 1)) + std::string(after),
           paths_.size()});
    }
    paths_.push_back(std::move(path));
  }
}

void PathTable::handle(const HttpRequest& request, const Reply& reply) const {
  const std::string_view path = request.target.substr(0, request.target.find('?'));
  const auto form =
      path.starts_with('/')
          ? std::ranges::find_if(forms_, [&](const Form& one) { return fits(one.text, path); })
          : forms_.end();
  if (form == forms_.end()) return reply(refusal(no_such_path(path)));
  const auto names = names_in(form->text, path);
  if (!names) return reply(refusal(names.error()));
  const Path& found = paths_[form->path];
  const bool get = request.method == "GET" || request.method == "HEAD";
  const PathHandler& answer = get ? found.get : found.post;
  if (!answer || (!get && request.method != "POST")) return reply(wrong_method(found));
  answer(*names, request, reply);
}

}  // namespace gradus::api
