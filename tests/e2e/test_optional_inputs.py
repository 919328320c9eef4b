"""Initializers that config.pbtxt declares as optional inputs: sent or left out, over HTTP and gRPC, here, in a
worker and on a plugin provider, and in batches."""
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from grpc_client import GrpcClient, outputs, pb, request
from server import BINARY, ROOT, TEST_MODELS, Server

sys.path.insert(0, str(ROOT / "tests" / "support"))
from fault_control import Control  # noqa: E402

FAULT = "FaultExecutionProvider"
X = np.array([[1, 1, 1, 1], [2, 2, 2, 2]], np.float32)
SCALE = np.array([[10, 20, 30, 40], [50, 60, 70, 80]], np.float32)
SHIFT = np.array([0.5, 0.25, 0, -1], np.float32)
OWN = np.array([[1, 2, 3, 4]], np.float32)  # the file's value of `scale`; that of `shift` is 0

WHOLE = """\
max_batch_size: 0
input [ { name: "x" data_type: TYPE_FP32 dims: [ -1, 4 ] },
        { name: "shift" data_type: TYPE_FP32 dims: [ 4 ] optional: true },
        { name: "scale" data_type: TYPE_FP32 dims: [ -1, 4 ] optional: true } ]
"""
BATCHED = """\
max_batch_size: 8
input { name: "scale" data_type: TYPE_FP32 dims: [ 4 ] optional: true }
"""
UNKNOWN = 'max_batch_size: 8\ninput { name: "gain" data_type: TYPE_FP32 dims: [ 4 ] optional: true }\n'
HERE = "levels: [{name: cpu, file: model.onnx, providers: [cpu]}]\n"
MODELS = {
    "here": (WHOLE, HERE),
    "isolated": (WHOLE, "levels: [{name: cpu, file: model.onnx, providers: [cpu], isolation: process}]\n"),
    "plugin": (WHOLE, f"levels: [{{name: gpu, file: model.onnx, providers: [{FAULT}]}}]\n"),
    "batched": (BATCHED, "levels: [{name: cpu, file: model.onnx, providers: [cpu], instances: 1,"
                         " isolation: process, max_batch_size: 8, max_queue_delay_us: 500000, join: always}]\n"),
    "ladder": (WHOLE, "levels: [{name: cpu, file: model.onnx, providers: [cpu], keep: always},"
                      " {name: int8, file: model.int8.onnx, providers: [cpu], keep: always}]\n"),
    "unknown": (UNKNOWN, HERE)}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("optional")
    for name, (declared, settings) in MODELS.items():
        (folder / "models" / name).mkdir(parents=True)
        (folder / "models" / name / "1").symlink_to(TEST_MODELS / "scaled" / "1")
        (folder / "models" / name / "config.pbtxt").write_text(declared)
        (folder / "models" / name / "gradus.yaml").write_text(settings)
    (folder / "server.yaml").write_text(
        f"provider_libraries: {{{FAULT}: {BINARY.parent / 'libgradus_fault_ep.so'}}}\n")
    control = Control(folder / "control", create=True)
    found = Server(folder / "models", "--config", folder / "server.yaml", wait="listening",
                   env={"GRADUS_FAULT_CONTROL": control.path})
    try:
        found.wait_loaded(*MODELS)
        yield found
        found.stop()
    finally:
        found.kill()


def over_http(server, model, inputs):
    answer = server.client.infer(model, inputs, binary=False)
    assert answer.status == 200, answer.body
    return answer.outputs["y"]


def over_grpc(server, model, inputs):
    with GrpcClient(server.grpc_port) as rpc:
        return outputs(rpc.infer(request(model, inputs))[0])["y"]


