"""Writes ONNX files with nothing but Python's own library: as much of the format (onnx.proto) as the
benchmark's seeded models need."""
import struct
from array import array
from dataclasses import dataclass, field

FLOAT, UINT8, INT8, INT32, INT64 = 1, 2, 3, 6, 7  # TensorProto.DataType
_KINDS = {"f": FLOAT, "B": UINT8, "b": INT8, "i": INT32, "q": INT64}
_ATTRIBUTE_FLOAT, _ATTRIBUTE_INT, _ATTRIBUTE_INTS = 1, 2, 7


def _varint(value):
    encoded = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _number(tag, value):
    return _varint(tag << 3) + _varint(value)


def _bytes(tag, value):
    value = value.encode() if isinstance(value, str) else value
    return _varint(tag << 3 | 2) + _varint(len(value)) + value


def _attribute(name, value):
    if isinstance(value, float):
        said = _varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, _ATTRIBUTE_FLOAT)
    elif isinstance(value, int):
        said = _number(3, value) + _number(20, _ATTRIBUTE_INT)
    else:
        said = b"".join(_number(8, each) for each in value) + _number(20, _ATTRIBUTE_INTS)
    return _bytes(1, name) + said


def _value_info(name, dims):
    shape = b"".join(_bytes(1, _bytes(2, dim) if isinstance(dim, str) else _number(1, dim)) for dim in dims)
    return _bytes(1, name) + _bytes(2, _bytes(1, _number(1, FLOAT) + _bytes(2, shape)))


@dataclass
class Graph:
    """A graph of one FP32 input and one FP32 output; dims are numbers, or names of variable ones."""
    name: str
    nodes: list = field(default_factory=list)
    initializers: list = field(default_factory=list)
    made: int = 0

    def constant(self, values, dims):
        """The name of a new initializer. `values`: an array.array whose typecode gives the type."""
        name = self._new("c")
        head = b"".join(_number(1, dim) for dim in dims) + _number(2, _KINDS[values.typecode])
        self.initializers.append(head + _bytes(8, name) + _bytes(9, values.tobytes()))
        return name

    def node(self, kind, *inputs, output=None, **attributes):
        """The name of its output."""
        output = output or self._new("t")
        said = b"".join(_bytes(1, name) for name in inputs) + _bytes(2, output)
        said += _bytes(3, f"{kind}_{output}") + _bytes(4, kind)
        said += b"".join(_bytes(5, _attribute(*each)) for each in attributes.items())
        self.nodes.append(said)
        return output

    def write(self, path, inputs, outputs, opset=17):
        """`inputs`, `outputs`: a (name, dims) each."""
        graph = b"".join([*(_bytes(1, node) for node in self.nodes), _bytes(2, self.name),
                          *(_bytes(5, each) for each in self.initializers),
                          _bytes(11, _value_info(*inputs)), _bytes(12, _value_info(*outputs))])
        model = _number(1, 8) + _bytes(2, "gradus-bench") + _bytes(7, graph)
        model += _bytes(8, _bytes(1, "") + _number(2, opset))
        partial = path.with_suffix(".partial")
        partial.write_bytes(model)
        partial.rename(path)

    def _new(self, prefix):
        self.made += 1
        return f"{prefix}{self.made}"


def ints(*values):
    return array("q", values)
