#include "grpc_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "files.h"

namespace gradus::bench {
namespace {

constexpr std::string_view kMethod = "/inference.GRPCInferenceService/ModelInfer";
constexpr std::size_t kReadBytes = 256 << 10;
constexpr std::uint32_t kWindow = 16 << 20;    // what the server may send ahead
constexpr std::uint32_t kMostFrame = 4 << 20;  // that the server may send, as gRPC's clients say
constexpr std::size_t kFrameHead = 9;          // RFC 9113, section 4.1
constexpr std::size_t kPrefix = 5;

std::string errno_text(const std::string& what) { return what + ": " + std::strerror(errno); }

std::string_view view_of(const std::uint8_t* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

// @param name, value borrowed
nghttp2_nv header(std::string_view name, std::string_view value) {
  const auto bytes = [](std::string_view text) {
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));  // nghttp2 only reads
  };
  return {bytes(name), bytes(value), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

std::string prefix_of(std::size_t message_bytes) {
  std::string prefix(1, '\0');
  for (const int shift : {24, 16, 8, 0}) prefix += static_cast<char>(message_bytes >> shift);
  return prefix;
}

ssize_t next_part(nghttp2_session*, std::int32_t, std::uint8_t*, std::size_t most,
                  std::uint32_t* flags, nghttp2_data_source* source, void*) {
  const std::size_t left = static_cast<GrpcCall*>(source->ptr)->unsent.size();
  *flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  if (left <= most) *flags |= NGHTTP2_DATA_FLAG_EOF;
  return static_cast<ssize_t>(std::min(left, most));
}

}  // namespace

std::string framed(std::string_view message) { return prefix_of(message.size()).append(message); }

void GrpcAnswer::take(std::string_view data, bool keep) {
  const std::size_t of_prefix = std::min(data.size(), kPrefix - prefix.size());
  prefix += data.substr(0, of_prefix);
  data.remove_prefix(of_prefix);
  message_bytes += data.size();
  if (keep) message += data;
}

void GrpcAnswer::take_header(std::string_view name, std::string_view value) {
  const auto number = [value] {
    const auto parsed = parse_number<int>(value);
    return parsed ? std::optional(*parsed) : std::nullopt;
  };
  if (name == "grpc-status") status = number();
  if (name == "grpc-message") details = value;
  if (name == "gradus-level") level = number();
}

Result<void> GrpcAnswer::check() const {
  if (!status) return fail(Code::kInternal, "an answer without grpc-status");
  if (*status != 0) {
    return fail(Code::kInternal, "status " + std::to_string(*status) + ": " + details);
  }
  if (prefix == prefix_of(message_bytes)) return {};
  return fail(Code::kInternal, "status 0 without one whole, uncompressed message");
}

void Outgoing::add(std::string_view head, std::string_view body) {
  heads_ += head;
  if (frames_.empty() || !frames_.back().body.empty()) frames_.emplace_back();
  frames_.back().head_bytes += head.size();
  frames_.back().body = body;
}

Result<void> Outgoing::write(int socket) {
  std::array<iovec, 128> parts;
  msghdr message{};
  message.msg_iov = parts.data();
  char* head = heads_.data() + heads_written_;
  for (auto frame = frames_.begin() + static_cast<std::ptrdiff_t>(written_);
       frame != frames_.end() && message.msg_iovlen < parts.size(); ++frame) {
    parts[message.msg_iovlen++] = {head, frame->head_bytes};
    parts[message.msg_iovlen++] = {const_cast<char*>(frame->body.data()), frame->body.size()};
    head += frame->head_bytes;
  }
  const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0 && errno != EAGAIN && errno != EINTR) {
    return fail(Code::kUnavailable, errno_text("sending a request"));
  }
  if (sent > 0) drop(static_cast<std::size_t>(sent));
  return {};
}

void Outgoing::drop(std::size_t written) {
  for (; written_ < frames_.size(); ++written_) {
    auto& [head_bytes, body] = frames_[written_];
    const std::size_t of_head = std::min(written, head_bytes);
    const std::size_t of_body = std::min(written - of_head, body.size());
    heads_written_ += of_head;
    head_bytes -= of_head;
    body.remove_prefix(of_body);
    written -= of_head + of_body;
    if (head_bytes + body.size() > 0) return;
  }
  heads_.clear();
  frames_.clear();
  heads_written_ = written_ = 0;
}

Result<std::unique_ptr<GrpcConnection>> GrpcConnection::open(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return fail(Code::kUnavailable, errno_text("socket"));
  std::unique_ptr<GrpcConnection> made(new GrpcConnection(fd, port));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return fail(Code::kUnavailable, errno_text("connecting to port " + std::to_string(port)));
  }
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return made;
}

