"""One table of what can go wrong, with its codes over HTTP and gRPC; the text names the culprit."""
import json
import threading
from dataclasses import dataclass, field

import grpc
import numpy as np
import pytest

import busy
import client
from conftest import MAX_INPUT
from grpc_client import GrpcClient, pb, request, set_parameter

Code = grpc.StatusCode
SETTING = {"settings": {"log_info": pb.LogSettingsRequest.SettingValue(bool_param=False)}}
ONE = {"x": np.ones(1, np.float32)}


@dataclass
class Case:
    """An inference, or a call with its twin, that must be refused."""
    http: int
    grpc: object
    text: str
    inputs: dict = field(default_factory=lambda: ONE)
    model: str = "identity_fp32"
    version: str = ""
    call: str = "ModelInfer"
    message: dict = field(default_factory=dict)
    path: str = ""
    body: object = None
    how: dict = field(default_factory=dict)
    closed: bool = False  # asked of the server that takes no commands


CASES = {
    "unknown model": Case(404, Code.NOT_FOUND, "nosuch", model="nosuch"),
    "unknown version": Case(404, Code.NOT_FOUND, "9", version="9"),
    "version that is no number": Case(404, Code.NOT_FOUND, "version", version="one"),
    "broken model": Case(503, Code.UNAVAILABLE, "broken", model="broken"),
    "missing input": Case(400, Code.INVALID_ARGUMENT, "'x'", {}),
    "unknown input": Case(400, Code.INVALID_ARGUMENT, "'z'", {**ONE, "z": ONE["x"]}),
    "wrong datatype": Case(400, Code.INVALID_ARGUMENT, "'x'", {"x": np.ones(1, np.int64)}),
    "wrong rank": Case(400, Code.INVALID_ARGUMENT, "'x'", {"x": np.ones((1, 1), np.float32)}),
    "unknown output": Case(400, Code.INVALID_ARGUMENT, "'z'", how={"outputs": ["z"]}),
    "bad timeout": Case(400, Code.INVALID_ARGUMENT, "timeout", how={"parameters": {"timeout": -1}}),
    "bad priority": Case(400, Code.INVALID_ARGUMENT, "priority",
                         how={"parameters": {"priority": -1}}),
    "level that is not there": Case(400, Code.INVALID_ARGUMENT, "min_level",
                                    how={"parameters": {"min_level": 7}}),
    "too large": Case(413, Code.RESOURCE_EXHAUSTED, str(MAX_INPUT),
                      {"x": np.ones(MAX_INPUT // 4 + 1, np.float32)}),
    "outputs that are no numbers": Case(503, Code.UNAVAILABLE, "finite", {"x": -ONE["x"]}, "nan"),
    "deadline passed": Case(504, Code.DEADLINE_EXCEEDED, "200000 us", model="busy",
                            inputs={"steps": None}, how={"parameters": {"timeout": 200_000}}),
    "metadata of an unknown model": Case(404, Code.NOT_FOUND, "nosuch", call="ModelMetadata",
                                         message={"name": "nosuch"}, path="/v2/models/nosuch"),
    "config of an unknown model": Case(404, Code.NOT_FOUND, "nosuch", call="ModelConfig",
                                       message={"name": "nosuch"}, path="/v2/models/nosuch/config"),
    "statistics of an unknown model": Case(404, Code.NOT_FOUND, "nosuch", call="ModelStatistics",
                                           message={"name": "nosuch"},
                                           path="/v2/models/nosuch/stats"),
    "load of an unknown model": Case(404, Code.NOT_FOUND, "nosuch", call="RepositoryModelLoad",
                                     message={"model_name": "nosuch"}, body={},
                                     path="/v2/repository/models/nosuch/load"),
    "load of what is broken": Case(400, Code.INVALID_ARGUMENT, "broken", call="RepositoryModelLoad",
                                   message={"model_name": "broken"}, body={},
                                   path="/v2/repository/models/broken/load"),
    "load outside explicit mode": Case(503, Code.UNAVAILABLE, "--model-control-mode=explicit",
                                       call="RepositoryModelLoad",
                                       message={"model_name": "deadly"}, body={},
                                       path="/v2/repository/models/deadly/load", closed=True),
    "unload outside explicit mode": Case(503, Code.UNAVAILABLE, "--model-control-mode=explicit",
                                         call="RepositoryModelUnload",
                                         message={"model_name": "deadly"}, body={},
                                         path="/v2/repository/models/deadly/unload", closed=True),
    "region of no such memory": Case(
        400, Code.INVALID_ARGUMENT, "region", call="SystemSharedMemoryRegister",
        message={"name": "region", "key": "/gradus-no-such", "byte_size": 8},
        path="/v2/systemsharedmemory/region/region/register",
        body={"key": "/gradus-no-such", "offset": 0, "byte_size": 8}),
    "settings without leave": Case(
        401, Code.UNAUTHENTICATED, "token", call="LogSettings", message=SETTING,
        path="/v2/logging", body={"log_info": False}),
    "settings that nobody may change": Case(
        403, Code.PERMISSION_DENIED, "--admin-token-file", call="LogSettings", message=SETTING,
        path="/v2/logging", body={"log_info": False}, closed=True),
    "two workers lost": Case(500, Code.INTERNAL, "two workers were lost", model="deadly",
                             closed=True),
    "memory of a GPU": Case(
        501, Code.UNIMPLEMENTED, "CUDA", call="CudaSharedMemoryRegister",
        message={"name": "region", "raw_handle": b"x", "byte_size": 8},
        path="/v2/cudasharedmemory/region/region/register",
        body={"raw_handle": {"b64": "eA=="}, "device_id": 0, "byte_size": 8}),
}


def inputs_of(server, case):
    return busy.inputs(20 * server.steps) if "steps" in case.inputs else case.inputs


@pytest.fixture
def server(what, request):  # pytest's
    return request.getfixturevalue("closed" if CASES[what].closed else "gradus")


@pytest.mark.parametrize("what", CASES)
def test_over_http(server, what):
    case = CASES[what]
    if case.call == "ModelInfer":
        answer = server.client.infer(case.model, inputs_of(server, case), version=case.version,
                                     **case.how)
    elif case.body is None:
        answer = server.client.get(case.path)
    else:
        answer = server.client.post(case.path, json.dumps(case.body).encode())
    assert (answer.status, case.text in answer.error) == (case.http, True), answer.body


def message_of(server, case):
    message = request(case.model, inputs_of(server, case), **case.how)
    message.model_version = case.version
    return message


@pytest.mark.parametrize("what", CASES)
def test_over_grpc(server, what):
    case = CASES[what]
    if case.call == "ModelInfer":
        message = message_of(server, case)
    else:
        message = getattr(pb, f"{case.call}Request")(**case.message)
    with GrpcClient(server.grpc_port) as rpc:
        code, text = rpc.refused(case.call, message)
    assert (code, case.text in text) == (case.grpc, True), text


@pytest.mark.parametrize("what", [what for what, case in CASES.items()
                                  if case.call == "ModelInfer" and not case.closed and
                                  what != "too large"])
def test_in_a_stream(gradus, rpc, what):
    """A message has the text and the stream goes on."""
    case = CASES[what]
    good = request("identity_fp32", ONE)
    refused, answered = rpc.stream(iter([message_of(gradus, case), good]))
    assert case.text in refused.error_message and answered.error_message == ""


@pytest.mark.parametrize("what", ["inputs", "outputs"])
def test_a_tensor_in_no_region(gradus, rpc, what):
    place = {"shared_memory_region": "nowhere", "shared_memory_byte_size": 4}
    asked = {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}],
             "outputs": [{"name": "y"}]}
    message = request("identity_fp32", ONE, outputs=["y"])
    asked[what][0]["parameters"] = place
    if what == "inputs":
        del asked["inputs"][0]["data"], message.raw_input_contents[:]
    for name, value in place.items():
        set_parameter(getattr(message, what)[0].parameters[name], value)
    answer = gradus.client.post("/v2/models/identity_fp32/infer", json.dumps(asked).encode())
    assert answer.status == 404 and "'nowhere'" in answer.error, answer.body
    code, text = rpc.refused("ModelInfer", message)
    assert code == Code.NOT_FOUND and "'nowhere'" in text


def test_a_timeout_of_zero_is_none(gradus, rpc):
    for zero in (0, "0"):
        answer = gradus.client.infer("identity_fp32", ONE, parameters={"timeout": zero})
        assert answer.status == 200, answer.body
        rpc.infer(request("identity_fp32", ONE, parameters={"timeout": zero}))


@pytest.mark.parametrize("path, call", [("/v2/logging", "LogSettings"),
                                        ("/v2/trace/setting", "TraceSetting")])
def test_to_change_no_setting_takes_no_leave(gradus, rpc, path, call):
    answer = gradus.client.post(path, b"{}")
    assert answer.status == 200, answer.body
    assert set(answer.json) == set(rpc.call(call).settings) != set()


def test_a_full_queue(gradus, rpc):
    """One runs, one may wait; the others are refused with codes that clients try again on."""
    asked = busy.inputs(gradus.steps)
    statuses = []

    def ask():
        answer = gradus.client.infer("busy", asked)
        statuses.append(answer.status)
        if answer.status == 429:
            assert answer.headers["Retry-After"] == "1"

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) == {200, 429} and statuses.count(429) >= 2
    calls = [rpc.method("ModelInfer").future(request("busy", asked), timeout=30) for _ in range(4)]
    codes = [call.code() for call in calls]
    assert set(codes) == {Code.OK, Code.UNAVAILABLE} and codes.count(Code.UNAVAILABLE) >= 2


