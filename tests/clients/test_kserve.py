"""The inference clients of KServe's SDK, REST and gRPC."""
import asyncio
import importlib.util
import sys
import types

import numpy as np
import pytest

from conftest import ANSWERED_BY, answered_by


def sdk():
    """`kserve` without its __init__, which wants the whole SDK; its modules are as they came."""
    found = importlib.util.find_spec("kserve")
    package = types.ModuleType("kserve")
    package.__path__ = list(found.submodule_search_locations)
    sys.modules["kserve"] = package


sdk()

import grpc  # noqa: E402
import httpx  # noqa: E402
from kserve.inference_client import (  # noqa: E402
    InferenceGRPCClient, InferenceRESTClient, RESTConfig)
from kserve.protocol.infer_type import InferInput, InferRequest, RequestedOutput  # noqa: E402


@pytest.fixture(params=["rest", "grpc"])
def ask(request, gradus):
    """Calls a client's method; REST's take the server's address first."""
    def call(method, *arguments, **rest):
        async def run():
            if request.param == "rest":
                client = InferenceRESTClient(RESTConfig(protocol="v2", verify=False))
                first = [f"http://127.0.0.1:{gradus.port}"]
            else:
                client = InferenceGRPCClient(f"127.0.0.1:{gradus.grpc_port}", retries=0)
                first = []
            async with client:
                return await getattr(client, method)(*first, *arguments, **rest)
        return asyncio.run(run())

    call.kind = request.param
    return call


def request(model, arrays, binary=True, **rest):
    inputs = []
    for name, (datatype, array) in arrays.items():
        made = InferInput(name, list(array.shape), datatype)
        made.set_data_from_numpy(array, binary_data=binary)
        inputs.append(made)
    return InferRequest(model_name=model, infer_inputs=inputs, **rest)


def infer(ask, asked):
    model = {"model_name": asked.model_name} if ask.kind == "rest" else {}
    return ask("infer", asked, **model)


def plain(parameters):
    """gRPC's are messages, whose form here knows no doubles; REST's are what JSON has."""
    return {name: getattr(value, value.WhichOneof("parameter_choice") or "", None)
            if hasattr(value, "WhichOneof") else value for name, value in parameters.items()}


def test_health(ask):
    assert ask("is_server_live") is True and ask("is_server_ready") is True
    assert ask("is_model_ready", "fashion") is True
    assert ask("is_model_ready", "nosuch") is False


@pytest.mark.parametrize("binary", [True, False], ids=["binary", "plain"])
def test_a_class_and_who_told_it(ask, image, binary):
    answer = infer(ask, request("fashion", {"image": ("FP32", image)}, binary, request_id="7"))
    assert answer.id == "7" and answer.model_name == "fashion"
    assert answer.outputs[0].as_numpy().argmax() == 9
    assert answered_by(plain(answer.parameters)) == ANSWERED_BY


def test_a_language(ask, sentence):
    answer = infer(ask, request("langid", {name: ("INT64", array) for name, array in
                                           sentence.inputs.items()}))
    found = answer.outputs[0].as_numpy().argmax()
    assert ("en", "de", "es", "it", "pt", "cs", "pl", "ru")[found] == "de"


def test_half_floats_go_both_ways(ask):
    kinds = {"bool": bool, "fp16": np.float16, "fp32": np.float32, "fp64": float, "bytes": object,
             **{f"{u}int{bits}": f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)}}
    arrays = {f"in_{name}": (name.upper(), np.zeros(0, kind)) for name, kind in kinds.items()}
    arrays["in_fp16"] = ("FP16", np.array([0.5, -65504], np.float16))
    arrays["in_bf16"] = ("BF16", np.zeros(0, np.uint16))
    asked = request("every_type", {n: v for n, v in arrays.items() if n != "in_bf16"})
    empty = InferInput("in_bf16", [0], "BF16")
    empty._raw_data = b""  # noqa: the SDK knows no BF16
    asked.inputs.append(empty)
    asked.request_outputs = [RequestedOutput("out_fp16", {"binary_data": True})]
    np.testing.assert_array_equal(infer(ask, asked).outputs[0].as_numpy(), [0.5, -65504])


def test_headers_of_the_answer(gradus, image):
    async def run():
        said = {}
        async with InferenceRESTClient(RESTConfig(protocol="v2", verify=False)) as client:
            await client.infer(f"http://127.0.0.1:{gradus.port}",
                               request("fashion", {"image": ("FP32", image)}),
                               model_name="fashion", response_headers=said)
        return said

    said = asyncio.run(run())
    assert (said["gradus-level"], said["gradus-degraded"]) == ("1", "true")


def test_errors_say_why(ask, image):
    wrong = request("fashion", {"image": ("FP32", image[..., :-1].copy())})
    unknown = request("nosuch", {"image": ("FP32", image)})
    for asked, status, code, text in ((wrong, 400, grpc.StatusCode.INVALID_ARGUMENT, "image"),
                                      (unknown, 404, grpc.StatusCode.NOT_FOUND, "nosuch")):
        if ask.kind == "rest":
            with pytest.raises(httpx.HTTPStatusError, match=text) as error:
                infer(ask, asked)
            assert error.value.response.status_code == status
        else:
            with pytest.raises(grpc.RpcError) as error:
                infer(ask, asked)
            assert error.value.code() == code and text in error.value.details()
