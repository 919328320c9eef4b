"""Triton's own Python client over HTTP and gRPC, as its documentation uses it."""
import asyncio
import contextlib
import json
import queue
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.grpc.aio
import tritonclient.http
import tritonclient.http.aio
from tritonclient.utils import (InferenceServerException, serialize_byte_tensor,
                                serialized_byte_size)
from tritonclient.utils import shared_memory as shm

from conftest import ANSWERED_BY, answered_by
from server import poll

MODELS = ["busy", "every_type", "fashion", "langid", "simple", "simple_identity", "simple_int8",
          "simple_string"]
BYTES = np.array([b"", b"\0a", "ä€".encode()], object)
VALUES = {
    "BOOL": np.array([True, False]),
    "BYTES": BYTES,
    **{f"{'U' * (kind == 'u')}INT{8 * size}": np.array(
        [np.iinfo(f"{kind}{size}").min, 0, np.iinfo(f"{kind}{size}").max], f"{kind}{size}")
       for kind in "iu" for size in (1, 2, 4, 8)},
    "FP16": np.array([0.5, -65504, np.inf], np.float16),
    "FP32": np.array([0.1, -3e38, np.nan], np.float32),
    "FP64": np.array([0.1, -1e300, np.inf]),
    "BF16": np.array([0.5, -2.0, 256], ml_dtypes.bfloat16),
}


def grpc_client_of(gradus):
    return contextlib.closing(tritonclient.grpc.InferenceServerClient(
        f"127.0.0.1:{gradus.grpc_port}"))


@pytest.fixture(scope="module", params=["http", "grpc"])
def triton(request, gradus):
    """`client` and its `module`; `kind` is http or grpc."""
    module = getattr(tritonclient, request.param)
    port = {"http": gradus.port, "grpc": gradus.grpc_port}[request.param]
    client = module.InferenceServerClient(f"127.0.0.1:{port}")
    yield SimpleNamespace(kind=request.param, module=module, client=client, server=gradus)
    client.close()


def tensor(module, name, array, datatype, **how):
    made = module.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array, **how)
    return made


def picture(module, image, **how):
    return tensor(module, "image", image, "FP32", **how)


def as_dict(answer):
    """Messages as JSON has them: gRPC's client gives messages, HTTP's dicts."""
    if isinstance(answer, (dict, list)):
        return answer
    from google.protobuf import json_format
    return json.loads(json_format.MessageToJson(answer, preserving_proto_field_name=True))


def parameters(result):
    response = result.get_response()
    if isinstance(response, dict):
        return response["parameters"]
    return {name: getattr(value, value.WhichOneof("parameter_choice"))
            for name, value in response.parameters.items()}


def refused(call):
    """(status, message) of what must fail."""
    with pytest.raises(InferenceServerException) as error:
        call()
    return error.value.status(), error.value.message()


def forms_of(triton):
    """How a tensor may travel: HTTP has two forms."""
    return [{"binary_data": True}, {"binary_data": False}] if triton.kind == "http" else [{}]


def as_bytes(array):
    """JSON has strings."""
    return [e if isinstance(e, bytes) else e.encode() for e in array.ravel()]


def expect_boot(result):
    scores = result.as_numpy("logits")
    assert scores.shape == (1, 10) and scores.argmax() == 9
    assert answered_by(parameters(result)) == ANSWERED_BY


def test_health_and_metadata(triton):
    client = triton.client
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready("fashion") and client.is_model_ready("fashion", "1")
    assert not client.is_model_ready("fashion", "9") and not client.is_model_ready("nosuch")
    server = as_dict(client.get_server_metadata())
    assert server["name"] == "gradus" and "statistics" in server["extensions"]
    model = as_dict(client.get_model_metadata("fashion"))
    assert model["platform"] == "onnxruntime_onnx"
    assert model["inputs"][0]["name"] == "image" and model["inputs"][0]["datatype"] == "FP32"


def test_an_inference_with_all_that_it_may_say(triton, image):
    module = triton.module
    result = triton.client.infer(
        "fashion", [picture(module, image)], model_version="1", request_id="7", priority=1,
        outputs=[module.InferRequestedOutput("logits")], timeout=5_000_000,
        parameters={"min_level": 1})
    expect_boot(result)
    response = result.get_response()
    assert (response["id"] if triton.kind == "http" else response.id) == "7"


