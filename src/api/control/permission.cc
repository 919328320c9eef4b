#include "api/control/permission.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace gradus::api {
namespace {

constexpr std::size_t kMostToken = 4096;  // bytes

// ASCII only.
bool starts_ignoring_case(std::string_view text, std::string_view prefix) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return text.size() >= prefix.size() &&
         std::ranges::equal(text.substr(0, prefix.size()), prefix, {}, lower, lower);
}

bool has_token(std::string_view given, std::string_view token) {
  constexpr std::string_view kBearer = "Bearer ";
  if (!starts_ignoring_case(given, kBearer)) return false;
  given.remove_prefix(std::min(given.find_first_not_of(' ', kBearer.size()), given.size()));
  return same_secret(given, token);
}

/// What the file holds, if its owner (and perhaps a group) alone may read it.
Result<std::string> read_private(const std::string& path) {
  const auto refused = [&](const std::string& why) {
    return fail(Code::kInvalid, "admin.token_file: '" + path + "': " + why);
  };
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return refused(std::strerror(errno));
  struct stat about {};
  ::fstat(file, &about);
  const bool is_data = S_ISREG(about.st_mode) || S_ISFIFO(about.st_mode);  // <(…) is a pipe
  std::string text(kMostToken + 2, '\0');
  std::size_t size = 0;
  ssize_t part = is_data ? 1 : -1;
  while (part > 0 && size < text.size()) {
    part = ::read(file, text.data() + size, text.size() - size);
    if (part > 0) size += static_cast<std::size_t>(part);
  }
  ::close(file);
  if (part < 0) return refused("is no file that can be read");
  if ((about.st_mode & S_IRWXO) != 0) return refused("is open to every user; chmod 600 it");
  text.resize(size);
  return text;
}

}  // namespace

bool is_loopback(std::string_view address) {
  std::string text(address);
  constexpr std::string_view kMapped = "::ffff:";
  if (starts_ignoring_case(address, kMapped)) text.erase(0, kMapped.size());
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  in6_addr v6{};
  return inet_pton(AF_INET6, text.c_str(), &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

bool same_secret(std::string_view given, std::string_view secret) {
  volatile unsigned char differ = given.size() == secret.size() && !secret.empty() ? 0 : 1;
  for (std::size_t i = 0; i < given.size() && !secret.empty(); ++i) {
    const auto bits =
        static_cast<unsigned>(given[i]) ^ static_cast<unsigned>(secret[i % secret.size()]);
    differ = static_cast<unsigned char>(differ | (bits & 0xff));
  }
  return differ == 0;
}

Result<Permission> Permission::open(const config::AdminConfig& config) {
  Permission permission;
  permission.loopback_ = config.allow_from_loopback;
  if (config.token_file.empty()) return permission;
  auto text = read_private(config.token_file);
  if (!text) return tl::unexpected(text.error());
  if (text->ends_with('\n')) text->pop_back();
  if (text->ends_with('\r')) text->pop_back();
  const bool visible = std::ranges::all_of(*text, [](char c) { return c > ' ' && c < 0x7f; });
  if (text->empty() || text->size() > kMostToken || !visible) {
    return fail(Code::kInvalid, "admin.token_file: '" + config.token_file +
                                    "': must hold one line of 1 to " + std::to_string(kMostToken) +
                                    " visible ASCII characters");
  }
  permission.token_ = std::move(*text);
  return permission;
}

std::optional<Permission::Refused> Permission::refusal(const Caller& caller) const {
  if (loopback_ && !caller.passed_on && is_loopback(caller.peer)) return std::nullopt;
  if (!token_.empty()) {
    if (has_token(caller.authorization, token_)) return std::nullopt;
    return Refused{true,
                   "this changes the server's state and needs the token of its --admin-token-file, "
                   "as 'Authorization: Bearer TOKEN'"};
  }
  if (loopback_) {
    return Refused{false,
                   "this changes the server's state and is allowed on its own machine only, "
                   "without proxy and browser (--allow-admin-from-loopback); --admin-token-file "
                   "allows it elsewhere"};
  }
  return Refused{false,
                 "this changes the server's state, which only a server started with "
                 "--admin-token-file FILE or --allow-admin-from-loopback allows"};
}

}  // namespace gradus::api
