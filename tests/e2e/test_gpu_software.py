"""Level 0 on a Vulkan driver that emulates a GPU: right answers while it is there, and answers from
level 1 with the true reason when driver or provider library are not."""
import numpy as np
import pytest

import samples
from server import DEMO_MODELS, NO_GPU, ROOT, SOFTWARE_GPU, WITH_SOFTWARE_GPU, poll, run_to_end

WEBGPU = "WebGpuExecutionProvider"
SOFTWARE_MODELS = ROOT / "demo" / "models-software-gpu"
FIRST_RUN_LIMIT_S = 150  # it compiles its shaders first, on a busy machine
IMAGES = samples.fashion_images()


@pytest.fixture(autouse=True, scope="module")
def driver():
    assert SOFTWARE_GPU.exists(), f"{SOFTWARE_GPU} is missing: run ./dev setup"


def expect_level_1(server, reason_parts, model="fashion"):
    """The GPU level is unavailable for this reason, and level 1 answers, degraded."""
    server.wait_loaded(model)
    ladder = server.ladder(model)
    gpu = ladder["levels"][0]
    assert gpu["state"] == "unavailable", gpu
    for part in reason_parts:
        assert part.lower() in gpu["reason"].lower()
    assert (ladder["current_level"], ladder["degraded"]) == (1, True)
    answer = server.client.infer(model, {"image": IMAGES[:1]})
    assert answer.parameters["level"] == 1 and answer.parameters["degraded"] is True
    assert answer.headers["gradus-level"] == "1" and answer.headers["gradus-degraded"] == "true"
    assert answer.outputs["logits"].argmax() == 9


def test_the_software_gpu_gives_the_cpus_answers(start, repository):
    server = start(repository(fashion=SOFTWARE_MODELS / "fashion",
                              langid=SOFTWARE_MODELS / "langid"), env=WITH_SOFTWARE_GPU)
    poll("level 0 to be current", FIRST_RUN_LIMIT_S,
         lambda: server.ladder("fashion")["current_level"] == 0)
    ladder = server.ladder("fashion")
    gpu = ladder["levels"][0]
    assert ladder["degraded"] is False
    assert (gpu["state"], gpu["provider_used"]) == ("ready", WEBGPU)
    assert 0.5 < gpu["node_share"] <= 1

    def ask(level, i):
        answer = server.client.infer(
            "fashion", {"image": IMAGES[i:i + 1]}, binary_output=True,
            parameters={"min_level": level, "max_level": level, "timeout": 60_000_000})
        assert answer.parameters["level"] == level
        return answer.outputs["logits"]

    for i in range(12):
        on_gpu, on_cpu = ask(0, i), ask(1, i)
        np.testing.assert_allclose(on_gpu, on_cpu, atol=0.1)
        assert on_gpu.argmax() == on_cpu.argmax()
        assert on_gpu.tobytes() != on_cpu.tobytes()  # half precision: it was no CPU run
    plain = server.client.infer("fashion", {"image": IMAGES[:1]},
                                parameters={"timeout": 60_000_000})
    assert plain.parameters["level"] == 0 and plain.parameters["degraded"] is False
    assert plain.headers["gradus-degraded"] == "false"

    poll("langid's level 0 to be current", FIRST_RUN_LIMIT_S,
         lambda: server.ladder("langid")["current_level"] == 0)
    for sentence in samples.sentences()[::8]:
        answer = server.client.infer("langid", sentence.inputs, binary_output=True,
                                     parameters={"max_level": 0, "timeout": 60_000_000})
        assert samples.LANGUAGES[answer.outputs["logits"].argmax()] == sentence.language


def test_a_picture_through_the_software_gpu_is_the_cpus_picture(start, repository):
    server = start(repository(upscale=SOFTWARE_MODELS / "upscale"), env=WITH_SOFTWARE_GPU)
    poll("level 0 to be ready", FIRST_RUN_LIMIT_S,
         lambda: server.levels("upscale")[0]["state"] == "ready")
    found = {}
    for level in (0, 1):
        answer = server.client.infer(
            "upscale", {"image": samples.picture("upscale-small.png")}, binary_output=True,
            parameters={"min_level": level, "max_level": level, "timeout": 120_000_000})
        found[level] = samples.as_pixels(answer.outputs["upscaled"][0])
    assert found[0].shape == (128, 128, 3)
    assert samples.psnr(found[0], found[1]) > 55


def test_without_the_driver_level_1_answers(start, repository):
    server = start(repository(fashion=SOFTWARE_MODELS / "fashion"), env=NO_GPU)
    expect_level_1(server, [WEBGPU, "no Vulkan device"])


def test_a_software_device_is_no_gpu_unless_allowed(start, repository):
    server = start(repository(fashion=DEMO_MODELS / "fashion"), env=WITH_SOFTWARE_GPU)
    expect_level_1(server, [WEBGPU, "allow_software_gpu"])


@pytest.mark.parametrize("library", ["empty", "missing", "not a library"])
def test_without_a_usable_provider_library_level_1_answers(start, repository, tmp_path, library):
    path = tmp_path / "libprovider.so"
    if library != "missing":
        path.write_bytes(b"" if library == "empty" else b"#!/bin/sh\n" * 100)
    config = tmp_path / "server.yaml"
    config.write_text(f"provider_libraries: {{webgpu: {path}}}\n")
    server = start(repository(fashion=SOFTWARE_MODELS / "fashion"), "--config", config,
                   env=WITH_SOFTWARE_GPU)
    expect_level_1(server, [WEBGPU, str(path)])
    assert str(path) in server.log


def test_a_relative_library_path_is_refused(tmp_path):
    config = tmp_path / "server.yaml"
    config.write_text("provider_libraries: {webgpu: lib/libprovider.so}\n")
    code, _, said = run_to_end("serve", "--model-repository", DEMO_MODELS, "--config", config,
                               "--check-config")
    assert code == 2
    assert "provider_libraries" in said and "lib/libprovider.so" in said and "absolute" in said
