"""Models with seeded weights: the work of real ones, answers that mean nothing. They are too large to
commit and quick to make: `seeded.file("decoder")` is the file, made at its first use.

    decoder        x [batch, 512] -> y [batch, 512]: the projections of one step of a 4-layer Whisper-like
                   decoder. 50 MB of weights for each step: what joining requests is made for.
    copy           x [1, n] -> y [1, n]: the same values
    reading-small  the signature of PP-OCRv4's text recognition at a small share of its work
    resnet50, resnet50-int8   x [batch, 3, 224, 224] -> y [batch, 1000], the same weights in FP32 and
                   as INT8 (QDQ, per tensor); batch normalisation is folded
"""
import hashlib
import math
import random
from array import array
from pathlib import Path

from .onnx_writer import Graph, ints

HERE = Path(__file__).resolve().parent
MADE = HERE.parents[1] / "build" / "deps" / "bench" / "seeded"


class Weights:
    """INT8 values from a seed; an FP32 weight is one of these times a scale."""
    DEVIATION = 73.3  # of evenly spread values from -127 to 127
    _no_minus_128 = bytes([*range(128), 127, *range(129, 256)])

    def __init__(self, seed):
        self._random = random.Random(seed)

    def quantized(self, count):
        return array("b", self._random.randbytes(count).translate(self._no_minus_128))

    def fp32(self, count, deviation):
        scale = deviation / self.DEVIATION
        table = [scale * value for value in (*range(128), *range(-128, 0))]
        return array("f", [table[value] for value in self.quantized(count)])


def _dense(graph, weights, x, wide_in, wide_out):
    scale = math.sqrt(1 / wide_in)
    matrix = graph.constant(weights.fp32(wide_in * wide_out, scale), [wide_in, wide_out])
    return graph.node("MatMul", x, matrix)


def _copy(path):
    graph = Graph("copy")
    graph.node("Identity", "x", output="y")
    graph.write(path, ("x", [1, "n"]), ("y", [1, "n"]))


def _decoder(path):
    wide, weights, graph, x = 512, Weights("decoder"), Graph("decoder"), "x"
    ones = graph.constant(array("f", [1.0] * wide), [wide])
    zeros = graph.constant(array("f", [0.0] * wide), [wide])
    for _ in range(4):
        h = graph.node("LayerNormalization", x, ones, zeros)
        query, key, value = (_dense(graph, weights, h, wide, wide) for _ in range(3))
        gate = graph.node("Sigmoid", graph.node("Mul", query, key))  # in the place of the attention
        x = graph.node("Add", x, _dense(graph, weights, graph.node("Mul", gate, value), wide, wide))
        h = graph.node("LayerNormalization", x, ones, zeros)
        h = graph.node("Relu", _dense(graph, weights, h, wide, 4 * wide))
        x = graph.node("Add", x, _dense(graph, weights, h, 4 * wide, wide))
    graph.node("LayerNormalization", x, ones, zeros, output="y")
    graph.write(path, ("x", ["batch", wide]), ("y", ["batch", wide]))


def _reading_small(path):
    wide, letters, weights, graph = 128, 6625, Weights("reading-small"), Graph("reading-small")
    kernel = weights.fp32(wide * 3 * 48 * 8, math.sqrt(2 / (3 * 48 * 8)))
    h = graph.node("Conv", "x", graph.constant(kernel, [wide, 3, 48, 8]), kernel_shape=[48, 8],
                   strides=[48, 8])
    h = graph.node("Squeeze", graph.node("Relu", h), graph.constant(ints(2), [1]))
    h = graph.node("Transpose", h, perm=[0, 2, 1])
    h = graph.node("Relu", _dense(graph, weights, h, wide, wide))
    graph.node("Softmax", _dense(graph, weights, h, wide, letters), output="softmax_11.tmp_0", axis=-1)
    graph.write(path, ("x", ["batch", 3, 48, "width"]), ("softmax_11.tmp_0", ["batch", "steps", letters]))


