"""What clients set while the server runs: shared memory, classes in place of values, the log, traces."""
import json
import os
from multiprocessing import shared_memory

import grpc
import numpy as np
import pytest

import client
import samples
from conftest import KEEP_ALL
from grpc_client import GrpcClient, pb, request, set_parameter
from server import DEMO_MODELS, TEST_MODELS, Server, poll, run_to_end

IMAGES = samples.fashion_images()
LABELS = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
          "Ankle boot")
WITH_LABELS = """\
max_batch_size: 8
input [{name: "image" data_type: TYPE_FP32 dims: [1, 28, 28]}]
output [{name: "logits" data_type: TYPE_FP32 dims: [10] label_filename: "labels.txt"}]
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    root = tmp_path_factory.mktemp("extensions")
    models = root / "models"
    (models / "fashion").mkdir(parents=True)
    (models / "fashion" / "1").symlink_to(DEMO_MODELS / "fashion" / "1")
    (models / "fashion" / "gradus.yaml").write_text(KEEP_ALL)
    (models / "named").mkdir()
    (models / "named" / "1").symlink_to(DEMO_MODELS / "fashion" / "1")
    (models / "named" / "config.pbtxt").write_text(WITH_LABELS)
    (models / "named" / "labels.txt").write_text("\n".join(LABELS) + "\n")
    (models / "every_type").symlink_to(TEST_MODELS / "every_type")
    found = Server(models, "--providers", "cpu", "--allow-client-shm=true", "--trace-file",
                   root / "trace.json", "--allow-admin-from-loopback")
    try:
        found.traces = root / "trace.json"
        found.wait_loaded("fashion", "named", "every_type")
        yield found
        found.stop()
    finally:
        found.kill()


@pytest.fixture
def region(server):
    """Makes regions and registers them over HTTP; all are gone afterwards."""
    made = []

    def make(name, size, offset=0, byte_size=None):
        memory = shared_memory.SharedMemory(create=True, size=size)
        made.append(memory)
        answer = register(server, name, memory.name, offset, byte_size or size - offset)
        assert answer.status == 200, answer.body
        return memory

    yield make
    assert server.client.post("/v2/systemsharedmemory/unregister").status == 200
    for memory in made:
        memory.close()
        memory.unlink()


def register(server, name, key, offset, byte_size):
    body = json.dumps({"key": key, "offset": offset, "byte_size": byte_size}).encode()
    return server.client.post(f"/v2/systemsharedmemory/region/{name}/register", body)


def at(region, byte_size, offset=0):
    return {"shared_memory_region": region, "shared_memory_byte_size": byte_size,
            "shared_memory_offset": offset}


def infer(server, model, inputs, outputs):
    """Inputs and outputs by name: what their parameters say, of inputs with shape and datatype."""
    asked = {"inputs": [{"name": name, "shape": list(shape), "datatype": datatype,
                         "parameters": parameters}
                        for name, (shape, datatype, parameters) in inputs.items()],
             "outputs": [{"name": name, "parameters": parameters}
                         for name, parameters in outputs.items()]}
    return server.client.post(f"/v2/models/{model}/infer", json.dumps(asked).encode())


def test_a_models_answer_comes_through_shared_memory_as_through_the_message(server, region):
    image = IMAGES[:4]
    expected = server.client.infer("fashion", {"image": image}, binary_output=True).outputs["logits"]
    memory = region("work", 64 + image.nbytes + 4096, offset=64)
    memory.buf[64:64 + image.nbytes] = image.tobytes()
    answer = infer(server, "fashion", {"image": (image.shape, "FP32", at("work", image.nbytes))},
                   {"logits": at("work", 4096, image.nbytes)})
    assert answer.status == 200, answer.body
    output, = answer.json["outputs"]
    assert "data" not in output and output["shape"] == [4, 10]
    assert output["parameters"] == at("work", 160, image.nbytes)
    start = 64 + image.nbytes
    got = np.frombuffer(bytes(memory.buf[start:start + 160]), np.float32).reshape(4, 10)
    np.testing.assert_array_equal(got, expected)
    # The same over gRPC.
    memory.buf[start:start + 160] = bytes(160)
    message = pb.ModelInferRequest(model_name="fashion")
    tensor = message.inputs.add(name="image", datatype="FP32", shape=image.shape)
    wanted = message.outputs.add(name="logits")
    for to, place in ((tensor, at("work", image.nbytes)), (wanted, at("work", 160, image.nbytes))):
        for name, value in place.items():
            set_parameter(to.parameters[name], value)
    with GrpcClient(server.grpc_port) as rpc:
        response, _ = rpc.infer(message)
        assert list(response.raw_output_contents) == [b""]
        assert response.outputs[0].parameters["shared_memory_region"].string_param == "work"
        regions = rpc.call("SystemSharedMemoryStatus").regions
        assert regions["work"].byte_size == image.nbytes + 4096 and regions["work"].offset == 64
    got = np.frombuffer(bytes(memory.buf[start:start + 160]), np.float32).reshape(4, 10)
    np.testing.assert_array_equal(got, expected)


def test_texts_lie_in_shared_memory_length_by_length(server, region):
    packed = client.pack_bytes([b"caf\xc3\xa9", b"", b"\x00\xff"])
    memory = region("text", 256)
    memory.buf[:len(packed)] = packed
    info = server.client.get("/v2/models/every_type").json
    name = next(i["name"] for i in info["inputs"] if i["datatype"] == "BYTES")
    output = next(o["name"] for o in info["outputs"] if o["datatype"] == "BYTES")
    others = {i["name"]: np.zeros(3, client.DTYPES[i["datatype"]])
              for i in info["inputs"] if i["datatype"] != "BYTES"}
    for i, (other, array) in enumerate(others.items()):
        region(f"other{i}", max(1, array.nbytes))
    inputs = {other: ((3,), next(i["datatype"] for i in info["inputs"] if i["name"] == other),
                      at(f"other{i}", array.nbytes))
              for i, (other, array) in enumerate(others.items())}
    inputs[name] = ((3,), "BYTES", at("text", len(packed)))
    answer = infer(server, "every_type", inputs, {output: at("text", 100, 128)})
    assert answer.status == 200, answer.body
    assert bytes(memory.buf[128:128 + len(packed)]) == packed
    memory.buf[:4] = b"\xff\xff\xff\xff"  # a length beyond the end
    answer = infer(server, "every_type", inputs, {output: at("text", 100, 128)})
    assert answer.status == 400 and "BYTES element 0 says 4294967295 bytes" in answer.error


def test_a_region_that_is_cut_off_costs_its_request_and_nothing_else(server, region):
    image = IMAGES[:1]
    memory = region("cut", 1 << 16)
    memory.buf[:image.nbytes] = image.tobytes()
    inputs = {"image": (image.shape, "FP32", at("cut", image.nbytes))}
    outputs = {"logits": at("cut", 64, 1 << 15)}
    assert infer(server, "fashion", inputs, outputs).status == 200
    file = os.open(f"/dev/shm/{memory.name}", os.O_RDWR)
    os.truncate(file, 8192)
    answer = infer(server, "fashion", inputs, outputs)
    assert answer.status == 400 and "output 'logits': " in answer.error, answer.body
    assert "is shorter than when it was registered" in answer.error
    assert os.fstat(file).st_size == 8192
    os.truncate(file, 0)
    answer = infer(server, "fashion", inputs, {"logits": {}})
    assert answer.status == 400 and "input 'image': shared memory region 'cut'" in answer.error
    os.close(file)
    assert server.client.post("/v2/systemsharedmemory/region/cut/unregister").status == 200
    assert "there is no shared memory region 'cut'" in infer(server, "fashion", inputs, {}).error
    assert server.alive() and server.client.infer("fashion", {"image": image}).status == 200


def test_keys_do_not_leave_their_folder(server):
    for key in ("../shm/x", "/dev/shm/x", "..", "", "a/b", "no-such-object"):
        answer = register(server, "bad", key, 0, 1)
        assert answer.status == 400 and "key" in answer.error or "No such file" in answer.error, key
    assert server.client.get("/v2/systemsharedmemory/status").json == []


def test_classes_take_the_place_of_values(server):
    images = IMAGES[:3]
    values = server.client.infer("fashion", {"image": images}, binary_output=True).outputs["logits"]
    expected = []
    for sample in values:
        best = np.argsort(-sample, kind="stable")[:2]
        expected.append([f"{sample[i]:.6f}:{i}".encode() for i in best])
    assert [int(s[0].split(b":")[1]) for s in expected] == list(samples.fashion_labels()[:3])
    headers, body = client.encode({"image": images}, binary=False)
    asked = json.loads(body)
    for binary in (False, True):
        asked["outputs"] = [{"name": "logits",
                             "parameters": {"classification": 2, "binary_data": binary}}]
        answer = server.client.post("/v2/models/fashion/infer", json.dumps(asked).encode(), headers)
        assert answer.json["outputs"][0]["datatype"] == "BYTES", answer.body
        assert answer.outputs["logits"].tolist() == expected
    asked["outputs"] = [{"name": "logits", "parameters": {"classification": 1}}]
    answer = server.client.post("/v2/models/named/infer", json.dumps(asked).encode(), headers)
    named = [text.decode().split(":")[1:] for text in answer.outputs["logits"].ravel()]
    assert named == [[str(label), LABELS[label]] for label in samples.fashion_labels()[:3]]
    message = request("fashion", {"image": images}, outputs=["logits"])
    set_parameter(message.outputs[0].parameters["classification"], 20)
    with GrpcClient(server.grpc_port) as rpc:
        response, _ = rpc.infer(message)
    assert list(response.outputs[0].shape) == [3, 10]
    assert client.unpack_bytes(response.raw_output_contents[0])[:2] == expected[0]


def test_a_start_that_fails_leaves_the_traces_of_the_running_server(server):
    before = server.traces.stat().st_mtime_ns
    code, _, said = run_to_end("serve", "--model-repository", TEST_MODELS, "--http-port", server.port,
                               "--grpc-port", 0, "--metrics-port", 0, "--trace-file", server.traces)
    assert code == 1 and "Address already in use" in said
    assert server.traces.stat().st_mtime_ns == before


def test_traces_say_where_a_requests_time_went(server):
    path = "/v2/models/fashion/trace/setting"
    told = server.client.post(path, json.dumps({"trace_level": ["TIMESTAMPS"], "trace_rate": "2",
                                                "trace_count": "2"}).encode())
    assert told.status == 200, told.body
    assert told.json["trace_rate"] == "2" and told.json["trace_level"] == ["TIMESTAMPS"]
    assert server.client.get("/v2/trace/setting").json["trace_level"] == ["OFF"]
    for i in range(8):
        assert server.client.infer("fashion", {"image": IMAGES[:1]}, request_id=f"r{i}").status == 200
        server.client.infer("every_type", {})  # not traced
    found = poll("both traces", 20, lambda: len(traces(server)) >= 4 and traces(server))
    assert [t["request_id"] for t in found[::2]] == ["r1", "r3"] and len(found) == 4
    for about, times in zip(found[::2], found[1::2]):
        assert about["model_name"] == "fashion" and about["model_version"] == 1
        assert about["level"] == 1 and about["level_name"] == "cpu"
        assert times["id"] == about["id"]
        expect_timeline(times, "HTTP_RECV", "HTTP_SEND")
    assert server.client.get(path).json["trace_count"] == "0"
    # Over gRPC, and taken back.
    with GrpcClient(server.grpc_port) as rpc:
        message = pb.TraceSettingRequest(model_name="fashion")
        message.settings["trace_count"].value.append("4")
        message.settings["trace_rate"].value.append("1")
        assert rpc.call("TraceSetting", message).settings["trace_count"].value == ["4"]

        def trace(number, request_id):
            read = poll(f"trace {number}", 20,
                        lambda: len(traces(server)) >= 2 * number and traces(server))
            assert len(read) == 2 * number and read[-2]["request_id"] == request_id
            return read[-2], read[-1]

        rpc.infer(request("fashion", {"image": IMAGES[:1]}, request_id="grpc"))
        about, times = trace(3, "grpc")
        assert "error" not in about and about["model_version"] == 1
        expect_timeline(times, "GRPC_WAITREAD", "GRPC_SEND")
        list(rpc.stream(iter([request("fashion", {"image": IMAGES[:1]}, request_id="stream")])))
        expect_timeline(trace(4, "stream")[1], "GRPC_WAITREAD", "GRPC_SEND")
        # What is refused before it runs.
        bad = request("fashion", {"image": IMAGES[:1]}, request_id="bad",
                      parameters={"max_level": "x"})
        bad.model_version = "1"
        with pytest.raises(grpc.RpcError) as refused:
            rpc.infer(bad)
        about, times = trace(5, "bad")
        assert about["error"] == refused.value.details() and "max_level" in about["error"]
        assert about["model_version"] == 1 and "level" not in about
        expect_timeline(times, "GRPC_WAITREAD", "GRPC_SEND", runs=False)
        bad = server.client.infer("fashion", {"image": IMAGES[:1]}, request_id="worse",
                                  parameters={"max_level": "x"})
        about, times = trace(6, "worse")
        assert bad.status == 400 and about["error"] == bad.error
        expect_timeline(times, "HTTP_RECV", "HTTP_SEND", runs=False)
        for setting in ("trace_level", "trace_rate", "trace_count"):
            message.settings[setting].ClearField("value")
        assert rpc.call("TraceSetting", message).settings["trace_level"].value == ["OFF"]
    refused = server.client.post(path, b'{"trace_file": "../x"}')
    assert refused.status == 400 and "plain name" in refused.error


def expect_timeline(times, received, sent, runs=True):
    """Triton's names, in the order in which that happens."""
    run = ["QUEUE_START", "COMPUTE_START", "COMPUTE_INPUT_END", "COMPUTE_OUTPUT_START",
           "COMPUTE_END", "INFER_RESPONSE_COMPLETE"]
    assert [stamp["name"] for stamp in times["timestamps"]] == [
        f"{received}_START", f"{received}_END", "REQUEST_START", *(run if runs else []),
        "REQUEST_END", f"{sent}_START", f"{sent}_END"]
    ns = [stamp["ns"] for stamp in times["timestamps"]]
    assert ns == sorted(ns) and 0 < ns[-1] - ns[0] < 60e9


