// The server's HTTP stack with nothing behind it: reads a body whole and answers with as many bytes
// as the request's path says. What HTTP alone costs for the sizes of a model's requests.
//
// `POST /HEAD/TAIL` is answered with HEAD + TAIL bytes, in the two pieces in which the server
// writes an answer: a JSON header and one tensor. Prints `listening PORT`; ends with standard
// input.
#include <cstdio>
#include <iostream>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "api/http/http_server.h"
#include "base/clock.h"
#include "base/cpu_count.h"
#include "files.h"

namespace gradus::bench {
namespace {

constexpr std::size_t kMostTail = 4 << 20;

class Echo final : public api::Handler {
 public:
  void handle(const api::HttpRequest& request, api::Reply reply) override {
    const std::string_view sizes = request.target.substr(1);
    const auto slash = sizes.find('/');
    const auto head = parse_number<std::size_t>(sizes.substr(0, slash));
    const auto tail = parse_number<std::size_t>(
        slash == std::string_view::npos ? std::string_view{} : sizes.substr(slash + 1));
    if (!head || !tail || *tail > kMostTail) {
      reply(api::error_response(404, "the path is /HEAD/TAIL, two numbers of bytes"));
      return;
    }
    api::HttpResponse response;
    response.content_type = "application/octet-stream";
    response.head.assign(*head, ' ');
    response.segments.push_back({std::span(bytes_->data(), *tail), bytes_});
    reply(std::move(response));
  }

 private:
  std::shared_ptr<const std::vector<std::byte>> bytes_ =
      std::make_shared<const std::vector<std::byte>>(kMostTail);
};

int run() {
  Echo echo;
  config::HttpConfig config;
  config.port = 0;
  worker::SharedPool pool({.shared = false});
  api::HttpServer server(config, echo, usable_cpus(), steady_clock(), pool);
  const auto port = server.start();
  if (!port) {
    std::fprintf(stderr, "%s\n", port.error().message.c_str());
    return 1;
  }
  std::printf("listening %d\n", *port);
  std::fflush(stdout);
  while (std::cin.get() != std::istream::traits_type::eof()) {
  }
  return 0;
}

}  // namespace
}  // namespace gradus::bench

int main() { return gradus::bench::run(); }
