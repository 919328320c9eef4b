"""The same models over gRPC: right answers, the codes of errors, streams, health, deadlines."""
import threading
import time
import urllib.parse

import grpc
import numpy as np
import pytest

import busy
import client
import grpc_client
import samples
from conftest import link_models
from grpc_client import GrpcClient, pb, request
from server import DEMO_MODELS, TEST_MODELS, Server, poll, run_to_end

IMAGE = samples.fashion_images()[:1]
HEALTH = "/grpc.health.v1.Health/"
SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"  # HealthCheckResponse{status}
ODD_NAME = "größe 1%.onnx"
Code = grpc.StatusCode


@pytest.fixture(scope="module")
def rpc(demo):
    with GrpcClient(demo.grpc_port) as found:
        yield found


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """One run of `busy` at a time, one request waiting; a broken model; `odd`, whose file's name
    is no header's value; small messages only."""
    folder = tmp_path_factory.mktemp("small")
    models = link_models(folder / "models", {"log_or_copy": TEST_MODELS / "log_or_copy"})
    (models / "busy").mkdir()
    (models / "busy" / "1").symlink_to(TEST_MODELS / "busy" / "1")
    (models / "busy" / "gradus.yaml").write_text(
        "levels: [{name: cpu, file: model.onnx, providers: [cpu], instances: 1,"
        " target_p99_ms: 10000}]\n")
    (models / "broken" / "1").mkdir(parents=True)
    (models / "broken" / "1" / "model.onnx").write_bytes(b"no model")
    (models / "odd" / "1").mkdir(parents=True)
    (models / "odd" / "1" / ODD_NAME).symlink_to(TEST_MODELS / "log_or_copy" / "1" / "model.onnx")
    (models / "odd" / "gradus.yaml").write_text(
        f"levels: [{{name: cpu, file: '{ODD_NAME}', providers: [cpu]}}]\n")
    (folder / "server.yaml").write_text("grpc: {max_input_size: 10000000}\nmax_queue_size: 1\n"
                                        f"model_repositories: [{models}]\nproviders: [cpu]\n")
    server = Server([], "--config", folder / "server.yaml", wait="listening")
    try:
        server.steps = busy.steps_for(server, 1.0)
        server.wait_loaded("log_or_copy", "odd")
        yield server
        server.stop()
    finally:
        server.kill()


@pytest.fixture(scope="module")
def small_rpc(small):
    with GrpcClient(small.grpc_port) as found:
        yield found


def cpu_s(server):
    with open(f"/proc/{server.pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def metric(server, name, **labels):
    text = client.Client("127.0.0.1", server.metrics_port).get("/metrics").body.decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
               if line.startswith(name + "{")
               and all(f'{key}="{value}"' in line for key, value in labels.items()))


def failures(server, kind):
    return metric(server, "gradus_serving_failures_total", model="busy", **{"class": kind})


@pytest.mark.parametrize("raw", [True, False], ids=["raw", "typed"])
def test_a_known_picture_gets_the_answer_that_http_gives(demo, rpc, raw):
    only_1 = {"min_level": 1, "max_level": 1}
    response, metadata = rpc.infer(request("fashion", {"image": IMAGE}, raw, request_id="7",
                                           parameters=only_1))
    over_http = demo.client.infer("fashion", {"image": IMAGE}, binary_output=True,
                                  parameters=only_1)
    assert (response.model_name, response.model_version, response.id) == ("fashion", "1", "7")
    assert grpc_client.outputs(response)["logits"].argmax() == 9
    assert response.raw_output_contents[0] == over_http.body[over_http.json_size:]
    said = grpc_client.parameters(response)
    assert (said["level"], said["level_name"], said["variant"]) == (1, "cpu", "model.onnx")
    assert said["degraded"] is over_http.parameters["degraded"]
    assert said["run_us"] > 0 and said["queue_us"] >= 0 and said["latency_ms"] > 0
    assert metadata["gradus-level"] == "1"
    assert metadata["gradus-variant"] == over_http.headers["gradus-variant"] == "model.onnx"
    assert metadata["gradus-degraded"] == str(said["degraded"]).lower()


def test_a_files_odd_name_is_percent_encoded_in_headers(small, small_rpc):
    x = {"x": np.ones(1, np.float32)}
    response, metadata = small_rpc.infer(request("odd", x))
    over_http = small.client.infer("odd", x)
    assert grpc_client.parameters(response)["variant"] == ODD_NAME
    assert over_http.parameters["variant"] == ODD_NAME
    assert metadata["gradus-variant"] == over_http.headers["gradus-variant"] == \
        urllib.parse.quote(ODD_NAME)


