"""Writes ONNX files with nothing but Python's own library: as much of the format (onnx.proto) as the
benchmark's seeded models need."""
import struct
from array import array
from dataclasses import dataclass, field

from .protobuf import bytes_field, number_field, varint

FLOAT, UINT8, INT8, INT32, INT64 = 1, 2, 3, 6, 7  # TensorProto.DataType
_KINDS = {"f": FLOAT, "B": UINT8, "b": INT8, "i": INT32, "q": INT64}
_ATTRIBUTE_FLOAT, _ATTRIBUTE_INT, _ATTRIBUTE_INTS = 1, 2, 7


def _attribute(name, value):
    if isinstance(value, float):
        said = varint(2 << 3 | 5) + struct.pack("<f", value) + number_field(20, _ATTRIBUTE_FLOAT)
    elif isinstance(value, int):
        said = number_field(3, value) + number_field(20, _ATTRIBUTE_INT)
    else:
        said = b"".join(number_field(8, each) for each in value) + number_field(20, _ATTRIBUTE_INTS)
    return bytes_field(1, name) + said


def _value_info(name, dims):
    shape = b"".join(bytes_field(1, bytes_field(2, dim) if isinstance(dim, str) else number_field(1, dim))
                     for dim in dims)
    return bytes_field(1, name) + bytes_field(2, bytes_field(1, number_field(1, FLOAT) + bytes_field(2, shape)))


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
        head = b"".join(number_field(1, dim) for dim in dims) + number_field(2, _KINDS[values.typecode])
        self.initializers.append(head + bytes_field(8, name) + bytes_field(9, values.tobytes()))
        return name

    def node(self, kind, *inputs, output=None, **attributes):
        """The name of its output."""
        output = output or self._new("t")
        said = b"".join(bytes_field(1, name) for name in inputs) + bytes_field(2, output)
        said += bytes_field(3, f"{kind}_{output}") + bytes_field(4, kind)
        said += b"".join(bytes_field(5, _attribute(*each)) for each in attributes.items())
        self.nodes.append(said)
        return output

    def write(self, path, inputs, outputs, opset=17):
        """`inputs`, `outputs`: a (name, dims) each."""
        graph = b"".join([*(bytes_field(1, node) for node in self.nodes), bytes_field(2, self.name),
                          *(bytes_field(5, each) for each in self.initializers),
                          bytes_field(11, _value_info(*inputs)), bytes_field(12, _value_info(*outputs))])
        model = number_field(1, 8) + bytes_field(2, "gradus-bench") + bytes_field(7, graph)
        model += bytes_field(8, bytes_field(1, "") + number_field(2, opset))
        partial = path.with_suffix(".partial")
        partial.write_bytes(model)
        partial.rename(path)

    def _new(self, prefix):
        self.made += 1
        return f"{prefix}{self.made}"


def ints(*values):
    return array("q", values)
