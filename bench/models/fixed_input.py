"""An ONNX file with its first input's variable dimensions fixed, without onnx.proto: of the file only what
leads to them is read, the rest stays as it is."""
from .protobuf import bytes_field, number_field

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_GRAPH, _INPUT = 7, 11                     # of ModelProto, GraphProto
_TYPE, _TENSOR, _SHAPE, _DIM = 2, 1, 2, 1  # of ValueInfoProto, TypeProto, TypeProto.Tensor, TensorShapeProto


def _varint_at(message, at):
    """(value, where it ends)."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(message):
    """[(tag, the whole field, content of one that holds bytes or None)] of a message, in order."""
    found, at = [], 0
    while at < len(message):
        begin = at
        head, at = _varint_at(message, at)
        content = None
        if head & 7 == _VARINT:
            _, at = _varint_at(message, at)
        elif head & 7 == _BYTES:
            size, at = _varint_at(message, at)
            content, at = message[at:at + size], at + size
        else:
            at += {_FIXED64: 8, _FIXED32: 4}[head & 7]
        found.append((head >> 3, message[begin:at], content))
    return found


def _with_first(message, path, change):
    """The message with the first field at the path of tags as `change` makes its content."""
    if not path:
        return change(message)
    parts, changed = [], False
    for tag, whole, content in fields(message):
        if tag == path[0] and not changed:
            whole, changed = bytes_field(tag, _with_first(content, path[1:], change)), True
        parts.append(whole)
    return b"".join(parts)


def fixed_input(model, shape):
    """The file's bytes with the first input's dimensions as in `shape`; the first one, the batch, stays."""
    def fixed(shape_message):
        batch, *others = (whole for tag, whole, _ in fields(shape_message) if tag == _DIM)
        if len(others) != len(shape) - 1:
            raise ValueError(f"the model's input has {1 + len(others)} dimensions, not {len(shape)}")
        return batch + b"".join(bytes_field(_DIM, number_field(1, dim)) for dim in shape[1:])

    return _with_first(model, (_GRAPH, _INPUT, _TYPE, _TENSOR, _SHAPE), fixed)