def test_languages_are_known(rpc):
    sentences = samples.sentences()
    right = 0
    for sentence in sentences[:40]:
        response, _ = rpc.infer(request("langid", sentence.inputs, raw=False))
        right += samples.LANGUAGES[grpc_client.outputs(response)["logits"].argmax()] == \
            sentence.language
    assert right >= 36


def test_every_datatype_comes_back_as_over_http(demo, rpc):
    arrays = {"in_bool": np.array([True, False, True]),
              "in_bytes": np.array([b"", b"a\0b", "ä".encode()], object)}
    for bits in (8, 16, 32, 64):
        for kind in ("int", "uint"):
            limits = np.iinfo(f"{kind}{bits}")
            arrays[f"in_{kind}{bits}"] = np.array([limits.min, 1, limits.max], f"{kind}{bits}")
    for name, dtype in (("fp16", "float16"), ("fp32", "float32"), ("fp64", "float64")):
        arrays[f"in_{name}"] = np.array([-0.0, np.nan, np.inf], dtype)
    arrays["in_bf16"] = np.array([1, 2, 0xffff], np.uint16)
    datatypes = {"in_bf16": "BF16"}
    wanted = [name.replace("in_", "out_") for name in arrays]
    response, _ = rpc.infer(request("every_type", arrays, outputs=wanted, datatypes=datatypes))
    over_http = demo.client.infer("every_type", arrays, outputs=wanted, binary_output=True,
                                  datatypes=datatypes)
    assert [output.name for output in response.outputs] == wanted
    for array, data in zip(arrays.values(), response.raw_output_contents):
        assert data == client.raw(array)
    assert b"".join(response.raw_output_contents) == over_http.body[over_http.json_size:]


def test_eight_megabytes_go_both_ways(small_rpc):
    x = np.linspace(1, 2, 2_000_000, dtype=np.float32)
    for raw in (True, False):
        response, _ = small_rpc.infer(request("log_or_copy", {"x": x}, raw))
        np.testing.assert_allclose(grpc_client.outputs(response)["y"], np.log(x), rtol=1e-5)


def test_a_message_over_the_limit_is_refused(small_rpc):
    x = np.ones(2_600_000, np.float32)
    code, text = small_rpc.refused("ModelInfer", request("log_or_copy", {"x": x}))
    assert code == Code.RESOURCE_EXHAUSTED and "10000000" in text