def test_a_cancelled_call(gradus, rpc):
    call = rpc.method("ModelInfer").future(request("busy", busy.inputs(20 * gradus.steps)),
                                           timeout=60)
    call.cancel()
    with pytest.raises(grpc.FutureCancelledError):
        call.result()
    answer = gradus.client.infer("identity_fp32", ONE)
    assert answer.status == 200


@pytest.mark.parametrize("method, path, body, status, text", [
    ("GET", "/v2/nosuch", None, 404, "/v2/nosuch"),
    ("DELETE", "/v2/models", None, 405, "GET, HEAD only"),
    ("GET", "/v2/models/identity_fp32/infer", None, 405, "POST only"),
    ("POST", "/v2/models/identity_fp32/infer", b"{", 400, ""),
    ("POST", "/v2/models/identity_fp32/infer", b'{"inputs": 5}', 400, "inputs"),
    ("POST", "/v2/models/%2e%2e/infer", b"{}", 404, ""),
    ("POST", "/v2/models/identity_fp32/ladder", b'{"pin": 1}', 401, "token"),
])
def test_of_http_alone(gradus, method, path, body, status, text):
    answer = gradus.client.request(method, path, body)
    assert (answer.status, text in answer.error) == (status, True), answer.body


def test_both_forms_of_contents_in_one_message(rpc):
    message = request("identity_fp32", ONE)
    message.inputs[0].contents.fp32_contents.append(1)
    code, text = rpc.refused("ModelInfer", message)
    assert code == Code.INVALID_ARGUMENT and "raw_input_contents" in text


def test_an_unknown_call(rpc):
    with pytest.raises(grpc.RpcError) as error:
        rpc.bytes_call("/inference.GRPCInferenceService/NoSuchCall", b"")
    assert error.value.code() == Code.UNIMPLEMENTED


def test_every_error_over_http_is_json(gradus):
    answer = gradus.client.infer("nosuch", ONE)
    assert answer.headers["Content-Type"] == "application/json" and client.json.loads(answer.body)
