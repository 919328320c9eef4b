"""The largest messages that gRPC takes, both ways, and one byte more than that."""
import os
from pathlib import Path

import grpc
import numpy as np
import pytest

from grpc_client import SERVICE, GrpcClient, pb, request
from server import TEST_MODELS

LARGEST, LARGEST_ANSWER = 2 ** 31 - 1, 2 ** 31 - 17
NEEDED = 18 << 30  # of memory: both sides hold a message about four times
LIMIT_S = 180
CHUNK = 1 << 24


def available():
    line, = (line for line in Path("/proc/meminfo").read_text().splitlines()
             if line.startswith("MemAvailable:"))
    return int(line.split()[1]) << 10


pytestmark = [
    pytest.mark.skipif(not os.environ.get("GRADUS_LONG"), reason="GRADUS_LONG=1 runs it"),
    pytest.mark.skipif(available() < NEEDED,
                       reason=f"{available() >> 30} GiB of memory are free, it takes "
                              f"{NEEDED >> 30}: both sides hold 2 GiB about four times")]


def numbers(first, count):
    """So many of the tensor's elements: each says its place, whatever that is as FP32."""
    return np.arange(first, first + count, dtype=np.uint32)


def raw_field(tag, size):
    """What stands before the bytes of a field that ends a message."""
    length = b""
    while size > 127:
        length += bytes([size & 127 | 128])
        size >>= 7
    return tag + length + bytes([size])


def message(elements, size=None):
    """A ModelInferRequest with so many elements, as large as `size` says, or as it comes."""
    asked = request("copy", {"x": np.empty(0, np.float32)})
    del asked.raw_input_contents[:]
    asked.inputs[0].shape[:] = [elements]
    asked.parameters["filler"].string_param = ""
    before = raw_field(b"\x3a", 4 * elements)
    if size is not None:
        asked.parameters["filler"].string_param = "." * 200
        more = size - asked.ByteSize() - len(before) - 4 * elements
        asked.parameters["filler"].string_param += "." * more
    made = b"".join([asked.SerializeToString(), before, numbers(0, elements)])
    assert size in (None, len(made))
    return made


@pytest.fixture
def copies(start, tmp_path):
    (tmp_path / "copy" / "1").mkdir(parents=True)
    (tmp_path / "copy" / "1" / "model.onnx").symlink_to(
        TEST_MODELS / "log_or_copy" / "1" / "model.int8.onnx")
    (tmp_path / "copy" / "gradus.yaml").write_text("default_levels: {cpu: {max_batch_size: 1}}\n")
    return start(tmp_path, "--providers", "cpu")  # in one run, not in parts of so many numbers


def answer_to(server, asked):
    with GrpcClient(server.grpc_port) as client:
        return client.bytes_call(f"/{SERVICE}/ModelInfer", asked, LIMIT_S)


def refusal_of(server, asked):
    with pytest.raises(grpc.RpcError) as error:
        answer_to(server, asked)
    return error.value.code(), error.value.details()


def expect_copied(answer, elements):
    before = raw_field(b"\x32", 4 * elements)
    begins = len(answer) - 4 * elements
    assert answer[begins - len(before):begins] == before
    output, = pb.ModelInferResponse.FromString(answer[:begins - len(before)]).outputs
    assert (output.name, output.datatype, list(output.shape)) == ("y", "FP32", [elements])
    found = np.frombuffer(answer, np.uint32, offset=begins)
    for first in range(0, elements, CHUNK):
        part = found[first:first + CHUNK]
        assert np.array_equal(part, numbers(first, len(part))), f"in the {CHUNK} from {first} on"


def test_two_gibibytes_go_both_ways_and_a_byte_more_is_refused(copies):
    elements = (LARGEST - 800) // 4
    answer = answer_to(copies, message(elements, LARGEST))
    assert LARGEST_ANSWER - 800 < len(answer) <= LARGEST_ANSWER
    expect_copied(answer, elements)
    del answer

    code, text = refusal_of(copies, message(elements, LARGEST + 1))
    assert code == grpc.StatusCode.RESOURCE_EXHAUSTED and str(LARGEST) in text

    code, text = refusal_of(copies, message((LARGEST - 100) // 4))  # its answer says more
    assert code == grpc.StatusCode.INTERNAL and "2^31 - 17" in text

    expect_copied(answer_to(copies, message(1000)), 1000)
    assert copies.alive()
