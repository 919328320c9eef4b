"""The models that the examples of Triton's clients ask, each with the config.pbtxt that one writes
for it. `simple`, `simple_int8` and `simple_string` take two rows of 16 numbers, the last as decimal
digits, and give their sums and differences; `simple_identity` gives back any bytes. The other two
are of kinds that are refused.
"""
from identity import field

INT8, INT32, STRING = 3, 6, 8
ARITHMETIC = {"simple": INT32, "simple_int8": INT8, "simple_string": STRING}
NAMES = {INT8: "TYPE_INT8", INT32: "TYPE_INT32", STRING: "TYPE_STRING"}
SEQUENCE = """\
name: "simple_sequence"
platform: "onnxruntime_onnx"
max_batch_size: 8
sequence_batching { max_sequence_idle_microseconds: 5000000 }
"""
ENSEMBLE = """\
name: "ensemble_image"
platform: "ensemble"
max_batch_size: 1
ensemble_scheduling { step [ { model_name: "simple_identity" model_version: -1 } ] }
"""


def node(operator, inputs, output, attribute=b""):
    return (b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, operator) +
            attribute)


def cast(name, to, element_type):
    attribute = field(1, "to") + field(3, element_type) + field(20, 2)  # 2: an integer
    return node("Cast", [name], to, field(5, attribute))


def model(nodes, inputs, outputs, element_type, row):
    """ModelProto; tensors are [batch, row], `row` a number or a name."""
    shape = field(2, field(1, field(2, "batch")) + field(1, field(1 + isinstance(row, str), row)))
    tensor = field(2, field(1, field(1, element_type) + shape))
    graph = (b"".join(field(1, one) for one in nodes) + field(2, "simple") +
             b"".join(field(11, field(1, name) + tensor) for name in inputs) +
             b"".join(field(12, field(1, name) + tensor) for name in outputs))
    return field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 17))


def sums_and_differences(element_type):
    inputs, outputs = ("INPUT0", "INPUT1"), ("OUTPUT0", "OUTPUT1")
    nodes = [cast(name, f"{name}_number", INT32) for name in inputs]
    for operator, name in zip(("Add", "Sub"), outputs):
        nodes.append(node(operator, [f"{one}_number" for one in inputs], f"{name}_number"))
        nodes.append(cast(f"{name}_number", name, element_type))
    return model(nodes, inputs, outputs, element_type, 16)


def config(name, element_type, inputs, outputs, row):
    def tensors(kind, names):
        return f"{kind} [\n" + ",\n".join(
            f'  {{ name: "{one}" data_type: {NAMES[element_type]} dims: [ {row} ] }}'
            for one in names) + "\n]\n"
    return (f'name: "{name}"\nplatform: "onnxruntime_onnx"\nmax_batch_size: 8\n' +
            tensors("input", inputs) + tensors("output", outputs))


def write(root):
    def add(name, file, text):
        (root / name / "1").mkdir(parents=True)
        (root / name / "1" / "model.onnx").write_bytes(file)
        (root / name / "config.pbtxt").write_text(text)

    for name, element_type in ARITHMETIC.items():
        add(name, sums_and_differences(element_type),
            config(name, element_type, ("INPUT0", "INPUT1"), ("OUTPUT0", "OUTPUT1"), 16))
    identity = model([node("Identity", ["INPUT0"], "OUTPUT0")], ["INPUT0"], ["OUTPUT0"], STRING,
                     "length")
    add("simple_identity", identity,
        config("simple_identity", STRING, ["INPUT0"], ["OUTPUT0"], -1))
    add("simple_sequence", identity, SEQUENCE)
    add("ensemble_image", identity, ENSEMBLE)