def test_a_language_is_told(triton, sentence):
    made = [tensor(triton.module, name, array, "INT64") for name, array in sentence.inputs.items()]
    scores = triton.client.infer("langid", made).as_numpy("logits")
    assert ("en", "de", "es", "it", "pt", "cs", "pl", "ru")[scores.argmax()] == "de"


@pytest.mark.parametrize("model, datatype, dtype", [("simple", "INT32", np.int32),
                                                    ("simple_int8", "INT8", np.int8)])
def test_the_models_of_the_examples(triton, model, datatype, dtype):
    module, client = triton.module, triton.client

    def ask(batch):
        rows = (np.arange(16 * batch).astype(dtype).reshape(batch, 16),
                np.full((batch, 16), -1, dtype))
        return rows, client.infer(
            model, [tensor(module, f"INPUT{i}", rows[i], datatype) for i in (0, 1)],
            outputs=[module.InferRequestedOutput(f"OUTPUT{i}") for i in (0, 1)])

    for batch in (1, 7):
        (first, second), result = ask(batch)
        np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), first + second)
        np.testing.assert_array_equal(result.as_numpy("OUTPUT1"), first - second)
        assert result.as_numpy("OUTPUT0").dtype == dtype
    assert "8" in refused(lambda: ask(9))[1]
    config = as_dict(client.get_model_config(model))
    config = config.get("config", config)
    assert config["max_batch_size"] == 8 and str(config["input"][0]["dims"][0]) == "16"
    assert as_dict(client.get_model_metadata(model))["inputs"][0]["shape"] in (
        [-1, 16], ["-1", "16"])


def test_numbers_as_text_as_in_the_examples(triton):
    module = triton.module
    numbers = np.arange(16), np.full(16, -300)
    texts = [np.array([str(n).encode() for n in row], object).reshape(1, 16) for row in numbers]
    for form in forms_of(triton):
        result = triton.client.infer(
            "simple_string",
            [tensor(module, f"INPUT{i}", texts[i], "BYTES", **form) for i in (0, 1)],
            outputs=[module.InferRequestedOutput(f"OUTPUT{i}", **form) for i in (0, 1)])
        for name, expected in (("OUTPUT0", numbers[0] + numbers[1]),
                               ("OUTPUT1", numbers[0] - numbers[1])):
            assert result.as_numpy(name).shape == (1, 16)
            assert as_bytes(result.as_numpy(name)) == [str(n).encode() for n in expected]
    wrong = np.full((1, 16), b"one", object)
    refused(lambda: triton.client.infer(
        "simple_string", [tensor(module, f"INPUT{i}", wrong, "BYTES") for i in (0, 1)]))


def test_text_of_any_length_comes_back_as_in_the_examples(triton):
    module = triton.module
    for row in ([b""], [b"he\0llo", b"\0"], ["ä€".encode(), b"x" * 100_000, b""] * 5):
        texts = np.array([row, row[::-1]], object)
        for form in forms_of(triton):
            result = triton.client.infer(
                "simple_identity", [tensor(module, "INPUT0", texts, "BYTES", **form)],
                outputs=[module.InferRequestedOutput("OUTPUT0", **form)])
            assert result.as_numpy("OUTPUT0").shape == texts.shape
            assert as_bytes(result.as_numpy("OUTPUT0")) == list(texts.ravel())


def test_text_in_shared_memory_as_in_the_examples(triton):
    client, module, key = triton.client, triton.module, f"/gradus-test-text-{triton.kind}"
    texts = serialize_byte_tensor(np.array([[str(n).encode() for n in range(16)]], object))
    size = serialized_byte_size(texts)
    region = shm.create_shared_memory_region("texts", key, 3 * size)
    try:
        shm.set_shared_memory_region(region, [texts])
        client.register_system_shared_memory("texts", key, 3 * size)
        inputs = [module.InferInput(f"INPUT{i}", [1, 16], "BYTES") for i in (0, 1)]
        for one in inputs:
            one.set_shared_memory("texts", size)
        output = module.InferRequestedOutput("OUTPUT0")
        output.set_shared_memory("texts", 2 * size, offset=size)
        client.infer("simple_string", inputs, outputs=[output])
        sums = shm.get_contents_as_numpy(region, np.object_, [1, 16], offset=size)
        assert as_bytes(sums) == [str(2 * n).encode() for n in range(16)]
    finally:
        client.unregister_system_shared_memory("texts")
        shm.destroy_shared_memory_region(region)


