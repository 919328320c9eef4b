"""Right answers: known labels, pictures and languages at every CPU level, in every form."""
import gzip
import json
import subprocess
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from PIL import Image
import pytest

import client
import samples
from server import ROOT, SAMPLES

LEVELS = {1: ("cpu", "model.onnx"), 2: ("cpu-int8", "model.int8.onnx"),
          3: ("cpu-small", "model.small.onnx")}
FASHION_ACCURACY = {1: 0.925, 2: 0.935, 3: 0.910}  # measured with ONNX Runtime alone
IMAGES = samples.fashion_images()
LABELS = samples.fashion_labels()


def only(level):
    return {"min_level": level, "max_level": level}


def expect_from(answer, level):
    name, variant = LEVELS[level]
    said = answer.parameters
    assert (said["level"], said["level_name"], said["variant"]) == (level, name, variant)
    assert answer.headers["gradus-level"] == str(level)
    assert answer.headers["gradus-variant"] == variant
    assert answer.headers["gradus-degraded"] == ("true" if said["degraded"] else "false")


@pytest.mark.parametrize("level", LEVELS)
def test_fashion_pictures_get_their_known_labels(demo, level):
    connection = demo.client.connection()
    found = []
    for image in IMAGES:
        answer = demo.client.infer("fashion", {"image": image[np.newaxis]}, binary_output=True,
                                   parameters=only(level), connection=connection)
        expect_from(answer, level)
        assert answer.outputs["logits"].shape == (1, 10)
        found.append(answer.outputs["logits"][0].argmax())
    connection.close()
    assert found[:12] == [9, 2, 1, 1, 6, 1, 4, 6, 5, 7, 4, 5]
    assert np.mean(np.array(found) == LABELS) == pytest.approx(FASHION_ACCURACY[level], abs=0.015)


@pytest.mark.parametrize("level, least_psnr", [(1, np.inf), (2, 44), (3, 37)])
def test_the_picture_is_upscaled_as_known(demo, level, least_psnr):
    answer = demo.client.infer("upscale", {"image": samples.picture("upscale-input.png")},
                               binary_output=True, parameters=only(level))
    expect_from(answer, level)
    found = samples.as_pixels(answer.outputs["upscaled"][0])
    expected = samples.picture("upscale-expected.png")[0].astype(np.uint8)
    assert found.shape == (256, 256, 3)
    assert samples.psnr(found, expected) >= least_psnr
    if level > 1:  # or another level answered
        assert samples.psnr(found, expected) < 60


@pytest.mark.parametrize("level", LEVELS)
def test_sentences_get_their_known_language(demo, level):
    for sentence in samples.sentences():
        answer = demo.client.infer("langid", sentence.inputs, binary_output=True,
                                   parameters=only(level))
        expect_from(answer, level)
        found = samples.LANGUAGES[answer.outputs["logits"][0].argmax()]
        assert found == sentence.language, sentence.text


def test_a_batch_gets_what_each_of_its_rows_gets_alone(demo):
    together = demo.client.infer("fashion", {"image": IMAGES[:8]}, binary_output=True,
                                 parameters=only(1)).outputs["logits"]
    for row, image in zip(together, IMAGES):
        alone = demo.client.infer("fashion", {"image": image[np.newaxis]}, binary_output=True,
                                  parameters=only(1)).outputs["logits"][0]
        np.testing.assert_allclose(row, alone, atol=1e-4)


def test_the_best_accepted_level_answers(demo):
    for asked, level in [({}, 1), ({"min_level": 2}, 2), ({"min_level": 3}, 3),
                         ({"max_level": 1}, 1), ({"min_level": 0, "max_level": 3}, 1),
                         ({"min_level": 2, "max_level": 2}, 2), ({"max_level": 100}, 1)]:
        answer = demo.client.infer("fashion", {"image": IMAGES[:1]}, parameters=asked)
        assert answer.status == 200, (asked, answer.body)
        expect_from(answer, level)


def test_headers_choose_levels_too_and_the_stricter_one_holds(demo):
    for headers, asked, level in [
            ({"gradus-min-level": "2"}, {}, 2), ({"gradus-max-level": "2"}, {"min_level": 2}, 2),
            ({"gradus-min-level": "3"}, {"min_level": 1}, 3),
            ({"gradus-max-level": "3"}, {"max_level": 1}, 1)]:
        answer = demo.client.infer("fashion", {"image": IMAGES[:1]}, headers, parameters=asked)
        assert answer.status == 200, (headers, asked, answer.body)
        expect_from(answer, level)


