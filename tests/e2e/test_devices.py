"""A level on two devices: losing one costs capacity and no level; losing both is a loss."""
import os
import signal
import sys
import threading

import pytest

import samples
from server import BINARY, DEMO_MODELS, ROOT, poll

sys.path.insert(0, str(ROOT / "tests" / "support"))
from fault_control import FOREVER, Control  # noqa: E402

LIBRARY = BINARY.parent / "libgradus_fault_ep.so"
FAULT = "FaultExecutionProvider"
IMAGE = {"image": samples.fashion_images()[:1]}
LADDER = """\
levels:
  - {name: gpu, file: model.onnx, providers: [%s], device_ids: [0, 1], target_p99_ms: 500,
     keep: always}
  - {name: cpu, file: model.onnx, providers: [cpu], keep: always}
policy: {hold_ms: 1000, probe_every_ms: 100, breaker_open_ms: 1000, cooldown_ms: 1000, canary_stage_min_ms: 0}
""" % FAULT


@pytest.fixture
def control(tmp_path):
    return Control(tmp_path / "control", create=True, devices=2)


@pytest.fixture
def server(start, tmp_path, control):
    folder = tmp_path / "models" / "fashion"
    folder.mkdir(parents=True)
    (folder / "1").symlink_to(DEMO_MODELS / "fashion" / "1")
    (folder / "gradus.yaml").write_text(LADDER)
    config = tmp_path / "server.yaml"
    config.write_text(f"provider_libraries: {{{FAULT}: {LIBRARY}}}\n"
                      "worker_restart_backoff_ms: 1500\n")
    found = start(tmp_path / "models", "--config", config,
                  env={"GRADUS_FAULT_CONTROL": control.path})
    found.wait_loaded("fashion")
    assert found.ladder("fashion")["current_level"] == 0
    return found


def level_of(server):
    answer = server.client.infer("fashion", IMAGE, binary_output=True)
    assert answer.status == 200, answer.body
    assert answer.outputs["logits"].argmax() == 9
    return answer.parameters["level"]


def workers(server):
    return server.levels("fashion")[0]["workers"]


def both_run_at_once(server, control):
    control.order("run", "hang", count=2)
    hanging = [threading.Thread(target=level_of, args=(server,)) for _ in range(2)]
    for thread in hanging:
        thread.start()
    poll("both devices to run", 20, lambda: control.counters()["hung"] == 2)
    control.release()
    for thread in hanging:
        thread.join(60)


def test_each_device_has_a_worker_and_both_run_at_once(server, control):
    found = workers(server)
    assert [worker["device"] for worker in found] == ["gpu:0", "gpu:1"]
    assert found[0]["pid"] != found[1]["pid"]
    assert server.levels("fashion")[0]["worker"]["pid"] == found[0]["pid"]
    both_run_at_once(server, control)


def test_losing_one_device_leaves_the_level_and_it_comes_back(server):
    lost = workers(server)[1]
    os.kill(lost["pid"], signal.SIGKILL)
    poll("the loss to be seen", 20, lambda: workers(server)[1]["pid"] is None)
    for _ in range(20):
        assert level_of(server) == 0
    ladder = server.ladder("fashion")
    assert ladder["current_level"] == 0
    assert [move["cause"] for move in ladder["transitions"]].count("hard_loss") == 0
    assert "1 of 2 devices" in server.log
    poll("the device to be back", 60, lambda: workers(server)[1]["state"] == "running")
    assert workers(server)[1]["pid"] not in (None, lost["pid"])
    assert level_of(server) == 0


def test_a_device_that_fails_without_dying_costs_capacity_and_no_level(server, control):
    control.set_gone(0b10)
    for _ in range(20):
        assert level_of(server) == 0
    level = server.levels("fashion")[0]
    assert level["reason"].startswith("device 1 fails, and is left alone: ")
    assert "CUDA failure 100" in level["reason"]
    assert level["failed"] == 0 and level["breaker"] == "closed"
    assert "1 of 2 devices: device 1 fails" in server.log
    assert "failures" not in [move["cause"] for move in server.ladder("fashion")["transitions"]]
    control.set_gone(0)
    poll("the device to answer again", 20, lambda: server.levels("fashion")[0]["reason"] == "")
    assert "2 of 2 devices: device 1 answers again" in server.log
    both_run_at_once(server, control)


def test_losing_both_is_a_loss_of_the_level(server):
    for worker in workers(server):
        os.kill(worker["pid"], signal.SIGKILL)
    poll("level 1 to serve", 20, lambda: server.ladder("fashion")["current_level"] == 1)
    assert level_of(server) == 1
    assert server.ladder("fashion")["transitions"][-1]["cause"] == "hard_loss"
    poll("level 0 to be back", 60, lambda: server.ladder("fashion")["current_level"] == 0)
    assert level_of(server) == 0


def test_a_device_that_is_not_there_is_named_and_joins_when_it_comes(start, tmp_path, control):
    control.set_gone(0b10)
    control.order("create", "error", count=FOREVER, devices=0b10)
    folder = tmp_path / "models" / "fashion"
    folder.mkdir(parents=True)
    (folder / "1").symlink_to(DEMO_MODELS / "fashion" / "1")
    (folder / "gradus.yaml").write_text(LADDER)
    config = tmp_path / "server.yaml"
    config.write_text(f"provider_libraries: {{{FAULT}: {LIBRARY}}}\n")
    server = start(tmp_path / "models", "--config", config,
                   env={"GRADUS_FAULT_CONTROL": control.path})
    server.wait_loaded("fashion")
    assert server.ladder("fashion")["current_level"] == 0
    assert level_of(server) == 0
    assert "1 of 2 devices" in server.log and "device 1: " in server.log
    control.clear()
    control.set_gone(0)
    poll("the device to join", 60, lambda: "2 of 2 devices: device 1 has come" in server.log)
    assert workers(server)[1]["state"] == "running"
    both_run_at_once(server, control)
    assert server.ladder("fashion")["current_level"] == 0
