"""The ladder's status: which level answers, why no better one does, and what provider lists do."""
import json
import re
import shutil

import pytest

import samples
from conftest import keep_every_level
from server import DEMO_MODELS, TEST_MODELS, WITH_SOFTWARE_GPU, run_to_end

IMAGE = {"image": samples.fashion_images()[:1]}
FASHION = DEMO_MODELS / "fashion"
CPU, WEBGPU, CUDA = "CPUExecutionProvider", "WebGpuExecutionProvider", "CUDAExecutionProvider"
LADDER_KEYS = {"model", "version", "current_level", "degraded", "saturated", "urgent", "levels",
               "transitions", "pin", "last_canary"}
LEVEL_KEYS = {"level", "name", "variant", "state", "breaker", "reason", "providers_wanted",
              "provider_used", "node_share", "target_p99_ms", "p99_ms", "canary_share",
              "waiting", "batch_size", "running", "served", "failed", "worker", "workers"}


def test_without_a_gpu_level_1_answers_and_the_ladder_says_why(start):
    server = start(DEMO_MODELS)
    server.wait_loaded("fashion", "upscale", "langid")
    for model in ("fashion", "upscale", "langid"):
        ladder = server.ladder(model)
        assert set(ladder) == LADDER_KEYS
        assert (ladder["model"], ladder["version"]) == (model, "1")
        assert ladder["current_level"] == 1
        assert ladder["degraded"] is True
        assert [level["level"] for level in ladder["levels"]] == [0, 1, 2, 3]
        for level in ladder["levels"]:
            assert set(level) == LEVEL_KEYS
        gpu = ladder["levels"][0]
        assert (gpu["name"], gpu["variant"]) == ("gpu", "model.fp16.onnx")
        assert gpu["state"] == "unavailable"
        assert WEBGPU in gpu["providers_wanted"]
        assert WEBGPU in gpu["reason"] and "no Vulkan device" in gpu["reason"]
        assert not gpu["provider_used"]
        assert (gpu["served"], gpu["failed"]) == (0, 0)
        for level in ladder["levels"][1:]:  # INT8 may be found to buy too little
            assert level["state"] in ("ready", "skipped"), level
        assert ladder["levels"][3]["state"] == "ready"
    answer = server.client.infer("fashion", IMAGE)
    assert answer.parameters["level"] == 1 and answer.parameters["degraded"] is True
    assert answer.headers["gradus-degraded"] == "true"
    assert server.log.count(gpu["reason"]) <= 3, "once for each model at most"


def test_levels_tell_targets_placement_and_what_they_served(start, tmp_path):
    server = start(keep_every_level(tmp_path, "upscale"), "--providers", "cpu")
    server.wait_loaded("upscale")
    ladder = server.ladder("upscale")
    assert ladder["degraded"] is False and ladder["current_level"] == 1
    levels = {level["level"]: level for level in ladder["levels"]}
    assert set(levels) == {1, 2, 3}
    for number, (name, variant, target) in {1: ("cpu", "model.onnx", 800),
                                            2: ("cpu-int8", "model.int8.onnx", 500),
                                            3: ("cpu-small", "model.small.onnx", 200)}.items():
        level = levels[number]
        assert (level["name"], level["variant"], level["target_p99_ms"]) == (name, variant, target)
        assert (level["state"], level["breaker"]) == ("ready", "closed"), level
        assert (level["providers_wanted"], level["provider_used"]) == ([CPU], CPU)
        assert level["node_share"] == 1
    small = {"image": samples.picture("upscale-small.png")}
    before = levels
    for wanted in (1, 1, 1, 2, 2, 3):
        assert server.client.infer("upscale", small, binary_output=True, parameters={
            "min_level": wanted, "max_level": wanted}).status == 200
    after = server.levels("upscale")
    assert [after[n]["served"] - before[n]["served"] for n in (1, 2, 3)] == [3, 2, 1]
    assert [after[n]["failed"] for n in (1, 2, 3)] == [0, 0, 0]
    assert 1 < after[1]["p99_ms"] < 60_000  # 64x64 pixels cannot be quicker
    for move in ladder["transitions"]:
        assert set(move) == {"time", "from", "to", "cause", "evidence"}
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", move["time"])
        assert move["cause"]
    assert ladder["transitions"][-1]["to"] == 1


def wanted_of(server):
    return {number: level["providers_wanted"] for number, level in server.levels("fashion").items()}


@pytest.mark.parametrize("text", ["cpu", "CPU", "CPUExecutionProvider", " cpuexecutionprovider ",
                                  "cpu;cpu", "CPU , cpu", ";cpu;"])
@pytest.mark.parametrize("by", ["flag", "environment"])
def test_cpu_alone_means_that_no_gpu_level_is_wanted(start, repository, text, by):
    arguments = ["--providers", text] if by == "flag" else []
    env = {"ORT_PROVIDERS": text} if by == "environment" else {}
    server = start(repository(fashion=FASHION), *arguments, env=env)
    assert wanted_of(server) == {1: [CPU], 2: [CPU], 3: [CPU]}
    server.wait_loaded("fashion")
    assert server.ladder("fashion")["degraded"] is False
    answer = server.client.infer("fashion", IMAGE)
    assert answer.parameters["level"] == 1 and answer.parameters["degraded"] is False
    server.kill()


@pytest.mark.parametrize("text, gpu", [
    ("webgpu,cpu", [WEBGPU]), ("CPU;WebGPU", [WEBGPU]),
    ("CUDAExecutionProvider;CPUExecutionProvider", [CUDA]), ("cuda, WEBGPU ,cpu", [CUDA, WEBGPU]),
    ("WebGpuExecutionProvider,cuda;cpu", [WEBGPU, CUDA])])
