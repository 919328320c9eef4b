#include "fault_ep/control.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace gradus::fault {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kHighestCode = 31;  // ONNX Runtime has 0 to 15 so far

Result<void> check(Place place, const Order& order) {
  if (order.every == 0) return fail(Code::kInvalid, "every = 0: must be at least 1");
  if (order.code == 0 || order.code > kHighestCode) {
    return fail(Code::kInvalid, "code = " + std::to_string(order.code) + ": must be in [1, " +
                                    std::to_string(kHighestCode) + "]");
  }
  if (order.text.size() >= kTextBytes) {
    return fail(Code::kInvalid, "text has " + std::to_string(order.text.size()) +
                                    " bytes: must be under " + std::to_string(kTextBytes));
  }
  if (order.sticky && order.fault != Fault::kError && order.fault != Fault::kOutOfMemory) {
    return fail(Code::kInvalid, "sticky: only an error or out of memory can stay");
  }
  if (place != Place::kRun && order.batch != 0) {
    return fail(Code::kInvalid,
                "batch = " + std::to_string(order.batch) + ": only a run has samples");
  }
  if (place != Place::kRun && (order.fault == Fault::kNan || order.fault == Fault::kTruncate)) {
    return fail(Code::kInvalid, "NaN or truncated outputs: only a run has outputs");
  }
  return {};
}

OrderWords& words(const ControlFile& file, Place place) {
  return file->orders.at(static_cast<std::size_t>(place));
}

}  // namespace

Result<Control> Control::create(const std::string& path) {
  return ControlFile::create(path).map([](ControlFile&& file) { return Control(std::move(file)); });
}

Result<Control> Control::open(const std::string& path) {
  return ControlFile::open(path).map([](ControlFile&& file) { return Control(std::move(file)); });
}

Result<void> Control::order(Place place, const Order& order) {
  if (auto ok = check(place, order); !ok) return ok;
  OrderWords& to = words(file_, place);
  to.fault = static_cast<std::uint32_t>(Fault::kNone);
  to.skip = order.skip;
  to.count = order.count;
  to.every = order.every;
  to.turn = 0;
  to.devices = order.devices;
  if (place == Place::kRun) file_->run_batch = order.batch;
  to.code = order.code;
  to.sticky = order.sticky ? 1 : 0;
  char bytes[kTextBytes] = {};
  std::ranges::copy(order.text, bytes);
  for (std::size_t i = 0; i < to.text.size(); ++i) {
    std::uint64_t part = 0;
    std::memcpy(&part, bytes + i * sizeof part, sizeof part);
    to.text[i] = part;
  }
  to.fault = static_cast<std::uint32_t>(order.fault);
  return {};
}

void Control::cancel(Place place) {
  words(file_, place).fault = static_cast<std::uint32_t>(Fault::kNone);
}

std::uint32_t Control::left(Place place) const {
  const OrderWords& order = words(file_, place);
  return order.fault == static_cast<std::uint32_t>(Fault::kNone) ? 0 : order.count.load();
}

void Control::set_gone(std::uint32_t devices) { file_->gone = devices; }

Result<void> Control::set_devices(std::uint32_t count) {
  if (count == 0 || count > kMostDevices) {
    return fail(Code::kInvalid, "devices = " + std::to_string(count) + ": must be in [1, " +
                                    std::to_string(kMostDevices) + "]");
  }
  file_->devices = count;
  return {};
}

Result<void> Control::set_delay(std::chrono::microseconds delay) {
  if (delay < 0us || delay > 1h) {
    return fail(Code::kInvalid,
                "delay = " + std::to_string(delay.count()) + " us: must be from 0 to an hour");
  }
  file_->delay_us = static_cast<std::uint32_t>(delay.count());
  return {};
}

void Control::release() { ++file_->releases; }

void Control::clear() {
  for (const Place place : {Place::kCreate, Place::kCompile, Place::kRun}) cancel(place);
  set_gone(0);
  file_->delay_us = 0;
  release();
}

Counters Control::counters() const {
  return {.created = file_->created,
          .compiled = file_->compiled,
          .runs = file_->runs,
          .ok = file_->ok,
          .hung = file_->hung,
          .injected = file_->injected,
          .injected_at_ns = file_->injected_at_ns,
          .last_pid = file_->last_pid};
}

}  // namespace gradus::fault