def traces(server):
    """Two entries a request, in the requests' order; the file is valid at every moment."""
    return sorted(json.loads(server.traces.read_text()), key=lambda entry: entry["id"])


def test_the_log_falls_silent_and_speaks_again(server):
    pin = "/v2/models/fashion/ladder"

    def pins(level):
        answer = server.client.post(pin, json.dumps({"pin": level}).encode())
        assert answer.status == 200, answer.body
        return server.log.count("event=command")

    before = pins(1)
    assert before > 0
    said = server.client.post("/v2/logging", b'{"log_info": false}')
    assert said.status == 200 and said.json["log_info"] is False and said.json["log_error"] is True
    assert pins(2) == before
    with GrpcClient(server.grpc_port) as rpc:
        message = pb.LogSettingsRequest()
        message.settings["log_info"].bool_param = True
        assert rpc.call("LogSettings", message).settings["log_info"].bool_param
    assert pins(1) == before + 1
    assert server.log.count("event=setting") >= 1  # before the log fell silent
    assert server.client.post(pin, b'{"unpin": true}').status == 200
    refused = server.client.post("/v2/logging", b'{"log_file": "/tmp/x"}')
    assert refused.status == 400 and "redirected" in refused.error


def test_what_came_through_a_proxy_changes_nothing(server):
    for path in ("/v2/logging", "/v2/trace/setting"):
        answer = server.client.post(path, b'{"any": "1"}', {"X-Forwarded-For": "10.0.0.7"})
        assert answer.status == 403 and "--allow-admin-from-loopback" in answer.error
    with GrpcClient(server.grpc_port) as rpc:
        message = pb.LogSettingsRequest()
        message.settings["log_info"].bool_param = False
        with pytest.raises(grpc.RpcError) as refused:
            rpc.call("LogSettings", message, metadata=[("x-forwarded-for", "10.0.0.7")])
        assert refused.value.code() == grpc.StatusCode.PERMISSION_DENIED
        assert rpc.call("LogSettings").settings["log_info"].bool_param
        assert rpc.refused("CudaSharedMemoryRegister")[0] == grpc.StatusCode.UNIMPLEMENTED
        rpc.call("CudaSharedMemoryUnregister")  # which clients do before they begin