GrpcConnection::GrpcConnection(int fd, std::uint16_t port)
    : fd_(fd), authority_("127.0.0.1:" + std::to_string(port)) {
  nghttp2_session_callbacks* on = nullptr;
  nghttp2_session_callbacks_new(&on);
  nghttp2_session_callbacks_set_send_callback(
      on, [](nghttp2_session*, const std::uint8_t* frame, std::size_t size, int, void* self) {
        static_cast<GrpcConnection*>(self)->outgoing_.add(view_of(frame, size));
        return static_cast<ssize_t>(size);
      });
  nghttp2_session_callbacks_set_send_data_callback(
      on, [](nghttp2_session*, nghttp2_frame*, const std::uint8_t* head, std::size_t size,
             nghttp2_data_source* source, void* self) {
        std::string_view& unsent = static_cast<GrpcCall*>(source->ptr)->unsent;
        static_cast<GrpcConnection*>(self)->outgoing_.add(view_of(head, kFrameHead),
                                                          unsent.substr(0, size));
        unsent.remove_prefix(size);
        return 0;
      });
  nghttp2_session_callbacks_set_data_source_read_length_callback(
      on, [](nghttp2_session*, std::uint8_t, std::int32_t, std::int32_t, std::int32_t,
             std::uint32_t most, void*) { return static_cast<ssize_t>(most); });
  nghttp2_session_callbacks_set_on_header_callback(
      on, [](nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
             std::size_t name_size, const std::uint8_t* value, std::size_t value_size, std::uint8_t,
             void* self) {
        GrpcCall* const call = static_cast<GrpcConnection*>(self)->call_of(frame->hd.stream_id);
        if (call != nullptr) {
          call->answer.take_header(view_of(name, name_size), view_of(value, value_size));
        }
        return 0;
      });
  nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
      on, [](nghttp2_session*, std::uint8_t, std::int32_t stream, const std::uint8_t* data,
             std::size_t size, void* self) {
        GrpcCall* const call = static_cast<GrpcConnection*>(self)->call_of(stream);
        if (call != nullptr) call->answer.take(view_of(data, size), call->keep);
        return 0;
      });
  nghttp2_session_callbacks_set_on_frame_recv_callback(
      on, [](nghttp2_session*, const nghttp2_frame* frame, void* self) {
        auto& connection = *static_cast<GrpcConnection*>(self);
        const bool last = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
        switch (frame->hd.type) {
          case NGHTTP2_GOAWAY:
            return connection.give_up(
                std::string("the server ends the connection: ") +
                nghttp2_http2_strerror(frame->goaway.error_code) + " " +
                std::string(view_of(frame->goaway.opaque_data, frame->goaway.opaque_data_len)));
          case NGHTTP2_HEADERS:
          case NGHTTP2_DATA:
            return last ? connection.on_answer_end(frame->hd.stream_id) : 0;
          default:
            return 0;
        }
      });
  nghttp2_session_callbacks_set_on_stream_close_callback(
      on, [](nghttp2_session*, std::int32_t stream, std::uint32_t error, void* self) {
        return static_cast<GrpcConnection*>(self)->on_stream_end(stream, error);
      });
  nghttp2_session_callbacks_set_error_callback2(
      on, [](nghttp2_session*, int, const char* text, std::size_t size, void* self) {
        static_cast<GrpcConnection*>(self)->wrong_.assign(text, size);
        return 0;
      });
  nghttp2_session_client_new(&session_, on, this);
  nghttp2_session_callbacks_del(on);

  const std::array<nghttp2_settings_entry, 4> settings = {{
      {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kWindow},
      {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, kMostFrame},
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},  // requests go one after the other, not mixed
  }};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings.data(), settings.size());
  nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, kWindow);
}

GrpcConnection::~GrpcConnection() {
  nghttp2_session_del(session_);
  ::close(fd_);
}

Result<void> GrpcConnection::begin(GrpcCall& call, std::string_view request) {
  const std::array<nghttp2_nv, 7> headers = {
      header(":method", "POST"),
      header(":scheme", "http"),
      header(":path", kMethod),
      header(":authority", authority_),
      header("te", "trailers"),
      header("content-type", "application/grpc"),
      header("user-agent", "gradus-bench"),
  };
  nghttp2_data_provider body{{.ptr = &call}, next_part};
  call.unsent = request;
  call.answer = {};
  call.stream =
      nghttp2_submit_request(session_, nullptr, headers.data(), headers.size(), &body, &call);
  if (call.stream > 0) return {};
  return fail(Code::kInternal, std::string("beginning a call: ") + nghttp2_strerror(call.stream));
}

Result<void> GrpcConnection::write() {
  for (;;) {
    if (outgoing_.empty()) {
      // It reads no more once it has told the server what was wrong with what came.
      if (nghttp2_session_send(session_) != 0 || nghttp2_session_want_read(session_) == 0) {
        return broken();
      }
      if (outgoing_.empty()) return {};
    }
    if (auto written = outgoing_.write(fd_); !written || !outgoing_.empty()) return written;
  }
}

Result<void> GrpcConnection::read() {
  done_.clear();
  std::array<std::uint8_t, kReadBytes>
      buffer;  // not initialized: that would cost more than reading
  const ssize_t got = ::recv(fd_, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (got < 0) return fail(Code::kUnavailable, errno_text("reading an answer"));
  if (got == 0) return fail(Code::kUnavailable, "the server closed the connection");
  const ssize_t taken =
      nghttp2_session_mem_recv(session_, buffer.data(), static_cast<std::size_t>(got));
  return taken < 0 ? broken() : Result<void>{};
}

GrpcCall* GrpcConnection::call_of(std::int32_t stream) const {
  return static_cast<GrpcCall*>(nghttp2_session_get_stream_user_data(session_, stream));
}

int GrpcConnection::on_answer_end(std::int32_t stream) {
  GrpcCall* const call = call_of(stream);
  if (call == nullptr) return 0;
  if (!call->unsent.empty() && call->answer.status == 0) {
    return give_up("an answer came before the request was sent");
  }
  call->stream = 0;
  done_.push_back(call);
  return 0;
}

int GrpcConnection::on_stream_end(std::int32_t stream, std::uint32_t error) {
  const GrpcCall* const call = call_of(stream);
  if (call == nullptr || call->stream != stream) return 0;  // it has its answer
  return give_up(std::string("a call was reset: ") + nghttp2_http2_strerror(error));
}

int GrpcConnection::give_up(std::string why) {
  wrong_ = std::move(why);
  return NGHTTP2_ERR_CALLBACK_FAILURE;
}

Result<void> GrpcConnection::broken() const {
  return fail(Code::kInternal, wrong_.empty() ? "what came breaks the rules of HTTP/2" : wrong_);
}

}  // namespace gradus::bench
