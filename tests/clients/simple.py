"""The model that the examples of Triton's clients ask: two rows of 16 integers, their sum and their
difference, with the config.pbtxt that one writes for it."""
from identity import field

CONFIG = """\
name: "simple"
platform: "onnxruntime_onnx"
max_batch_size: 8
input [
  { name: "INPUT0" data_type: TYPE_INT32 dims: [ 16 ] },
  { name: "INPUT1" data_type: TYPE_INT32 dims: [ 16 ] }
]
output [
  { name: "OUTPUT0" data_type: TYPE_INT32 dims: [ 16 ] },
  { name: "OUTPUT1" data_type: TYPE_INT32 dims: [ 16 ] }
]
"""
INT32 = 6


def model():
    """ModelProto; tensors are [batch, 16]."""
    shape = field(2, field(1, field(2, "batch")) + field(1, field(1, 16)))
    tensor = field(2, field(1, field(1, INT32) + shape))
    inputs = field(1, "INPUT0") + field(1, "INPUT1")
    nodes = [inputs + field(2, f"OUTPUT{i}") + field(4, operator)
             for i, operator in enumerate(("Add", "Sub"))]
    graph = (b"".join(field(1, node) for node in nodes) + field(2, "simple") +
             b"".join(field(11, field(1, f"INPUT{i}") + tensor) for i in (0, 1)) +
             b"".join(field(12, field(1, f"OUTPUT{i}") + tensor) for i in (0, 1)))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17))


def write(root):
    (root / "simple" / "1").mkdir(parents=True)
    (root / "simple" / "1" / "model.onnx").write_bytes(model())
    (root / "simple" / "config.pbtxt").write_text(CONFIG)
