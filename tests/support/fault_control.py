"""Orders faults of the fault provider: reads and writes its control file (fault_ep/control_layout.h).

    control = Control("/tmp/fault", create=True)
    control.order("run", "error", text="CUDA failure 700", sticky=True)
    control.counters()["injected"]

Words are aligned and written whole, so a provider never sees half of one.
"""
import mmap
import os
import struct

MAGIC, VERSION, TEXT_BYTES = 0x544c4647, 1, 256
FOREVER = EVERY_DEVICE = 0xffffffff
PLACES = ("create", "compile", "run")
FAULTS = ("none", "error", "out_of_memory", "hang", "spin", "nan", "truncate", "segv", "abort",
          "exit")
ORDER = ("fault", "skip", "count", "every", "turn", "devices", "code", "sticky")
COUNTERS = ("created", "compiled", "runs", "ok", "hung", "injected", "injected_at_ns")


def layout():
    """(name, offset, bytes) of every word, in the file's order."""
    words, at = [], 0
    names = [(name, 4) for name in ("magic", "version", "devices", "gone", "delay_us", "releases")]
    for place in PLACES:
        names += [(f"{place}.{name}", 4) for name in ORDER] + [(f"{place}.text", TEXT_BYTES)]
    names += [("last_pid", 4), ("run_batch", 4)] + [(name, 8) for name in COUNTERS]
    for name, size in names:
        words.append((name, at, size))
        at += size
    return words


AT = {name: (offset, size) for name, offset, size in layout()}
SIZE = max(offset + size for offset, size in AT.values())


class Control:
    """An open control file; `create` makes it, faultless, or sets the one that is there back."""

    def __init__(self, path, create=False, devices=1):
        self.path = str(path)
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        descriptor = os.open(self.path, flags, 0o600)
        try:
            if create:
                os.ftruncate(descriptor, SIZE)
            self._map = mmap.mmap(descriptor, SIZE)
        finally:
            os.close(descriptor)
        if create:
            for name in AT:
                if name != "releases":
                    self._set(name, 0)
            self.release()
            for place in PLACES:
                self._set(f"{place}.every", 1)
                self._set(f"{place}.devices", EVERY_DEVICE)
            self._set("devices", devices)
            self._set("version", VERSION)
            self._set("magic", MAGIC)
        elif (self._get("magic"), self._get("version")) != (MAGIC, VERSION):
            raise ValueError(f"{path} is no control file of version {VERSION}")

    def order(self, place, fault, skip=0, count=1, every=1, devices=EVERY_DEVICE, code=11,
              text="CUDA failure 999: unknown error", sticky=False, batch=0):
        """What these mean says docs/fault-provider.md."""
        if len(text.encode()) >= TEXT_BYTES:
            raise ValueError(f"the text must be under {TEXT_BYTES} bytes")
        words = {"skip": skip, "count": count, "every": every, "turn": 0, "devices": devices,
                 "code": code, "sticky": int(sticky), "text": text.encode()}
        if place == "run":
            self._set("run_batch", batch)
        number = FAULTS.index(fault)
        self._set(f"{place}.fault", 0)
        for name, value in words.items():
            self._set(f"{place}.{name}", value)
        self._set(f"{place}.fault", number)

    def cancel(self, place):
        self._set(f"{place}.fault", 0)

    def left(self, place):
        """How many of the order's faults are still to come; 0 without an order."""
        return self._get(f"{place}.count") if self._get(f"{place}.fault") else 0

    def set_gone(self, devices=EVERY_DEVICE):
        """Bit i: device i is gone; 0: all are back."""
        self._set("gone", devices)

    def set_delay(self, seconds):
        """Added to every run."""
        self._set("delay_us", round(seconds * 1e6))

    def release(self):
        """Whatever hangs now goes on."""
        self._set("releases", (self._get("releases") + 1) & 0xffffffff)

    def clear(self):
        """No fault any more, but for those that stay with their process."""
        for place in PLACES:
            self.cancel(place)
        self.set_gone(0)
        self.set_delay(0)
        self.release()

    def counters(self):
        return {name: self._get(name) for name in (*COUNTERS, "last_pid")}

    def _get(self, name):
        offset, size = AT[name]
        return struct.unpack_from("<I" if size == 4 else "<Q", self._map, offset)[0]

    def _set(self, name, value):
        offset, size = AT[name]
        if size == TEXT_BYTES:
            struct.pack_into(f"{size}s", self._map, offset, value or b"")
        else:
            struct.pack_into("<I" if size == 4 else "<Q", self._map, offset, value)