def test_parameters_tell_times_and_that_no_gpu_level_is_wanted(demo):
    answer = demo.client.infer("upscale", {"image": samples.picture("upscale-small.png")},
                               binary_output=True, parameters=only(1))
    said = answer.parameters
    assert set(said) >= {"level", "level_name", "variant", "degraded", "queue_us", "run_us",
                         "latency_ms"}
    assert said["degraded"] is False and answer.headers["gradus-degraded"] == "false"
    assert type(said["level"]) is int
    assert said["run_us"] > 1000  # 64x64 pixels cannot be quicker
    assert said["queue_us"] >= 0
    assert said["latency_ms"] * 1000 >= said["run_us"]


def test_json_and_binary_are_the_same_both_ways(demo):
    found = []
    for binary in (True, False):
        for binary_output in (True, False):
            answer = demo.client.infer("fashion", {"image": IMAGES[3:4]}, binary=binary,
                                       binary_output=binary_output, parameters=only(1))
            output = answer.json["outputs"][0]
            assert (output["name"], output["datatype"], output["shape"]) == (
                "logits", "FP32", [1, 10])
            wanted = "application/octet-stream" if binary_output else "application/json"
            assert answer.headers["Content-Type"] == wanted
            assert ("Inference-Header-Content-Length" in answer.headers) == binary_output
            found.append(answer.outputs["logits"])
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


def test_nested_json_is_read_as_flat_json_is(demo):
    _, body = client.encode({"image": IMAGES[5:6]}, binary=False, parameters=only(1))
    request = json.loads(body)
    flat = demo.client.post("/v2/models/fashion/infer", body).outputs["logits"]
    request["inputs"][0]["data"] = IMAGES[5:6].astype(float).tolist()
    nested = demo.client.post("/v2/models/fashion/infer", json.dumps(request)).outputs["logits"]
    np.testing.assert_array_equal(nested, flat)


