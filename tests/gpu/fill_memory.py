"""Takes all memory of each NVIDIA GPU but 64 MiB, prints what it has, and holds it until its input ends."""
import ctypes
import sys

LEFT, SMALLEST = 64 << 20, 2 << 20  # what the driver hands out is a multiple of that


def call(name, *arguments):
    return getattr(CUDA, name)(*arguments)


def need(name, *arguments):
    status = call(name, *arguments)
    if status != 0:
        sys.exit(f"{name} gave {status}")


def fill():
    """Of the current context's device; bytes."""
    free, total, taken = ctypes.c_size_t(), ctypes.c_size_t(), 0
    piece = 1 << 40
    while piece >= SMALLEST:
        need("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        piece = min(piece, free.value - LEFT)
        if piece < SMALLEST:
            break
        if call("cuMemAlloc_v2", ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(piece)) == 0:
            taken += piece
        else:
            piece //= 2
    return taken


CUDA = ctypes.CDLL("libcuda.so.1")
need("cuInit", 0)
count = ctypes.c_int()
need("cuDeviceGetCount", ctypes.byref(count))
held = 0
for device in range(count.value):
    context = ctypes.c_void_p()
    need("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    need("cuCtxSetCurrent", context)
    held += fill()
print(held, flush=True)
sys.stdin.read()
