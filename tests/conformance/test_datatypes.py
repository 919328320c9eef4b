"""Every datatype comes back the same, to the bit, in whichever form it is sent and asked for."""
import json
import mmap
import os

import grpc
import numpy as np
import pytest

import client
import grpc_client
import identity
from grpc_client import request

FORMS = {  # name -> (transport, as binary)
    "HTTP JSON": ("http", False), "HTTP binary": ("http", True), "HTTP raw": ("raw", True),
    "gRPC typed": ("grpc", False), "gRPC raw": ("grpc", True),
    "stream typed": ("stream", False), "stream raw": ("stream", True),
    "HTTP shared memory": ("http shm", True), "gRPC shared memory": ("grpc shm", True),
}
HALF_OF_REGION = 4096


@pytest.fixture(scope="module")
def region(gradus):
    """Registered memory: inputs in its first half, outputs in its second."""
    path = f"/dev/shm/gradus-datatypes-{os.getpid()}"
    with open(path, "w+b") as file:
        try:
            file.truncate(2 * HALF_OF_REGION)
            memory = mmap.mmap(file.fileno(), 0)
            answer = gradus.client.post(
                "/v2/systemsharedmemory/region/both/register", json.dumps(
                    {"key": os.path.basename(path), "byte_size": len(memory)}).encode())
            assert answer.status == 200, answer.body
            yield memory
            gradus.client.post("/v2/systemsharedmemory/region/both/unregister")
        finally:
            os.unlink(path)


def through_memory(gradus, rpc, region, transport, datatype, array):
    raw = client.raw(array)
    region[:] = b"\xee" * len(region)
    region[:len(raw)] = raw
    size = {"shared_memory_region": "both", "shared_memory_byte_size": len(raw)}
    given = {"x": size, "y": {**size, "shared_memory_offset": HALF_OF_REGION}}
    model = f"identity_{datatype.lower()}"
    if transport == "http shm":
        answer = gradus.client.post(f"/v2/models/{model}/infer", json.dumps({
            "inputs": [{"name": "x", "shape": array.shape, "datatype": datatype,
                        "parameters": given["x"]}],
            "outputs": [{"name": "y", "parameters": given["y"]}]}).encode())
        assert answer.status == 200, answer.body
        said = answer.json["outputs"][0]
        assert "data" not in said and said["parameters"] == given["y"]
    else:
        message = request(model, {"x": array}, outputs=["y"], datatypes={"x": datatype})
        del message.raw_input_contents[:]
        for tensor in (*message.inputs, *message.outputs):
            for name, value in given[tensor.name].items():
                grpc_client.set_parameter(tensor.parameters[name], value)
        response, _ = rpc.infer(message)
        assert response.raw_output_contents[0] == b""
    assert region[HALF_OF_REGION + len(raw):] == b"\xee" * (HALF_OF_REGION - len(raw))
    return region[HALF_OF_REGION:HALF_OF_REGION + len(raw)]


def sent(gradus, rpc, region, form, datatype, array):
    """The answer's bytes."""
    transport, binary = FORMS[form]
    if transport.endswith("shm"):
        return through_memory(gradus, rpc, region, transport, datatype, array)
    model, names = f"identity_{datatype.lower()}", {"x": datatype}
    if transport == "http":
        answer = gradus.client.infer(model, {"x": array}, binary=binary, binary_output=binary,
                                     datatypes=names)
        assert answer.status == 200, answer.body
        assert answer.json["outputs"][0]["datatype"] == datatype
        return client.raw(answer.outputs["y"])
    if transport == "raw":
        body = array[2] if datatype == "BYTES" else client.raw(array)
        answer = gradus.client.post(f"/v2/models/{model}/infer", body,
                                    {"Inference-Header-Content-Length": "0"})
        assert answer.status == 200, answer.body
        return client.raw(answer.outputs["y"])
    message = request(model, {"x": array}, raw=binary, datatypes=names)
    if transport == "grpc":
        response, _ = rpc.infer(message)
    else:
        answer, = rpc.stream(iter([message]))
        assert answer.error_message == ""
        response = answer.infer_response
    assert response.outputs[0].datatype == datatype
    return client.raw(grpc_client.outputs(response)["y"])


@pytest.mark.parametrize("datatype", identity.DATATYPES)
def test_all_forms_give_the_same_bytes(gradus, rpc, region, datatype):
    array = identity.DATATYPES[datatype][1]
    expected = dict.fromkeys(FORMS, client.raw(array))
    if datatype in identity.NO_JSON:
        for form in [form for form, (_, binary) in FORMS.items() if not binary]:
            del expected[form]
    if datatype == "BYTES":
        expected["HTTP raw"] = client.raw(array[2:3])  # the whole body is one element
    found = {form: sent(gradus, rpc, region, form, datatype, array) for form in expected}
    assert found == expected


@pytest.mark.parametrize("datatype", identity.DATATYPES)
def test_none_at_all_comes_back_as_none(gradus, rpc, datatype):
    array = identity.DATATYPES[datatype][1][:0]
    for form in ("HTTP binary", "gRPC raw", "stream raw"):
        assert sent(gradus, rpc, None, form, datatype, array) == b""


@pytest.mark.parametrize("datatype", identity.NO_JSON)
def test_half_floats_have_no_form_but_raw(gradus, rpc, datatype):
    model = f"identity_{datatype.lower()}"
    answer = gradus.client.infer(model, {"x": np.ones(1, np.float32)}, binary=False,
                                 datatypes={"x": datatype})
    assert answer.status == 400 and "binary" in answer.error
    typed = request(model, {"x": np.ones(1, np.float32)}, raw=False)
    typed.inputs[0].datatype = datatype
    code, text = rpc.refused("ModelInfer", typed)
    assert code == grpc.StatusCode.INVALID_ARGUMENT and "raw" in text