@pytest.mark.parametrize("ask", [over_http, over_grpc])
@pytest.mark.parametrize("model", ["here", "isolated", "plugin"])
def test_what_is_left_out_has_the_files_value(server, model, ask):
    if model == "plugin":
        assert server.levels(model)[0]["provider_used"] == FAULT
    for inputs, right in [({}, X * OWN), ({"scale": SCALE}, X * SCALE), ({"shift": SHIFT}, X * OWN + SHIFT),
                          ({"scale": SCALE, "shift": SHIFT}, X * SCALE + SHIFT), ({}, X * OWN)]:
        np.testing.assert_array_equal(ask(server, model, {"x": X, **inputs}), right)


@pytest.mark.parametrize("inputs, said", [
    ({"x": X, "shift": SHIFT[:3]}, "input 'shift' has shape [3], expected [4]"),
    ({"scale": SCALE}, "input 'x' is missing; the model's inputs are 'x', 'scale', 'shift'"),
    ({"x": X, "gain": SHIFT}, "unknown input 'gain'; the model's inputs are 'x', 'scale', 'shift'")])
def test_a_request_is_held_against_what_is_declared(server, inputs, said):
    answer = server.client.infer("here", inputs, binary=False)
    assert answer.status == 400 and said in answer.error


def test_a_raw_request_is_the_input_that_must_be_sent(server):
    answer = server.client.post("/v2/models/here/infer", X.tobytes(), {"Inference-Header-Content-Length": "0"})
    np.testing.assert_array_equal(answer.outputs["y"], X * OWN)


def test_requests_that_send_it_and_that_leave_it_out_run_in_batches_of_their_own(server):
    def ask(i):
        scale = {"scale": SCALE[:1] * i} if i % 2 else {}
        return over_http(server, "batched", {"x": X[:1] * i, **scale})

    before = server.levels("batched")[0]["served"]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, range(1, 17)))
    for i, y in enumerate(answers, 1):
        np.testing.assert_array_equal(y, X[:1] * i * (SCALE[:1] * i if i % 2 else OWN))
    assert server.levels("batched")[0]["served"] - before < 16, "some ran together"


def test_a_request_larger_than_a_batch_that_a_config_allows_is_refused_whatever_it_sends(server):
    answer = server.client.infer("batched", {"x": np.repeat(X, 5, axis=0), "scale": np.repeat(SCALE, 5, axis=0)})
    assert answer.status == 400 and "max_batch_size is 8" in answer.error
    answer = server.client.infer("batched", {"x": X, "scale": SCALE[:1]})
    assert answer.status == 400 and "input 'scale' has a batch of 1, input 'x' one of 2" in answer.error


def test_metadata_and_config_show_it_behind_the_other_inputs(server):
    assert server.client.get("/v2/models/batched").json["inputs"] == [
        {"name": "x", "datatype": "FP32", "shape": [-1, 4]},
        {"name": "scale", "datatype": "FP32", "shape": [-1, 4]}]
    with GrpcClient(server.grpc_port) as rpc:
        metadata = rpc.call("ModelMetadata", pb.ModelMetadataRequest(name="here"))
    assert [(tensor.name, list(tensor.shape)) for tensor in metadata.inputs] == [
        ("x", [-1, 4]), ("scale", [-1, 4]), ("shift", [4])]
    shown = server.client.get("/v2/models/batched/config").json["input"]
    assert [(tensor["name"], tensor["dims"], tensor["optional"]) for tensor in shown] == [
        ("x", [4], False), ("scale", [4], True)]


def test_a_level_without_the_initializer_is_left_out(server):
    level = server.levels("ladder")[1]
    assert level["state"] == "unavailable", level
    assert level["reason"].startswith("input 'shift' is declared optional, but the model's inputs are 'x',")
    np.testing.assert_array_equal(over_http(server, "ladder", {"x": X, "scale": SCALE}), X * SCALE)


def test_a_model_without_the_initializer_is_refused(server):
    answer = server.client.get("/v2/models/unknown/ready")
    assert answer.status == 503
    assert "input 'gain' is declared optional, but the model's inputs are 'x'," in answer.error