@pytest.mark.parametrize("coding, pack", [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_compressed_requests_are_understood(demo, coding, pack):
    headers, body = client.encode({"image": IMAGES[:1]}, binary_output=True, parameters=only(1))
    plain = demo.client.post("/v2/models/fashion/infer", body, headers)
    packed = demo.client.post("/v2/models/fashion/infer", pack(body),
                              {**headers, "Content-Encoding": coding})
    np.testing.assert_array_equal(packed.outputs["logits"], plain.outputs["logits"])


@pytest.mark.parametrize("coding, unpack",
                         [("gzip", gzip.decompress), ("deflate", zlib.decompress)])
@pytest.mark.parametrize("binary_output", [True, False])
def test_responses_are_compressed_when_asked_for(demo, coding, unpack, binary_output):
    image = {"image": samples.picture("upscale-small.png")}
    plain = demo.client.infer("upscale", image, binary_output=binary_output, parameters=only(3))
    assert "Content-Encoding" not in plain.headers
    packed = demo.client.infer("upscale", image, {"Accept-Encoding": coding},
                               binary_output=binary_output, parameters=only(3))
    assert packed.headers["Content-Encoding"] == coding
    assert len(packed.body) < len(plain.body)
    opened = client.Answer(packed.status, packed.headers, unpack(packed.body))
    np.testing.assert_array_equal(opened.outputs["upscaled"], plain.outputs["upscaled"])


def test_json_and_binary_inputs_mix_in_one_request(demo):
    inputs = samples.sentences()[0].inputs
    expected = demo.client.infer("langid", inputs, parameters=only(1)).outputs["logits"]
    for behind in ("input_ids", "attention_mask"):
        found = demo.client.infer("langid", inputs, binary=[behind], parameters=only(1))
        np.testing.assert_array_equal(found.outputs["logits"], expected)


def test_the_id_comes_back_only_when_given(demo):
    image = {"image": IMAGES[:1]}
    for given in ("a", "7d1e-00", "größer ☃", "x" * 1000, 'quote " and \\ backslash'):
        assert demo.client.infer("fashion", image, request_id=given).json["id"] == given
    assert "id" not in demo.client.infer("fashion", image).json
    _, body = client.encode(image, binary=False)
    request = {**json.loads(body), "id": None}
    answer = demo.client.post("/v2/models/fashion/infer", json.dumps(request))
    assert answer.status == 200 and "id" not in answer.json


def every_type_inputs():
    floats = [0.0, -0.0, 1.5, np.nan, np.inf, -np.inf]
    inputs = {"in_bool": np.array([True, False, True, True, False, True]),
              "in_fp16": np.array(floats, np.float16), "in_fp32": np.array(floats, np.float32),
              "in_fp64": np.array(floats, np.float64),
              "in_bf16": np.array([0x3F80, 0xBF80, 0x7FC0, 0, 1, 0xFFFF], np.uint16),
              "in_bytes": np.array([b"", b"plain", "größer".encode(), b"\xff\x00\xfe",
                                    b"x" * 70000, b'"\\\n'], object)}
    for dtype in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"):
        limits = np.iinfo(dtype)
        inputs[f"in_{dtype}"] = np.array([limits.min, limits.max, 0, 1, 2, 100], dtype)
    return inputs


BF16 = {"in_bf16": "BF16"}


def test_every_datatype_comes_back_byte_for_byte(demo):
    inputs = every_type_inputs()
    answer = demo.client.infer("every_type", inputs, datatypes=BF16, binary_output=True)
    outputs = answer.outputs
    assert len(outputs) == len(inputs) == 14
    for name, sent in inputs.items():
        found = outputs[name.replace("in_", "out_")]
        assert client.raw(found) == client.raw(sent), name
    assert {o["name"]: o["datatype"] for o in answer.json["outputs"]}["out_bf16"] == "BF16"


JSON_TYPES = [name for name in every_type_inputs() if name not in ("in_fp16", "in_bf16")]


def test_every_datatype_with_a_json_form_comes_back_through_json(demo):
    inputs = every_type_inputs()
    finite = np.array([0, -0.0, 1.5, -2.25, 3e38, 1e-40])
    inputs["in_fp32"], inputs["in_fp64"] = finite.astype(np.float32), finite * 1e200
    inputs["in_bytes"] = np.array([b"", b"a", "größer ☃".encode(), b'"\\\n\t', b"\0\1", b"z"],
                                  object)
    wanted = [name.replace("in_", "out_") for name in JSON_TYPES]
    answer = demo.client.infer("every_type", inputs, binary=["in_fp16", "in_bf16"],
                               datatypes=BF16, outputs=wanted)
    assert answer.headers["Content-Type"] == "application/json"
    outputs = answer.outputs
    for name in JSON_TYPES:
        assert client.raw(outputs[name.replace("in_", "out_")]) == client.raw(inputs[name]), name


@pytest.mark.parametrize("name", ["out_fp32", "out_fp64"])
def test_nan_and_infinities_come_as_words_in_valid_json(demo, name):
    answer = demo.client.infer("every_type", every_type_inputs(), datatypes=BF16, outputs=[name])
    assert answer.status == 200, answer.body
    assert answer.json["outputs"][0]["data"] == [0, 0, 1.5, "NaN", "Infinity", "-Infinity"]


@pytest.mark.parametrize("name", ["out_fp16", "out_bf16", "out_bytes"])
def test_an_output_without_a_json_form_is_refused_with_advice(demo, name):
    answer = demo.client.infer("every_type", every_type_inputs(), datatypes=BF16, outputs=[name])
    assert answer.status == 400
    assert name in answer.error and "binary" in answer.error


def test_requested_outputs_come_in_the_order_and_form_asked_for(demo):
    inputs = every_type_inputs()
    asked = {"out_int8": True, "out_bool": False, "out_uint64": True}
    answer = demo.client.infer("every_type", inputs, datatypes=BF16, outputs=asked)
    assert [o["name"] for o in answer.json["outputs"]] == list(asked)
    for output in answer.json["outputs"]:
        assert ("data" in output) != asked[output["name"]]
    for name, found in answer.outputs.items():
        np.testing.assert_array_equal(found, inputs[name.replace("out_", "in_")])
    answer = demo.client.infer("every_type", inputs, datatypes=BF16, binary_output=True,
                               outputs={"out_int8": False})
    assert answer.json["outputs"][0]["data"] == inputs["in_int8"].tolist()


def test_tensors_without_elements_come_back(demo):
    inputs = {name: array[:0] for name, array in every_type_inputs().items()}
    behind = demo.client.infer("every_type", inputs, datatypes=BF16, binary_output=True)
    assert behind.status == 200, behind.body
    for name, found in behind.outputs.items():
        assert found.shape == (0,), name
    assert demo.client.infer("every_type", inputs, binary=["in_fp16", "in_bf16"], datatypes=BF16,
                             outputs=["out_fp32"]).json["outputs"][0]["data"] == []


@pytest.mark.parametrize("binary", [True, False])
def test_a_scalar_has_an_empty_shape(demo, binary):
    answer = demo.client.infer("scalar", {"x": np.array(21, np.float32)}, binary=binary,
                               binary_output=binary)
    assert answer.json["outputs"][0]["shape"] == []
    assert answer.outputs["doubled"] == 42


def test_a_raw_body_is_the_only_input(demo):
    answer = demo.client.post("/v2/models/fashion/infer", IMAGES[:1].tobytes(),
                              {"Inference-Header-Content-Length": "0"})
    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.outputs["logits"][0].argmax() == 9


def test_metadata_describes_server_and_models(demo):
    about = demo.client.get("/v2").json
    assert about["name"] == "gradus" and about["version"]
    assert "binary_tensor_data" in about["extensions"]
    for path in ("/v2/models/fashion", "/v2/models/fashion/versions/1"):
        assert demo.client.get(path).json == {
            "name": "fashion", "versions": ["1"], "platform": "onnxruntime_onnx",
            "inputs": [{"name": "image", "datatype": "FP32", "shape": [-1, 1, 28, 28]}],
            "outputs": [{"name": "logits", "datatype": "FP32", "shape": [-1, 10]}]}
    inputs = demo.client.get("/v2/models/langid").json["inputs"]
    assert inputs == [{"name": "input_ids", "datatype": "INT64", "shape": [-1, -1]},
                      {"name": "attention_mask", "datatype": "INT64", "shape": [-1, -1]}]
    types = demo.client.get("/v2/models/every_type").json["outputs"]
    assert [output["datatype"] for output in types] == [
        "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16",
        "FP32", "FP64", "BF16", "BYTES"]


def test_health_and_readiness_say_yes(demo):
    assert demo.client.get("/v2/health/live").json == {"live": True}
    assert demo.client.get("/v2/health/ready").json == {"ready": True}
    for path in ("/v2/models/fashion/ready", "/v2/models/fashion/versions/1/ready"):
        answer = demo.client.get(path)
        assert answer.status == 200 and answer.json["ready"] is True


def test_an_infer_path_may_name_the_version(demo):
    answer = demo.client.infer("fashion", {"image": IMAGES[:1]}, version="1")
    assert answer.json["model_name"] == "fashion" and answer.json["model_version"] == "1"
    assert answer.outputs["logits"][0].argmax() == 9


def test_thirty_two_threads_get_right_answers(demo):
    alone = [demo.client.infer("fashion", {"image": image[np.newaxis]}, binary_output=True,
                               parameters=only(1)).outputs["logits"] for image in IMAGES[:40]]

    def ask(thread):
        connection = demo.client.connection()
        for i in range(40):
            at = (i + thread) % 40
            answer = demo.client.infer("fashion", {"image": IMAGES[at:at + 1]},
                                       binary=bool(i % 2), binary_output=bool(thread % 2),
                                       parameters=only(1), request_id=f"{thread}-{i}",
                                       connection=connection)
            assert answer.json["id"] == f"{thread}-{i}"
            expect_from(answer, 1)
            np.testing.assert_allclose(answer.outputs["logits"], alone[at], atol=1e-4)
        connection.close()
        return True

    with ThreadPoolExecutor(32) as threads:
        assert all(threads.map(ask, range(32)))


def demo_script(server, *command):
    done = subprocess.run(["/usr/bin/python3", *map(str, command),
                           "--url", f"http://127.0.0.1:{server.port}"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_demo_scripts_show_what_the_readme_shows(demo, tmp_path):
    request = (SAMPLES / "fashion-request.json").read_bytes()
    answer = demo.client.post("/v2/models/fashion/infer", request,
                              {"Content-Type": "application/x-www-form-urlencoded"})  # curl -d
    assert answer.outputs["logits"].argmax() == 9
    picture = tmp_path / "big.png"
    said = demo_script(demo, ROOT / "demo" / "upscale", SAMPLES / "upscale-input.png", picture)
    assert "128x128 -> 256x256, level 1 (cpu, model.onnx)" in said
    pixels = np.asarray(Image.open(picture))
    expected = samples.picture("upscale-expected.png")[0]
    np.testing.assert_array_equal(pixels, expected)
    assert "Ankle boot" in demo_script(demo, ROOT / "demo" / "classify", "0")
    said = demo_script(demo, ROOT / "demo" / "language", "Der Zug hatte wieder Verspätung.")
    assert said.startswith("German, level 1")
    sheet = tmp_path / "sheet.png"
    demo_script(demo, ROOT / "demo" / "compare", SAMPLES / "upscale-input.png", sheet)
    assert Image.open(sheet).size[0] > 4 * 256