@pytest.mark.parametrize("model, reason", [
    ("simple_sequence", "sequences are not supported: each request is answered by itself"),
    ("ensemble_image",
     "ensembles are not supported; let the client call one model after the other")])
def test_what_the_examples_have_and_we_do_not_is_refused_with_the_reason(triton, model, reason):
    client, module = triton.client, triton.module
    listed = as_dict(client.get_model_repository_index())
    entry, = (one for one in (listed["models"] if isinstance(listed, dict) else listed)
              if one["name"] == model)
    assert entry["state"] == "UNAVAILABLE" and reason in entry["reason"]
    asked = tensor(module, "INPUT0", np.array([[b"1"]], object), "BYTES")
    status, message = refused(lambda: client.infer(
        model, [asked], sequence_id=1007, sequence_start=True, sequence_end=False))
    assert status in ("503", "StatusCode.UNAVAILABLE") and reason in message
    assert reason in refused(lambda: client.load_model(model))[1]


@pytest.mark.parametrize("datatype", VALUES)
def test_every_datatype_comes_back_as_it_was(triton, datatype):
    module, array, name = triton.module, VALUES[datatype], datatype.lower()
    others = [tensor(module, f"in_{other.lower()}", VALUES[other][:0], other)
              for other in VALUES if other != datatype]
    forms = forms_of(triton)
    if datatype in ("FP16", "BF16"):
        del forms[1:]  # they have no form in JSON
    for form in forms:
        result = triton.client.infer(
            "every_type", [tensor(module, f"in_{name}", array, datatype, **form), *others],
            outputs=[module.InferRequestedOutput(f"out_{name}", **form)])
        found = result.as_numpy(f"out_{name}")
        if datatype == "BYTES":
            found = np.array(as_bytes(found), object)
        assert found.dtype == array.dtype
        np.testing.assert_array_equal(found, array)


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_compression(triton, image, algorithm):
    how = ({"compression_algorithm": algorithm} if triton.kind == "grpc" else
           {"request_compression_algorithm": algorithm,
            "response_compression_algorithm": algorithm})
    expect_boot(triton.client.infer("fashion", [picture(triton.module, image)], **how))


def test_asynchronous_requests(triton, image):
    asked = [picture(triton.module, image)]
    if triton.kind == "http":
        results = [call.get_result() for call in
                   [triton.client.async_infer("fashion", asked) for _ in range(4)]]
    else:
        answers = queue.Queue()
        for _ in range(4):
            triton.client.async_infer("fashion", asked,
                                      lambda result, error: answers.put((result, error)))
        results = []
        for _ in range(4):
            result, error = answers.get(timeout=10)
            assert error is None
            results.append(result)
    for result in results:
        expect_boot(result)


def test_asyncio(triton, image):
    async def ask():
        address = triton.server.port if triton.kind == "http" else triton.server.grpc_port
        async with triton.module.aio.InferenceServerClient(f"127.0.0.1:{address}") as client:
            assert await client.is_model_ready("fashion")
            return await asyncio.gather(*(
                client.infer("fashion", [picture(triton.module, image)]) for _ in range(4)))

    for result in asyncio.run(ask()):
        expect_boot(result)


def test_what_takes_too_long_is_given_up(gradus):
    module, answers = tritonclient.grpc, queue.Queue()
    endless = [tensor(module, "steps", np.array([10 ** 9]), "INT64")]
    with grpc_client_of(gradus) as client:
        status, _ = refused(lambda: client.infer("busy", endless, client_timeout=0.2))
        assert status == "StatusCode.DEADLINE_EXCEEDED"
        asked = client.async_infer("busy", endless,
                                   lambda result, error: answers.put((result, error)))
        asked.cancel()
        result, error = answers.get(timeout=10)
        assert result is None and error.status() == "StatusCode.CANCELLED"


def test_a_stream_with_errors_in_their_place(gradus, image):
    module = tritonclient.grpc
    answers = queue.Queue()
    with grpc_client_of(gradus) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for name in ("fashion", "nosuch", "fashion"):
            client.async_stream_infer(name, [picture(module, image)], request_id=name,
                                      enable_empty_final_response=True)
        for name in ("fashion", "nosuch", "fashion"):
            result, error = answers.get(timeout=10)
            if name == "nosuch":
                assert result is None and "nosuch" in error.message()
            else:
                expect_boot(result)
                assert result.get_response().parameters["triton_final_response"].bool_param
        client.stop_stream()


