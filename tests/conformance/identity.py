"""Models with one Identity, x [n] -> y [n], one for each datatype: the few bytes are made here."""
import numpy as np

# name in the protocol -> (element type in ONNX, numpy's type or None, elements at the edges)
HALF = np.array([0x3800, 0xFBFF, 0x7C00, 0x8000, 1], np.uint16)  # 0.5, least, inf, -0, denormal
DATATYPES = {
    "BOOL": (9, np.array([True, False])),
    **{f"{'U' * (sign == 'u')}INT{8 * size}": (
        number, np.array([np.iinfo(f"{sign}{size}").min, 0, 7, np.iinfo(f"{sign}{size}").max],
                         f"{sign}{size}"))
       for number, sign, size in ((2, "u", 1), (4, "u", 2), (12, "u", 4), (13, "u", 8),
                                  (3, "i", 1), (5, "i", 2), (6, "i", 4), (7, "i", 8))},
    "FP16": (10, HALF.view(np.float16)),
    "BF16": (16, HALF),
    "FP32": (1, np.array([0.1, -0.0, np.inf, np.finfo(np.float32).tiny / 2,
                          np.finfo(np.float32).max], np.float32)),
    "FP64": (11, np.array([0.1, -0.0, -np.inf, 5e-324, np.finfo(float).max])),
    "BYTES": (8, np.array([b"", b"\0", "ä€😀".encode(), b"x" * 300], object)),
}
NO_JSON = ("FP16", "BF16")


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    """A field of a protobuf message: an int, or bytes and text with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def model(element_type):
    """ModelProto: IR version 8, one graph, opset 17."""
    shape = field(2, field(1, field(2, "n")))
    tensor = field(2, field(1, field(1, element_type) + shape))
    node = field(1, "x") + field(2, "y") + field(4, "Identity")
    graph = (field(1, node) + field(2, "identity") + field(11, field(1, "x") + tensor) +
             field(12, field(1, "y") + tensor))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17))


def write_models(root):
    for name, (element_type, _) in DATATYPES.items():
        version = root / f"identity_{name.lower()}" / "1"
        version.mkdir(parents=True)
        (version / "model.onnx").write_bytes(model(element_type))
