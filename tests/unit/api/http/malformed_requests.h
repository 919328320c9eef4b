// Requests that must be refused, each with its status: one table for the parser and for the server.
#pragma once
#include <string>
#include <vector>

namespace gradus::api {

struct MalformedRequest {
  std::string name;
  std::string bytes;
  int status;
};

inline const std::vector<MalformedRequest>& malformed_requests() {
  const std::string host = "Host: h\r\n";
  const auto header = [host](const std::string& line) {
    return "POST /x HTTP/1.1\r\n" + host + line + "\r\n\r\n";
  };
  const auto chunked = [host](const std::string& body) {
    return "POST /x HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n" + body;
  };
  static const std::vector<MalformedRequest> table = {
      // request line
      {"NoVersion", "GET /\r\n" + host + "\r\n", 400},
      {"NoTarget", "GET  HTTP/1.1\r\n" + host + "\r\n", 400},
      {"OneWord", "GET\r\n\r\n", 400},
      {"MethodWithBrackets", "GE(T) / HTTP/1.1\r\n" + host + "\r\n", 400},
      {"BlankBeforeMethod", " GET / HTTP/1.1\r\n" + host + "\r\n", 400},
      {"TwoBlanksBeforeVersion", "GET /  HTTP/1.1\r\n" + host + "\r\n", 400},
      {"BlankAfterVersion", "GET / HTTP/1.1 \r\n" + host + "\r\n", 400},
      {"ControlInTarget", "GET /a\x01 HTTP/1.1\r\n" + host + "\r\n", 400},
      {"TabInTarget", "GET /a\tb HTTP/1.1\r\n" + host + "\r\n", 400},
      {"OtherProtocol", "GET / FTP/1.1\r\n" + host + "\r\n", 400},
      {"LowerCaseProtocol", "GET / http/1.1\r\n" + host + "\r\n", 400},
      {"BareLineFeed", "GET / HTTP/1.1\n" + host + "\r\n", 400},
      {"TlsHello", std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11), 400},
      {"Http2Preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
      {"Http3", "GET / HTTP/3.0\r\n" + host + "\r\n", 505},
      {"Http12", "GET / HTTP/1.2\r\n" + host + "\r\n", 505},
      {"Http09WithVersion", "GET / HTTP/0.9\r\n\r\n", 505},
      // headers
      {"HeaderWithoutColon", header("NoColonHere"), 400},
      {"HeaderWithEmptyName", header(": value"), 400},
      {"BlankBeforeColon", header("Name : value"), 400},
      {"BlankInName", header("Na me: value"), 400},
      {"ControlInName", header("Na\x02me: value"), 400},
      {"NulInValue", header(std::string("Name: a\0b", 9)), 400},
      {"CarriageReturnInValue", header("Name: a\rb"), 400},
      {"DeleteInValue", header("Name: a\x7f"), 400},
      {"NoHost", "GET / HTTP/1.1\r\n\r\n", 400},
      {"TwoHosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
      {"SameHostTwice", "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400},
      {"HostWithBlank", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
      {"HostWithSlash", "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
      {"HostWithUser", "GET / HTTP/1.1\r\nHost: me@a\r\n\r\n", 400},
      {"TooManyHeaders",
       [&] {
         std::string lines;
         for (int i = 0; i < 101; ++i) lines += "a: b\r\n";
         return "GET / HTTP/1.1\r\n" + host + lines + "\r\n";
       }(),
       431},
      {"HeaderTooLarge", header("Name: " + std::string(20'000, 'x')), 431},
      {"TargetTooLong", "GET /" + std::string(20'000, 'x') + " HTTP/1.1\r\n" + host + "\r\n", 431},
      {"ManyHeadersTooLarge",
       [&] {
         std::string lines;
         for (int i = 0; i < 90; ++i) lines += "name: " + std::string(200, 'x') + "\r\n";
         return "GET / HTTP/1.1\r\n" + host + lines + "\r\n";
       }(),
       431},
      // lengths and codings
      {"LengthNoNumber", header("Content-Length: abc"), 400},
      {"LengthNegative", header("Content-Length: -1"), 400},
      {"LengthWithSign", header("Content-Length: +5"), 400},
      {"LengthHex", header("Content-Length: 0x10"), 400},
      {"LengthEmpty", header("Content-Length:"), 400},
      {"LengthWithBlank", header("Content-Length: 1 2"), 400},
      {"LengthOverflows", header("Content-Length: 99999999999999999999999"), 400},
      {"LengthsConflict", header("Content-Length: 5\r\nContent-Length: 6"), 400},
      {"LengthsConflictInAList", header("Content-Length: 5, 6"), 400},
      {"LengthTooLarge", header("Content-Length: 99999999999"), 413},
      {"LengthThenChunked", header("Content-Length: 5\r\nTransfer-Encoding: chunked"), 400},
      {"ChunkedThenLength", header("Transfer-Encoding: chunked\r\nContent-Length: 5"), 400},
      {"ChunkedTwice", header("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"), 400},
      {"ChunkedTwiceInAList", header("Transfer-Encoding: chunked, chunked"), 501},
      {"UnknownCoding", header("Transfer-Encoding: rot13"), 501},
      {"GzipThenChunked", header("Transfer-Encoding: gzip, chunked"), 501},
      {"ChunkedNotLast", header("Transfer-Encoding: chunked, gzip"), 501},
      {"IdentityCoding", header("Transfer-Encoding: identity\r\nContent-Length: 5"), 501},
      {"HiddenChunked", header("Transfer-Encoding: xchunked"), 501},
      {"CodingInHttp10", "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {"UnknownExpectation", header("Expect: a-miracle\r\nContent-Length: 5"), 417},
      // chunks
      {"ChunkSizeNoNumber", chunked("zz\r\n"), 400},
      {"ChunkSizeNegative", chunked("-1\r\n"), 400},
      {"ChunkSizeOverflows", chunked("fffffffffffffffff\r\n"), 400},
      {"ChunkSizeEmpty", chunked("\r\nabc\r\n"), 400},
      {"ChunkWithoutEnd", chunked("3\r\nabcdef\r\n"), 400},
      {"ChunkTooLarge", chunked("fffffffff\r\n"), 413},
      {"ChunkExtensionMalformed", chunked("3;=x\r\nabc\r\n"), 400},
      {"LengthInTrailer", chunked("0\r\nContent-Length: 5\r\n\r\n"), 400},
  };
  return table;
}

}  // namespace gradus::api