def test_a_stream_over_asyncio(gradus, image):
    async def ask():
        client = tritonclient.grpc.aio.InferenceServerClient(f"127.0.0.1:{gradus.grpc_port}")

        async def requests():
            for _ in range(3):
                yield {"model_name": "fashion", "inputs": [picture(tritonclient.grpc, image)]}
        found = [answer async for answer in client.stream_infer(requests())]
        await client.close()
        return found

    for result, error in asyncio.run(ask()):
        assert error is None
        expect_boot(result)


def test_headers_and_trailing_metadata_say_the_level(gradus, image):
    with contextlib.closing(tritonclient.http.InferenceServerClient(
            f"127.0.0.1:{gradus.port}")) as client:
        body, size = client.generate_request_body([picture(tritonclient.http, image)])
        answer = gradus.client.post("/v2/models/fashion/infer", bytes(body), {
            "Inference-Header-Content-Length": str(size)})
        said = answer.headers
        assert (said["gradus-level"], said["gradus-degraded"]) == ("1", "true")
        assert said["gradus-variant"] == "model.onnx"
        read = client.parse_response_body(answer.body, header_length=answer.json_size)
        expect_boot(read)

    async def trailing():
        from tritonclient.grpc import service_pb2, service_pb2_grpc
        import grpc
        async with grpc.aio.insecure_channel(f"127.0.0.1:{gradus.grpc_port}") as channel:
            message = service_pb2.ModelInferRequest(model_name="fashion")
            message.inputs.add(name="image", datatype="FP32", shape=image.shape)
            message.raw_input_contents.append(image.tobytes())
            call = service_pb2_grpc.GRPCInferenceServiceStub(channel).ModelInfer(message)
            await call
            return dict(await call.trailing_metadata())

    said = asyncio.run(trailing())
    assert (said["gradus-level"], said["gradus-degraded"]) == ("1", "true")
    assert said["gradus-variant"] == "model.onnx"


def test_the_best_classes(triton, image):
    found = triton.client.infer(
        "fashion", [picture(triton.module, image)],
        outputs=[triton.module.InferRequestedOutput("logits", class_count=3)]).as_numpy("logits")
    assert found.shape == (1, 3)
    scores, classes = zip(*(e.decode().split(":")[:2] for e in found[0]))
    scores = list(map(float, scores))
    assert classes[0] == "9" and scores == sorted(scores, reverse=True)


def test_config_and_statistics(triton, image):
    config = as_dict(triton.client.get_model_config("fashion"))
    config = config.get("config", config)
    assert config["name"] == "fashion" and config["backend"] == "onnxruntime"
    assert config["input"][0]["name"] == "image" and config["output"][0]["name"] == "logits"

    def counts():
        stats, = as_dict(triton.client.get_inference_statistics("fashion"))["model_stats"]
        assert (stats["name"], stats["version"]) == ("fashion", "1")
        return (int(stats["inference_count"]), int(stats["execution_count"]),
                int(stats["inference_stats"]["success"]["count"]),
                int(stats["inference_stats"]["compute_infer"]["ns"]))

    before = counts()
    triton.client.infer("fashion", [picture(triton.module, image)])
    after = counts()
    assert [b - a for a, b in zip(before[:3], after[:3])] == [1, 1, 1] and after[3] > before[3]
    every = as_dict(triton.client.get_inference_statistics())["model_stats"]
    assert sorted(stats["name"] for stats in every) == MODELS


def index(triton):
    listed = as_dict(triton.client.get_model_repository_index())
    return {entry["name"]: entry.get("state") for entry in
            (listed["models"] if isinstance(listed, dict) else listed)}


def test_models_are_loaded_and_unloaded(triton, image):
    client = triton.client
    assert index(triton).items() >= dict.fromkeys(MODELS, "READY").items()
    client.unload_model("fashion")
    assert not client.is_model_ready("fashion")
    assert index(triton)["fashion"] == "UNAVAILABLE"
    client.unload_model("fashion")  # again, and it is as before
    client.load_model("fashion")
    assert client.is_model_ready("fashion") and index(triton)["fashion"] == "READY"
    expect_boot(client.infer("fashion", [picture(triton.module, image)]))
    status, message = refused(lambda: client.load_model("nosuch"))
    assert "nosuch" in message and status in ("404", "StatusCode.NOT_FOUND")


