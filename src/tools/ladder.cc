#include "tools/ladder.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/json_text.h"
#include "base/result.h"
#include "config/http_url.h"
#include "tools/http_client.h"

namespace gradus::tools {
namespace {

using namespace std::chrono_literals;
namespace dom = simdjson::dom;

constexpr Duration kAnswerLimit = 30s;

struct Server {
  std::string host;  // of an IPv6 address without its brackets
  std::uint16_t port = 80;
  std::string shown;          // as Host
  std::string authorization;  // a header's line; empty: none
};

Result<Server> server_at(const std::string& url) {
  const auto refused = fail(Code::kInvalid, "--url: '" + url +
                                                "': must be http://HOST:PORT, like "
                                                "http://127.0.0.1:8000");
  constexpr std::string_view kHttp = "http://";
  if (!config::is_http_url(url) || !url.starts_with(kHttp)) return refused;
  Server server;
  server.shown = url.substr(kHttp.size());
  if (server.shown.ends_with('/')) server.shown.pop_back();
  if (server.shown.find_first_of("/?#@") != std::string::npos) return refused;
  server.host = server.shown;
  const std::size_t colon = server.host.rfind(':');
  if (colon != std::string::npos && server.host.find(']', colon) == std::string::npos) {
    const char* const end = server.host.data() + server.host.size();
    if (std::from_chars(server.host.data() + colon + 1, end, server.port).ptr != end) {
      return refused;
    }
    server.host.resize(colon);
  }
  if (server.host.starts_with('[') && server.host.ends_with(']')) {
    server.host = server.host.substr(1, server.host.size() - 2);
  }
  return server;
}

Result<std::string> authorization_of(const std::string& token_file) {
  if (token_file.empty()) return "";
  std::ifstream file(token_file);
  std::string token;
  std::getline(file, token);
  if (token.ends_with('\r')) token.pop_back();
  if (!file || token.empty()) {
    return fail(Code::kInvalid, "--token-file: '" + token_file + "': holds no token to read");
  }
  return "Authorization: Bearer " + token + "\r\n";
}

bool is_number(std::string_view text) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  return !text.empty() && read.ec == std::errc() && read.ptr == end && value >= 0;
}

/// The body of the command; "": none, a table is all that is wanted.
Result<std::string> command_of(const LadderOptions& options) {
  constexpr std::array kVerbs = {"pin", "unpin", "disable", "enable"};
  if (options.verb.empty()) {
    if (options.how_long || options.reason) {
      return fail(Code::kInvalid, "--for and --reason go with a command");
    }
    return "";
  }
  if (std::ranges::find(kVerbs, options.verb) == kVerbs.end()) {
    return fail(Code::kInvalid,
                "'" + options.verb + "' after the model: must be pin, unpin, disable or enable");
  }
  const bool unpin = options.verb == "unpin";
  if (unpin && !options.level.empty()) return fail(Code::kInvalid, "unpin takes no level");
  if (!unpin && !is_number(options.level)) {
    return fail(Code::kInvalid, options.verb + ": must be followed by the level's number" +
                                    (options.level.empty() ? "" : ", not '" + options.level + "'"));
  }
  if (options.how_long && options.verb != "pin") {
    return fail(Code::kInvalid, "--for goes with pin only");
  }
  std::string body = "{\"" + options.verb + "\":" + (unpin ? "true" : options.level);
  if (options.how_long) body += ",\"for\":" + json_string(*options.how_long);
  if (options.reason) body += ",\"reason\":" + json_string(*options.reason);
  return body + "}";
}

std::string path_of(std::string_view model) {
  std::string path = "/v2/models/";
  for (const char c : model) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
    if (plain) {
      path += c;
      continue;
    }
    char escaped[4];
    std::snprintf(escaped, sizeof escaped, "%%%02X", static_cast<unsigned char>(c));
    path += escaped;
  }
  return path + "/ladder";
}

std::string text(const dom::element& object, const char* key) {
  std::string_view value;
  return object[key].get(value) == simdjson::SUCCESS ? std::string(value) : "";
}

std::optional<double> number(const dom::element& object, const char* key) {
  double value = 0;
  if (object[key].get(value) != simdjson::SUCCESS) return {};
  return value;
}

// What the server refuses is told in its own words.
Result<std::string> ask(const Server& server, const char* method, const std::string& path,
                        const std::string& body) {
  auto connection = HttpConnection::open(server.host, server.port);
  if (!connection) return tl::unexpected(connection.error());
  const auto answer = exchange(std::move(*connection),
                               http_request(method, path, server.authorization, body, server.shown),
                               steady_clock().now() + kAnswerLimit);
  if (!answer) return tl::unexpected(answer.error());
  if (answer->status == 200) return answer->body;
  dom::parser parser;
  dom::element root;
  std::string why;
  if (parser.parse(answer->body).get(root) == simdjson::SUCCESS) why = text(root, "error");
  if (why.empty()) why = "the server answered " + std::to_string(answer->status);
  return fail(answer->status == 503 ? Code::kUnavailable : Code::kInvalid, why);
}

// Drivers' words are shown on a terminal: one line, no control characters.
std::string printable(std::string line) {
  std::ranges::replace_if(
      line, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }, ' ');
  return line;
}

std::string rounded(double value, const char* format) {
  char shown[32];
  std::snprintf(shown, sizeof shown, format, value);
  return shown;
}