@pytest.mark.parametrize("how", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compressed_messages_are_inflated_as_far_as_the_limit(small_rpc, how):
    x = np.tile(np.linspace(1, 2, 1000, dtype=np.float32), 2000)
    good, large = (request("log_or_copy", {"x": x}),
                   request("log_or_copy", {"x": np.ones(2_600_000, np.float32)}))
    response, _ = small_rpc.infer(good, compression=how)
    np.testing.assert_allclose(grpc_client.outputs(response)["y"], np.log(x), rtol=1e-5)
    code, text = small_rpc.refused("ModelInfer", large, compression=how)
    assert code == Code.RESOURCE_EXHAUSTED and "more than 10000000 bytes" in text

    answers = small_rpc.stream(iter([good, large, good]), compression=how)
    np.testing.assert_allclose(grpc_client.outputs(next(answers).infer_response)["y"], np.log(x),
                               rtol=1e-5)
    with pytest.raises(grpc.RpcError) as ended:
        next(answers)
    assert ended.value.code() == Code.RESOURCE_EXHAUSTED


def with_output(name, value):
    message = request("fashion", {"image": IMAGE}, outputs=["logits"])
    grpc_client.set_parameter(message.outputs[0].parameters[name], value)
    return message


def mixed():
    message = request("fashion", {"image": IMAGE})
    message.inputs[0].contents.fp32_contents.append(1)
    return message


@pytest.mark.parametrize("message, code, parts", [
    (request("nosuch", {"image": IMAGE}), Code.NOT_FOUND, ["nosuch"]),
    (request("fashion", {"picture": IMAGE}), Code.INVALID_ARGUMENT, ["'picture'", "'image'"]),
    (request("fashion", {"image": IMAGE[..., :27]}), Code.INVALID_ARGUMENT, ["'image'", "27]"]),
    (request("fashion", {"image": IMAGE.astype(np.int8)}, raw=False), Code.INVALID_ARGUMENT,
     ["'image'", "INT8", "FP32"]),
    (request("fashion", {"image": IMAGE}, outputs=["nosuch"]), Code.INVALID_ARGUMENT, ["'nosuch'"]),
    (mixed(), Code.INVALID_ARGUMENT, ["'image'", "raw_input_contents"]),
    (with_output("classification", -1), Code.INVALID_ARGUMENT, ["'logits'", "classification"]),
    (with_output("shared_memory_region", "r"), Code.INVALID_ARGUMENT,
     ["'logits'", "--allow-client-shm"]),
    (request("fashion", {"image": IMAGE}, parameters={"tier": "first"}), Code.INVALID_ARGUMENT,
     ["'tier'", "'realtime'"]),
    (request("fashion", {"image": IMAGE}, parameters={"timeout": -1}), Code.INVALID_ARGUMENT,
     ["'timeout'", "31536000000000"]),
    (request("every_type", {"in_fp16": np.ones(1, np.float16)}), Code.INVALID_ARGUMENT,
     ["is missing"]),
], ids=lambda value: value.name if isinstance(value, Code) else "")
def test_what_is_wrong_is_said(rpc, message, code, parts):
    found, text = rpc.refused("ModelInfer", message)
    assert found == code, text
    for part in parts:
        assert part in text
    answer, _ = rpc.infer(request("fashion", {"image": IMAGE}))
    assert grpc_client.outputs(answer)["logits"].argmax() == 9


def test_bytes_that_are_no_message_are_refused(rpc):
    with pytest.raises(grpc.RpcError) as error:
        rpc.bytes_call(f"/{grpc_client.SERVICE}/ModelInfer", b"\xff\xff\xff")
    assert error.value.code() == Code.INVALID_ARGUMENT
    assert "ModelInferRequest" in error.value.details()


def test_what_is_not_allowed_or_not_there_says_what_to_do(rpc):
    code, text = rpc.refused("SystemSharedMemoryRegister")
    assert code == Code.INVALID_ARGUMENT and "--allow-client-shm" in text
    code, text = rpc.refused("CudaSharedMemoryRegister")
    assert code == Code.UNIMPLEMENTED and "system shared memory" in text
    wish = pb.LogSettingsRequest()
    wish.settings["log_info"].bool_param = False
    code, text = rpc.refused("LogSettings", wish)
    assert code == Code.PERMISSION_DENIED and "--admin-token-file" in text
    assert rpc.call("LogSettings").settings["log_info"].bool_param


def test_a_broken_model_is_unavailable_and_listed_with_the_reason(small_rpc):
    code, text = small_rpc.refused("ModelInfer", request("broken", {"x": np.ones(1, np.float32)}))
    assert code == Code.UNAVAILABLE
    asked = pb.ModelMetadataRequest(name="broken")
    assert small_rpc.refused("ModelMetadata", asked) == (code, text)
    listed = {model.name: model for model in small_rpc.call("RepositoryIndex").models}
    assert sorted(listed) == ["broken", "busy", "log_or_copy", "odd"]
    assert (listed["broken"].state, listed["broken"].reason) == ("UNAVAILABLE", text)
    good = listed["busy"]
    assert (good.state, good.version, good.reason) == ("READY", "1", "")
    ready = small_rpc.call("RepositoryIndex", pb.RepositoryIndexRequest(ready=True)).models
    assert [model.name for model in ready] == ["busy", "log_or_copy", "odd"]


def test_statistics_are_those_of_http_and_count_each_request(demo, rpc):
    def counted():
        stats, = rpc.call("ModelStatistics", pb.ModelStatisticsRequest(name="fashion")).model_stats
        return stats
    before = counted()
    for batch in (1, 3):
        rpc.infer(request("fashion", {"image": samples.fashion_images()[:batch]}))
    after = counted()
    assert (after.name, after.version) == ("fashion", "1")
    assert after.inference_count == before.inference_count + 4
    assert after.execution_count == before.execution_count + 2
    assert abs(after.last_inference / 1000 - time.time()) < 60
    for bucket in ("success", "queue", "compute_input", "compute_infer", "compute_output"):
        assert getattr(after.inference_stats, bucket).count == \
            getattr(before.inference_stats, bucket).count + 2
    success, infer = after.inference_stats.success, after.inference_stats.compute_infer
    assert success.ns > infer.ns > before.inference_stats.compute_infer.ns
    over_http, = demo.client.get("/v2/models/fashion/stats").json["model_stats"]
    assert over_http["inference_count"] == after.inference_count
    assert over_http["inference_stats"]["success"] == {"count": success.count, "ns": success.ns}
    assert [(batch["batch_size"], batch["compute_infer"]["count"])
            for batch in over_http["batch_stats"]] == \
        [(batch.batch_size, batch.compute_infer.count) for batch in after.batch_stats]
    every = rpc.call("ModelStatistics").model_stats
    assert {"fashion", "langid"} <= {model.name for model in every}
    assert rpc.refused("ModelStatistics", pb.ModelStatisticsRequest(name="nosuch"))[0] == \
        Code.NOT_FOUND


def test_models_are_not_loaded_by_clients_unless_the_server_says_so(rpc):
    for call in ("RepositoryModelLoad", "RepositoryModelUnload"):
        asked = getattr(pb, call + "Request")(model_name="fashion")
        code, text = rpc.refused(call, asked)
        assert code == Code.UNAVAILABLE and "--model-control-mode=explicit" in text
    assert rpc.call("ModelReady", pb.ModelReadyRequest(name="fashion")).ready


def test_server_and_models_are_described(demo, rpc):
    assert rpc.call("ServerLive").live and rpc.call("ServerReady").ready
    about = rpc.call("ServerMetadata")
    assert {"name": about.name, "version": about.version, "extensions": list(about.extensions)} == \
        demo.client.get("/v2").json
    for name, version, ready in (("fashion", "", True), ("fashion", "1", True),
                                 ("fashion", "9", False), ("nosuch", "", False)):
        asked = pb.ModelReadyRequest(name=name, version=version)
        assert rpc.call("ModelReady", asked).ready is ready
    model = rpc.call("ModelMetadata", pb.ModelMetadataRequest(name="langid"))
    over_http = demo.client.get("/v2/models/langid").json
    for side in ("inputs", "outputs"):
        assert [{"name": t.name, "datatype": t.datatype, "shape": list(t.shape)}
                for t in getattr(model, side)] == over_http[side]
    assert (model.name, list(model.versions), model.platform) == \
        ("langid", over_http["versions"], over_http["platform"])
    assert rpc.refused("ModelMetadata", pb.ModelMetadataRequest(name="nosuch"))[0] == Code.NOT_FOUND


def test_a_full_queue_is_unavailable_which_clients_try_again(small, small_rpc):
    asked = request("busy", busy.inputs(small.steps))
    calls = [small_rpc.method("ModelInfer").future(asked, timeout=30) for _ in range(4)]
    codes = sorted(call.code().name for call in calls)
    assert codes == ["OK", "OK", "UNAVAILABLE", "UNAVAILABLE"]


@pytest.mark.parametrize("by", ["the call's deadline", "the parameter timeout"])
def test_what_is_late_is_ended_at_its_deadline(small, small_rpc, by):
    call_s, parameters = (0.3, {}) if by == "the call's deadline" else (30, {"timeout": 300_000})
    asked = request("busy", busy.inputs(20 * small.steps), parameters=parameters)
    counted = failures(small, "deadline")
    begun = time.monotonic()
    code, _ = small_rpc.refused("ModelInfer", asked, timeout=call_s)
    assert code == Code.DEADLINE_EXCEEDED
    assert time.monotonic() - begun < 5
    poll("it to be counted", 5, lambda: failures(small, "deadline") == counted + 1)
    expect_idle(small)


def expect_idle(server):
    """The run that was given up uses no CPU any more."""
    def used_s():
        before = cpu_s(server)
        time.sleep(0.3)
        return cpu_s(server) - before
    poll("the CPU to be free", 5, lambda: used_s() < 0.1)


def test_a_cancelled_call_frees_the_cpu(small, small_rpc):
    counted = metric(small, "gradus_serving_cancelled_total", model="busy", phase="running")
    call = small_rpc.method("ModelInfer").future(request("busy", busy.inputs(20 * small.steps)),
                                                 timeout=60)
    begun = cpu_s(small)
    poll("it to run", 10, lambda: cpu_s(small) - begun > 0.2)
    call.cancel()
    poll("it to be counted", 5, lambda: metric(
        small, "gradus_serving_cancelled_total", model="busy", phase="running") == counted + 1)
    expect_idle(small)


def test_a_stream_is_answered_in_order_with_errors_in_their_place(rpc):
    images = samples.fashion_images()[:20]
    asked = [request("fashion", {"image": image[np.newaxis]}, raw=i % 2 == 0, request_id=str(i))
             for i, image in enumerate(images)]
    asked[10] = request("fashion", {"nosuch": IMAGE}, request_id="10")
    answers = list(rpc.stream(iter(asked)))
    assert [answer.infer_response.id for answer in answers] == [str(i) for i in range(20)]
    assert "'nosuch'" in answers[10].error_message
    assert len(answers[10].infer_response.outputs) == 0
    found = []
    for i, answer in enumerate(answers):
        if i != 10:
            assert answer.error_message == ""
            assert grpc_client.parameters(answer.infer_response)["triton_final_response"] is True
            found.append(grpc_client.outputs(answer.infer_response)["logits"].argmax())
    assert np.mean(np.delete(samples.fashion_labels()[:20], 10) == found) >= 0.8
    assert found[:10] == [9, 2, 1, 1, 6, 1, 4, 6, 5, 7]


def test_a_stream_that_is_cancelled_ends_its_requests(small, small_rpc):
    counted = failures(small, "cancelled")
    hold = threading.Event()

    def messages():
        yield request("busy", busy.inputs(20 * small.steps))
        hold.wait(30)
    begun = cpu_s(small)
    stream = small_rpc.stream(messages())
    poll("it to run", 10, lambda: cpu_s(small) - begun > 0.2)
    stream.cancel()
    hold.set()
    poll("it to be counted", 5, lambda: failures(small, "cancelled") == counted + 1)
    expect_idle(small)


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection_tells_of_the_services_and_their_messages(rpc, version):
    path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"

    def ask(message):
        answer, = rpc.channel.stream_stream(path)(iter([message]), timeout=10)
        return answer

    def symbol(name):
        return ask(b"\x22" + bytes([len(name)]) + name)

    listed = ask(b"\x3a\x01*")
    for name in (b"inference.GRPCInferenceService", b"grpc.health.v1.Health",
                 b"grpc.reflection.v1.ServerReflection", b"grpc.reflection.v1alpha.ServerReflection"):
        assert b"\x0a" + bytes([len(name)]) + name in listed
        assert b"there is no" not in symbol(name)
    described = symbol(b"inference.ModelInferRequest")
    assert b"raw_input_contents" in described
    assert b"model_config.proto" in described, "what a file needs comes with it"
    assert b"there is no symbol 'a.B'" in symbol(b"a.B")


def test_health_knows_its_services_only(rpc):
    other = b"\x0a\x03a.B"  # HealthCheckRequest{service}
    with pytest.raises(grpc.RpcError) as refused:
        rpc.bytes_call(HEALTH + "Check", other)
    assert refused.value.code() == Code.NOT_FOUND and "a.B" in refused.value.details()
    watch = rpc.bytes_stream(HEALTH + "Watch", other)
    assert next(watch) == b"\x08\x03", "SERVICE_UNKNOWN"
    watch.cancel()


def test_a_call_without_a_message_is_refused(rpc):
    empty = rpc.channel.stream_unary("/" + grpc_client.SERVICE + "/ModelInfer")
    with pytest.raises(grpc.RpcError) as refused:
        empty(iter([]), timeout=10)
    assert refused.value.code() == Code.INVALID_ARGUMENT and "no message" in refused.value.details()


def test_health_follows_a_drain_in_which_calls_are_still_answered(start, repository):
    server = start(repository(fashion=DEMO_MODELS / "fashion"), "--providers", "cpu")
    with GrpcClient(server.grpc_port) as rpc:
        poll("health to say so", 5, lambda: rpc.bytes_call(HEALTH + "Check", b"") == SERVING)
        service = grpc_client.SERVICE.encode()
        named = b"\x0a" + bytes([len(service)]) + service  # HealthCheckRequest{service}
        assert rpc.bytes_call(HEALTH + "Check", named) == SERVING
        watch = rpc.bytes_stream(HEALTH + "Watch", b"")
        assert next(watch) == SERVING
        server.terminate()
        assert next(watch) == NOT_SERVING
        assert not rpc.call("ServerReady").ready and rpc.call("ServerLive").live
        response, _ = rpc.infer(request("fashion", {"image": IMAGE}))
        assert grpc_client.outputs(response)["logits"].argmax() == 9
        hold = threading.Event()

        def messages():
            yield request("fashion", {"image": IMAGE})
            hold.wait(30)
        stream = rpc.stream(messages())
        assert next(stream).error_message == ""
        assert server.wait_exit() == 0, "open streams must not hold up the end"
        hold.set()
        with pytest.raises(grpc.RpcError) as ended:
            next(stream)
        assert ended.value.code() in (Code.CANCELLED, Code.UNAVAILABLE)


def test_a_port_is_any_free_one_or_refused(demo, small):
    assert len({demo.grpc_port, demo.port, small.grpc_port, small.port}) == 4
    code, _, said = run_to_end("serve", "--model-repository", DEMO_MODELS, "--providers", "cpu",
                               "--http-port", 0, "--metrics-port", 0, "--grpc-port", demo.grpc_port)
    assert code == 1
    assert f"grpc: 127.0.0.1:{demo.grpc_port}: cannot listen" in said
    assert "listening on" not in said