class _Plain:
    """FP32 layers; `power` follows the mean square of activations, which only INT8 needs."""

    def __init__(self):
        self.graph, self.weights = Graph("resnet50"), Weights("resnet50")

    def input(self, x):
        return x

    def conv(self, x, count, kernel, wide_in, wide_out, stride, gain):
        scale = gain * math.sqrt(2 / (wide_in * kernel * kernel))
        values = self.weights.fp32(count, scale)
        weight = self.graph.constant(values, [wide_out, wide_in, kernel, kernel])
        return self._conv(x, weight, kernel, stride)

    def _conv(self, x, weight, kernel, stride):
        pad = kernel // 2
        return self.graph.node("Conv", x, weight, kernel_shape=[kernel, kernel], strides=[stride, stride],
                               pads=[pad] * 4)

    def keep(self, x, _, positive=False):
        """`x` as the next layer takes it; its values are mostly within 4 times the number given, and
        after a Relu `positive`."""
        return x


class _Quantized(_Plain):
    """The same with QuantizeLinear and DequantizeLinear around all that is kept."""

    def input(self, x):
        return self.keep(x, 1)

    def conv(self, x, count, kernel, wide_in, wide_out, stride, gain):
        scale = gain * math.sqrt(2 / (wide_in * kernel * kernel)) / Weights.DEVIATION
        values = self.graph.constant(self.weights.quantized(count), [wide_out, wide_in, kernel, kernel])
        weight = self.graph.node("DequantizeLinear", values, self._scalar("f", scale), self._scalar("b", 0))
        return self._conv(x, weight, kernel, stride)

    def keep(self, x, deviation, positive=False):
        # A zero point of 0 cuts off what Relu does: ONNX Runtime then needs no Relu between the two.
        scale = self._scalar("f", 4 * deviation / (255 if positive else 127))
        zero = self._scalar("B", 0 if positive else 128)
        return self.graph.node("DequantizeLinear", self.graph.node("QuantizeLinear", x, scale, zero), scale,
                               zero)

    def _scalar(self, kind, value):
        return self.graph.constant(array(kind, [value]), [])


def _resnet50(path, layers):
    graph = layers.graph

    def conv(x, wide_in, wide_out, kernel=1, stride=1, gain=1.0):
        return layers.conv(x, wide_in * wide_out * kernel * kernel, kernel, wide_in, wide_out, stride, gain)

    def relu(x, deviation):
        return layers.keep(graph.node("Relu", x), deviation, positive=True)

    x = relu(conv(layers.input("x"), 3, 64, 7, 2), 1.4)
    x = layers.keep(graph.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), 1.4,
                    positive=True)
    wide_in, size = 64, 1.4
    for stage, blocks in enumerate((3, 4, 6, 3)):
        wide = 64 << stage
        for block in range(blocks):
            stride = 2 if stage and not block else 1
            h = relu(conv(x, wide_in, wide), 1.4 * size)
            h = relu(conv(h, wide, wide, 3, stride), 1.4 * size)
            h = layers.keep(conv(h, wide, 4 * wide, gain=0.25), size)
            if not block:
                x = layers.keep(conv(x, wide_in, 4 * wide, 1, stride, gain=0.7), 1.4 * size)
            wide_in, size = 4 * wide, 1.06 * size
            x = relu(graph.node("Add", h, x), 1.4 * size)
    x = graph.node("Flatten", graph.node("GlobalAveragePool", x))
    matrix = graph.constant(layers.weights.fp32(2048 * 1000, math.sqrt(1 / 2048)), [2048, 1000])
    graph.node("MatMul", x, matrix, output="y")
    graph.write(path, ("x", ["batch", 3, 224, 224]), ("y", ["batch", 1000]))


RECIPES = {"copy": _copy, "decoder": _decoder, "reading-small": _reading_small,
           "resnet50": lambda path: _resnet50(path, _Plain()),
           "resnet50-int8": lambda path: _resnet50(path, _Quantized())}


def file(name):
    """The model's file; made anew when a recipe changed."""
    recipes = b"".join((HERE / source).read_bytes() for source in ("seeded.py", "onnx_writer.py", "protobuf.py"))
    path = MADE / hashlib.sha256(recipes).hexdigest()[:12] / f"{name}.onnx"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        RECIPES[name](path)
    return path