enum Column { kModel, kLevel, kNow, kState, kBreaker, kP99, kCanary, kPin, kWhy, kColumns };
using Row = std::array<std::string, kColumns>;

const Row kHead = {"MODEL",         "LEVEL",  "NOW", "STATE", "BREAKER",
                   "P99/TARGET ms", "CANARY", "PIN", "WHY"};

Row row_of(const std::string& model, const dom::element& ladder, const dom::element& level) {
  Row row;
  const double which = number(level, "level").value_or(-1);
  row[kModel] = model;
  row[kLevel] = rounded(which, "%.0f ") + text(level, "name");
  row[kNow] = number(ladder, "current_level") == which ? "*" : "";
  row[kState] = text(level, "state");
  row[kBreaker] = text(level, "breaker");
  const auto p99 = number(level, "p99_ms");
  row[kP99] = (p99 ? rounded(*p99, "%.1f") : "-") + "/" +
              rounded(number(level, "target_p99_ms").value_or(0), "%.0f");
  const auto share = number(level, "canary_share");
  row[kCanary] = share ? rounded(100 * *share, "%.0f %%") : "-";
  row[kPin] = "-";
  row[kWhy] = text(level, "reason");
  dom::element pin;
  if (ladder["pin"].get(pin) == simdjson::SUCCESS && number(pin, "level") == which) {
    const std::string until = text(pin, "until").substr(0, 19);  // whole seconds
    row[kPin] = until.empty() ? "for good" : "until " + until + "Z";
    if (const std::string why = text(pin, "reason"); !why.empty()) {
      row[kWhy] += (row[kWhy].empty() ? "pinned: " : "; pinned: ") + why;
    }
  }
  return row;
}

Result<void> append_rows(const std::string& json, std::vector<Row>& rows) {
  dom::parser parser;
  dom::element ladder;
  dom::array levels;
  if (parser.parse(json).get(ladder) != simdjson::SUCCESS ||
      ladder["levels"].get(levels) != simdjson::SUCCESS) {
    return fail(Code::kInternal, "no status of a ladder: " + json.substr(0, 200));
  }
  const std::string model = text(ladder, "model");
  for (const dom::element level : levels) rows.push_back(row_of(model, ladder, level));
  return {};
}

Result<std::vector<std::string>> models_of(const Server& server) {
  const auto json = ask(server, "GET", "/v2/models", "");
  if (!json) return tl::unexpected(json.error());
  dom::parser parser;
  dom::element root;
  dom::array names;
  if (parser.parse(*json).get(root) != simdjson::SUCCESS ||
      root["models"].get(names) != simdjson::SUCCESS) {
    return fail(Code::kInternal, "no list of models: " + json->substr(0, 200));
  }
  std::vector<std::string> models;
  for (const dom::element name : names) {
    std::string_view shown;
    if (name.get(shown) == simdjson::SUCCESS) models.emplace_back(shown);
  }
  return models;
}

/// Of one model, or of all: then one that cannot be served has a row that says why.
Result<std::vector<Row>> rows_of(const Server& server, const std::string& model) {
  std::vector<Row> rows;
  if (!model.empty()) {
    const auto json = ask(server, "GET", path_of(model), "");
    if (!json) return tl::unexpected(json.error());
    if (const auto read = append_rows(*json, rows); !read) return tl::unexpected(read.error());
    return rows;
  }
  const auto models = models_of(server);
  if (!models) return tl::unexpected(models.error());
  for (const std::string& one : *models) {
    const auto json = ask(server, "GET", path_of(one), "");
    if (!json) {
      rows.push_back({one, "-", "", "-", "-", "-", "-", "-", json.error().message});
    } else if (const auto read = append_rows(*json, rows); !read) {
      return tl::unexpected(read.error());
    }
  }
  return rows;
}

// Of UTF-8, one place for each code point.
std::size_t width(std::string_view line) {
  return static_cast<std::size_t>(
      std::ranges::count_if(line, [](char c) { return (c & 0xc0) != 0x80; }));
}

void print(std::vector<Row> rows, std::ostream& out) {
  rows.insert(rows.begin(), kHead);
  std::array<std::size_t, kColumns> widths{};
  for (Row& row : rows) {
    for (std::size_t i = 0; i < kColumns; ++i) {
      row[i] = printable(std::move(row[i]));
      widths[i] = std::max(widths[i], width(row[i]));
    }
  }
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < kColumns; ++i) {
      line += row[i] + std::string(widths[i] - width(row[i]) + 2, ' ');
    }
    line.resize(line.find_last_not_of(' ') + 1);
    out << line << "\n";
  }
}

}  // namespace

int ladder(const LadderOptions& options, std::ostream& out, std::ostream& err) {
  const auto tell = [&](const Error& error, int code) {
    err << printable(error.message) << "\n";
    return code;
  };
  auto server = server_at(options.url);
  if (!server) return tell(server.error(), 2);
  const auto command = command_of(options);
  if (!command) return tell(command.error(), 2);
  auto authorization = authorization_of(options.token_file);
  if (!authorization) return tell(authorization.error(), 2);
  server->authorization = std::move(*authorization);

  if (!command->empty()) {
    const auto done = ask(*server, "POST", path_of(options.model), *command);
    if (!done) return tell(done.error(), 1);
  }
  const auto rows = rows_of(*server, options.model);
  if (!rows) return tell(rows.error(), 1);
  print(*rows, out);
  return 0;
}

}  // namespace gradus::tools
