#include "api/control/trace_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <utility>

#include "base/log.h"

namespace gradus::api {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view kBegin = "[";
constexpr std::string_view kEnd = "\n]\n";
constexpr Duration kLastWords = 2s;  // for what waits at the end

bool put(int fd, std::string_view text, std::uint64_t at) {
  while (!text.empty()) {
    const ssize_t written = ::pwrite(fd, text.data(), text.size(), static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
    at += static_cast<std::uint64_t>(written);
  }
  return true;
}

bool is_plain_name(std::string_view name) {
  constexpr std::size_t kMostName = 100;
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
  };
  return !name.empty() && name.size() <= kMostName && name.front() != '.' &&
         std::ranges::all_of(name, plain);
}

tl::unexpected<Error> cannot_make(const std::string& path, const std::string& why) {
  return fail(Code::kInvalid, "trace_file '" + path + "' cannot be made: " + why);
}

}  // namespace

Result<void> TraceWriter::check(const std::string& path) {
  // O_NONBLOCK: of a FIFO, no wait for who reads it; ENXIO: nobody does.
  const int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  const int fd = ::open(path.c_str(), flags, 0640);
  if (fd < 0 && errno != ENXIO) return cannot_make(path, std::strerror(errno));
  struct stat about {};
  const bool regular = fd >= 0 && ::fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
  if (fd >= 0) ::close(fd);
  return regular ? Result<void>{} : cannot_make(path, "must be a regular file");
}

Result<std::unique_ptr<TraceWriter>> TraceWriter::open(std::string path) {
  std::error_code error;
  if (auto whole = std::filesystem::absolute(path, error); !error) path = whole.string();
  std::unique_ptr<TraceWriter> writer(new TraceWriter(std::move(path)));
  if (auto made = writer->make(writer->path_, true); !made) {
    return tl::unexpected(std::move(made.error()));
  }
  return writer;
}

TraceWriter::~TraceWriter() { flush(kLastWords); }

TraceWriter::Array::~Array() {
  if (fd >= 0) ::close(fd);
}

// An empty one in a new file; false: errno says why not.
bool TraceWriter::begin(const std::string& path, bool replace, Array& array) {
  const int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | (replace ? O_TRUNC : O_EXCL);
  const int fd = ::open(path.c_str(), flags, 0640);
  if (fd < 0) return false;
  if (!put(fd, kBegin, 0) || !put(fd, kEnd, kBegin.size())) {
    const int why = errno;
    ::close(fd);
    errno = why;
    return false;
  }
  if (array.fd >= 0) ::close(array.fd);
  array.fd = fd;
  array.end = kBegin.size();
  array.traces = 0;
  return true;
}

Result<void> TraceWriter::make(const std::string& path, bool replace) {
  const MutexLock lock(mutex_);  // so that none is made twice
  if (files_.contains(path)) return {};
  if (files_.size() > kMostFiles) {
    return fail(Code::kInvalid, "trace_file: this server has made " + std::to_string(kMostFiles) +
                                    " trace files already; name one of them");
  }
  File& file = files_[path];
  file.replace = replace;
  if (begin(path, replace, file.whole)) return {};
  const std::string why = std::strerror(errno);
  files_.erase(path);
  return cannot_make(path, why);
}

Result<std::string> TraceWriter::file_of_client(std::string_view name) {
  if (name == path_) return path_;
  const std::filesystem::path folder = std::filesystem::path(path_).parent_path();
  std::string_view plain = name;
  if (const std::string before = folder.string() + "/"; plain.starts_with(before)) {
    plain.remove_prefix(before.size());
  }
  if (!is_plain_name(plain)) {
    return fail(Code::kInvalid,
                "trace_file: expected a plain name of 1 to 100 letters, digits and _-. for a file "
                "beside the server's --trace-file");
  }
  std::string path = (folder / plain).string();
  if (path == path_) return path_;
  if (auto made = make(path, false); !made) return tl::unexpected(std::move(made.error()));
  return path;
}

void TraceWriter::write(const std::string& path, std::string entries, std::uint32_t log_frequency) {
  const bool taken = lane_.try_push([this, path, entries = std::move(entries), log_frequency] {
    append(path, entries, log_frequency);
  });
  if (taken) return;
  dropped_.fetch_add(1, std::memory_order_relaxed);
  fault("more traces come than can be written; some are dropped");
}

// The writing thread alone changes a file once it is made; making others does not move it.
void TraceWriter::append(const std::string& path, const std::string& entries,
                         std::uint32_t log_frequency) {
  File* file = nullptr;
  {
    const MutexLock lock(mutex_);
    const auto found = files_.find(path);
    if (found == files_.end()) return;
    file = &found->second;
  }
  Array& array = log_frequency > 0 ? file->part : file->whole;
  if (log_frequency > 0 && (array.fd < 0 || array.traces >= log_frequency)) {
    const std::string next = path + "." + std::to_string(file->parts);
    if (!begin(next, file->replace, array)) {
      return fault("'" + next + "' cannot be made: " + std::strerror(errno));
    }
    ++file->parts;
  }
  const std::string text = (array.traces > 0 ? ",\n" : "\n") + entries;
  if (!put(array.fd, text + std::string(kEnd), array.end)) {
    return fault("'" + path + "' cannot be written: " + std::strerror(errno));
  }
  array.end += text.size();
  ++array.traces;
}

void TraceWriter::flush(Duration limit) {
  const auto written = std::make_shared<std::promise<void>>();
  auto done = written->get_future();
  if (lane_.try_push([written] { written->set_value(); })) done.wait_for(limit);
}

void TraceWriter::fault(const std::string& what) {
  if (!told_.exchange(true)) log::warning("trace: " + what);
}

}  // namespace gradus::api
