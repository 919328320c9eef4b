#include "fault_ep/control_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "fault_ep/control.h"

namespace gradus::fault {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return number_; }

 private:
  const int number_;
};

tl::unexpected<Error> system_fault(Code code, const std::string& who) {
  return fail(code, who + ": " + std::strerror(errno));
}

void set_back(OrderWords& order) {
  order.fault = static_cast<std::uint32_t>(Fault::kNone);
  order.skip = 0;
  order.count = 0;
  order.every = 1;
  order.turn = 0;
  order.devices = kEveryDevice;
  order.code = 0;
  order.sticky = 0;
  for (Counter& part : order.text) part = 0;
}

void set_back(Layout& layout) {
  for (OrderWords& order : layout.orders) set_back(order);
  layout.devices = 1;
  layout.gone = 0;
  layout.delay_us = 0;
  ++layout.releases;
  layout.last_pid = 0;
  for (Counter* counter : {&layout.created, &layout.compiled, &layout.runs, &layout.ok,
                           &layout.hung, &layout.injected, &layout.injected_at_ns}) {
    *counter = 0;
  }
  layout.version = kVersion;
  layout.magic = kMagic;
}

}  // namespace

ControlFile::ControlFile(ControlFile&& other) noexcept
    : layout_(std::exchange(other.layout_, nullptr)) {}

ControlFile::~ControlFile() {
  if (layout_ != nullptr) munmap(layout_, sizeof(Layout));
}

Result<ControlFile> ControlFile::map(int descriptor, const std::string& who) {
  const int flags = MAP_SHARED | (descriptor < 0 ? MAP_ANONYMOUS : 0);
  void* at = mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, flags, descriptor, 0);
  if (at == MAP_FAILED) return system_fault(Code::kUnavailable, who);
  return ControlFile(static_cast<Layout*>(at));
}

Result<ControlFile> ControlFile::create(const std::string& path) {
  const std::string who = "control file " + path;
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (file.get() < 0 || ftruncate(file.get(), sizeof(Layout)) != 0) {
    return system_fault(Code::kUnavailable, who);
  }
  auto made = map(file.get(), who);
  if (made) set_back(**made);
  return made;
}

Result<ControlFile> ControlFile::open(const std::string& path) {
  const std::string who = "control file " + path;
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (file.get() < 0) {
    return system_fault(errno == ENOENT ? Code::kNotFound : Code::kInvalid, who);
  }
  struct stat about {};
  if (fstat(file.get(), &about) != 0) return system_fault(Code::kInvalid, who);
  if (about.st_size != sizeof(Layout)) {
    return fail(Code::kInvalid, who + ": " + std::to_string(about.st_size) + " bytes, must be " +
                                    std::to_string(sizeof(Layout)));
  }
  auto opened = map(file.get(), who);
  if (!opened) return opened;
  if ((*opened)->magic != kMagic || (*opened)->version != kVersion) {
    return fail(Code::kInvalid, who + ": no control file of version " + std::to_string(kVersion));
  }
  return opened;
}

Result<ControlFile> ControlFile::in_memory() {
  auto made = map(-1, "memory for orders to the fault provider");
  if (made) set_back(**made);
  return made;
}

}  // namespace gradus::fault
