#include "api/http/http_message.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "api/codec/metadata.h"

namespace gradus::api {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string_view reason_phrase(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Unknown";
  }
}

void append_number(std::string& out, std::uint64_t value) {
  char digits[20];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

void append_two_digits(std::string& out, std::int64_t value) {
  out.push_back(static_cast<char>('0' + value / 10));
  out.push_back(static_cast<char>('0' + value % 10));
}

// `Sun, 29 Nov 2026 15:04:05 GMT` (RFC 9110, section 5.6.7), without the C library's time zone
// lock.
void append_http_date(std::string& out, WallTime at) {
  using namespace std::chrono;
  static constexpr std::string_view kDays = "SunMonTueWedThuFriSat";
  static constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const auto day = floor<days>(at);
  const year_month_day date{day};
  const hh_mm_ss time{floor<seconds>(at - day)};
  out += kDays.substr(std::size_t{weekday{day}.c_encoding()} * 3, 3);
  out += ", ";
  append_two_digits(out, static_cast<unsigned>(date.day()));
  out += ' ';
  out += kMonths.substr((std::size_t{static_cast<unsigned>(date.month())} - 1) * 3, 3);
  out += ' ';
  append_number(out, static_cast<std::uint64_t>(static_cast<int>(date.year())));
  out += ' ';
  append_two_digits(out, time.hours().count());
  out += ':';
  append_two_digits(out, time.minutes().count());
  out += ':';
  append_two_digits(out, time.seconds().count());
  out += " GMT";
}

}  // namespace

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(),
                                            [](char x, char y) { return lower(x) == lower(y); });
}

std::optional<std::string_view> HttpRequest::header(std::string_view name) const {
  for (const HttpHeader& h : headers) {
    if (equal_ignoring_case(h.name, name)) return h.value;
  }
  return std::nullopt;
}

bool HttpRequest::header_conflicts(std::string_view name) const {
  const auto first = header(name);
  return first && std::any_of(headers.begin(), headers.end(), [&](const HttpHeader& h) {
           return equal_ignoring_case(h.name, name) && h.value != *first;
         });
}

HttpResponse error_response(int status, std::string_view text) {
  HttpResponse response;
  response.status = status;
  response.head = error_json(text);
  if (status == 503 || status == 429) response.headers.emplace_back("Retry-After", "1");
  return response;
}

void append_response_head(std::string& out, const HttpResponse& response, bool keep_alive,
                          bool http_1_0, WallTime at) {
  std::uint64_t length = response.head.size();
  for (const Segment& segment : response.segments) length += segment.bytes.size();
  out += "HTTP/1.1 ";
  append_number(out, static_cast<std::uint64_t>(response.status));
  out += ' ';
  out += reason_phrase(response.status);
  out += "\r\nContent-Type: ";
  out += response.content_type;
  out += "\r\nContent-Length: ";
  append_number(out, length);
  out += "\r\nDate: ";
  append_http_date(out, at);
  if (!keep_alive) {
    out += "\r\nConnection: close";
  } else if (http_1_0) {
    out += "\r\nConnection: keep-alive";
  }
  for (const auto& [name, value] : response.headers) {
    out += "\r\n";
    out += name;
    out += ": ";
    out += value;
  }
  out += "\r\n\r\n";
}

}  // namespace gradus::api