def test_a_model_is_loaded_with_config_and_file_of_the_client(triton, repository):
    client = triton.client
    model = (repository / "every_type" / "1" / "model.onnx").read_bytes()
    client.load_model("brought", config=json.dumps({"backend": "onnxruntime"}),
                      files={"file:3/model.onnx": model})
    try:
        assert client.is_model_ready("brought", "3")
        assert as_dict(client.get_model_metadata("brought"))["versions"] == ["3"]
    finally:
        client.unload_model("brought")
    assert not client.is_model_ready("brought")


def test_trace_settings(triton, trace_file, image):
    client = triton.client

    def traces():
        read = json.loads(trace_file.read_text()) if trace_file.exists() else []
        return sum(entry.get("model_name") == "fashion" for entry in read)

    before = traces()
    said = as_dict(client.update_trace_settings(settings={
        "trace_level": ["TIMESTAMPS"], "trace_rate": "1", "trace_count": "1"}))
    try:
        said = said.get("settings", said)
        assert "TIMESTAMPS" in str(said["trace_level"]) and trace_file.name in str(said)
        for _ in range(2):
            client.infer("fashion", [picture(triton.module, image)])
    finally:
        client.update_trace_settings(settings={"trace_level": ["OFF"]})
    read = as_dict(client.get_trace_settings())
    assert "OFF" in str(read.get("settings", read)["trace_level"])
    poll("the one trace that was asked for", 5, lambda: traces() == before + 1)


def test_log_settings(triton):
    def verbose():
        said = as_dict(triton.client.get_log_settings())
        value = said.get("settings", said)["log_verbose_level"]
        return int(value if not isinstance(value, dict) else value.get("uint32_param", 0))

    before = verbose()
    try:
        triton.client.update_log_settings({"log_verbose_level": 1})
        assert verbose() == 1
    finally:
        triton.client.update_log_settings({"log_verbose_level": before})


def test_shared_memory_of_the_system(triton, image):
    client, module = triton.client, triton.module
    size = image.nbytes
    region = shm.create_shared_memory_region("pictures", f"/gradus-test-{triton.kind}", size + 40)
    try:
        shm.set_shared_memory_region(region, [image])
        client.register_system_shared_memory("pictures", f"/gradus-test-{triton.kind}", size + 40)
        assert "pictures" in str(as_dict(client.get_system_shared_memory_status()))
        asked = module.InferInput("image", list(image.shape), "FP32")
        asked.set_shared_memory("pictures", size)
        wanted = module.InferRequestedOutput("logits")
        wanted.set_shared_memory("pictures", 40, offset=size)
        result = client.infer("fashion", [asked], outputs=[wanted])
        scores = shm.get_contents_as_numpy(region, np.float32, [1, 10], offset=size)
        assert scores.argmax() == 9
        assert result.get_output("logits") is not None  # with nothing in it but its shape
        assert answered_by(parameters(result)) == ANSWERED_BY
        client.unregister_system_shared_memory("pictures")
        assert "pictures" not in str(as_dict(client.get_system_shared_memory_status()))
        assert "pictures" in refused(lambda: client.infer("fashion", [asked]))[1]
    finally:
        client.unregister_system_shared_memory()
        shm.destroy_shared_memory_region(region)


def test_what_fails_says_why(triton):
    module, client = triton.module, triton.client
    bad, missing = (("400", "404") if triton.kind == "http" else
                    ("StatusCode.INVALID_ARGUMENT", "StatusCode.NOT_FOUND"))
    wrong = tensor(module, "image", np.zeros(1, np.float32), "FP32")
    for model, status, name in (("fashion", bad, "image"), ("nosuch", missing, "nosuch")):
        found, message = refused(lambda model=model: client.infer(model, [wrong]))
        assert found == status and name in message
    assert refused(lambda: client.get_model_metadata("fashion", "9"))[0] == missing


def test_memory_of_a_gpu_is_refused_with_what_to_do_instead(triton):
    client = triton.client
    assert "CUDA" in refused(lambda: client.register_cuda_shared_memory("gpu", b"eA==", 0, 8))[1]
    assert "gpu" not in str(as_dict(client.get_cuda_shared_memory_status()))
    client.unregister_cuda_shared_memory()  # as perf_analyzer does at its start
