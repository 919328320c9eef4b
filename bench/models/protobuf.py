"""Protocol Buffers' wire format, as much of it as the benchmark writes."""


def varint(value):
    encoded = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def number_field(tag, value):
    return varint(tag << 3) + varint(value)


def bytes_field(tag, value):
    """Of text, bytes or a message."""
    value = value.encode() if isinstance(value, str) else value
    return varint(tag << 3 | 2) + varint(len(value)) + value