@pytest.mark.parametrize("by", ["flag", "environment"])
def test_lists_order_and_limit_the_gpu_providers(start, repository, text, gpu, by):
    arguments = ["--providers", text] if by == "flag" else []
    env = {"ORT_PROVIDERS": text} if by == "environment" else {}
    server = start(repository(fashion=FASHION), *arguments, env=env)
    assert wanted_of(server) == {0: gpu, 1: [CPU], 2: [CPU], 3: [CPU]}
    server.wait_loaded("fashion")
    level = server.levels("fashion")[0]
    assert level["state"] == "unavailable"
    for provider in gpu:
        assert provider in level["reason"]
    assert server.ladder("fashion")["degraded"] is True
    assert server.client.infer("fashion", IMAGE).parameters["level"] == 1
    server.kill()


@pytest.mark.parametrize("text", ["", "   ", ";", " , "])
@pytest.mark.parametrize("by", ["flag", "environment"])
def test_an_empty_list_means_the_default(start, repository, text, by):
    arguments = ["--providers", text] if by == "flag" else []
    env = {"ORT_PROVIDERS": text} if by == "environment" else {}
    server = start(repository(fashion=FASHION), *arguments, env=env)
    wanted = wanted_of(server)
    assert WEBGPU in wanted[0] and wanted[1] == [CPU]
    server.kill()


def test_the_flag_outranks_the_environment(start, repository):
    server = start(repository(fashion=FASHION), "--providers", "cpu",
                   env={"ORT_PROVIDERS": "webgpu,cpu"})
    assert 0 not in wanted_of(server)


@pytest.mark.parametrize("text, word", [("nosuch", "nosuch"), ("cpu,gpuu", "gpuu"),
                                        ("webgpu;CPUExecutionProvidr", "CPUExecutionProvidr")])
@pytest.mark.parametrize("by", ["flag", "environment"])
def test_an_unknown_provider_ends_the_start_with_the_known_names(text, word, by):
    arguments = ["--providers", text] if by == "flag" else []
    env = {"ORT_PROVIDERS": text} if by == "environment" else {}
    code, _, said = run_to_end("serve", "--model-repository", DEMO_MODELS, "--http-port", "0",
                               *arguments, env=env)
    assert code == 2, said
    assert word in said
    for known in ("CPU", "CUDA", "WebGpu", "TensorRT", "OpenVINO"):
        assert known.lower() in said.lower()


def test_a_model_that_may_only_use_an_absent_gpu_says_so(start, repository):
    server = start(repository(fashion=FASHION), "--providers", "webgpu", wait="listening")
    server.wait_loaded("fashion")
    assert list(server.levels("fashion")) == [0]
    for answer in (server.client.get("/v2/models/fashion/ready"),
                   server.client.infer("fashion", IMAGE)):
        assert answer.status == 503
        assert int(answer.headers["Retry-After"]) >= 1
        assert "no Vulkan device" in answer.error
    assert server.client.get("/v2/health/live").status == 200
    assert server.client.get("/v2/health/ready").status == 503


def test_a_variant_that_buys_no_time_is_left_out(start, repository):
    server = start(repository(slow=TEST_MODELS / "fashion-slow-int8"), "--providers", "cpu")
    server.wait_loaded("slow")
    ladder = server.ladder("slow")
    assert ladder["current_level"] == 1
    level = server.levels("slow")[2]
    assert level["state"] == "skipped"
    assert re.search(r"\d", level["reason"]) and "cpu" in level["reason"], level["reason"]
    assert level["reason"] in server.log
    answer = server.client.infer("slow", IMAGE, parameters={"min_level": 1, "max_level": 2})
    assert answer.parameters["level"] == 1
    assert answer.outputs["logits"].argmax() == 9
    refused = server.client.infer("slow", IMAGE, parameters={"min_level": 2})
    assert refused.status == 503 and refused.headers["Retry-After"]


def test_keep_always_keeps_it(start, tmp_path):
    shutil.copytree(TEST_MODELS / "fashion-slow-int8", tmp_path / "slow")
    (tmp_path / "slow" / "gradus.yaml").write_text("default_levels:\n  cpu-int8: {keep: always}\n")
    server = start(tmp_path, "--providers", "cpu")
    server.wait_loaded("slow")
    assert server.levels("slow")[2]["state"] == "ready"
    answer = server.client.infer("slow", IMAGE, parameters={"min_level": 2})
    assert answer.parameters["level"] == 2
    assert answer.outputs["logits"].argmax() == 9


def test_health_answers_while_levels_still_load(start, tmp_path):
    for i in range(12):  # the software GPU takes seconds over each
        (tmp_path / f"upscale{i:02}").symlink_to(
            DEMO_MODELS.parent / "models-software-gpu" / "upscale")
    server = start(tmp_path, env=WITH_SOFTWARE_GPU, wait="listening")
    assert server.client.get("/v2/health/live").status == 200
    state = server.client.get("/v2/health/ready")
    assert state.json == {"ready": state.status == 200}
    server.wait_ready()
    names = [f"upscale{i:02}" for i in range(12)]
    loading = [name for name in names if server.levels(name)[0]["state"] == "loading"]
    assert loading, "level 0 of twelve models cannot have been ready before level 1 was"
    answer = server.client.infer(loading[-1], {"image": samples.picture("upscale-small.png")},
                                 binary_output=True)
    assert answer.status == 200 and answer.parameters["level"] >= 1
    server.kill()


def test_the_log_may_be_json_and_names_the_port(start, repository):
    server = start(repository(fashion=FASHION), "--providers", "cpu", "--log-format", "json")
    assert f'"listening on http://127.0.0.1:{server.port}"' in server.log
    for line in server.log.splitlines():
        assert {"time", "severity", "message"} <= set(json.loads(line))
