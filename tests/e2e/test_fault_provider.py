"""A ladder whose "GPU" is the fault provider: what the server makes of each way an accelerator fails."""
import os
import sys

import numpy as np
import pytest

import samples
from server import BINARY, DEMO_MODELS, ROOT, poll

sys.path.insert(0, str(ROOT / "tests" / "support"))
from fault_control import FOREVER, Control  # noqa: E402

LIBRARY = BINARY.parent / "libgradus_fault_ep.so"
FAULT, CPU = "FaultExecutionProvider", "CPUExecutionProvider"
IMAGE = {"image": samples.fashion_images()[:1]}
LADDER = """\
levels:
  - {name: gpu, file: model.onnx, providers: [%s], target_p99_ms: %d, check_outputs: finite,
     keep: always}
  - {name: cpu, file: model.onnx, providers: [cpu], keep: always}
  - {name: small, file: model.small.onnx, providers: [cpu], keep: always}
policy: {%s}
"""
NEVER_CLIMB = "hold_ms: 600000, probe_every_ms: 600000"  # nor does a probe take an order
CLIMB_SOON = "hold_ms: 1000, hold_cap_ms: 60000, probe_every_ms: 200, canary_stage_min_ms: 0"
SOON_SLOW = "slow_samples: 5, slow_count: 3, window_ms: 3000"


@pytest.fixture
def control(tmp_path):
    return Control(tmp_path / "control", create=True)


@pytest.fixture
def serve(start, tmp_path, control):
    """Starts a server of `fashion` with the ladder gpu, cpu, small, all of it loaded."""
    def started(policy=NEVER_CLIMB, provider=FAULT, target_ms=100):
        folder = tmp_path / "models" / "fashion"
        folder.mkdir(parents=True)
        (folder / "1").symlink_to(DEMO_MODELS / "fashion" / "1")
        (folder / "gradus.yaml").write_text(LADDER % (provider, target_ms, policy))
        config = tmp_path / "server.yaml"
        config.write_text(f"provider_libraries: {{{FAULT}: {LIBRARY}}}\n")
        server = start(tmp_path / "models", "--config", config,
                       env={"GRADUS_FAULT_CONTROL": control.path})
        server.wait_loaded("fashion")
        return server
    return started


def infer(server, **parameters):
    answer = server.client.infer("fashion", IMAGE, binary_output=True, parameters=parameters)
    assert answer.status == 200, answer.body
    assert answer.outputs["logits"].shape == (1, 10)
    assert answer.outputs["logits"].argmax() == 9
    return answer


def level_of(server):
    return infer(server).parameters["level"]


def last_move(server):
    move = server.ladder("fashion")["transitions"][-1]
    return move["from"], move["to"], move["cause"]


def test_level_0_runs_on_it_with_the_cpus_answers(serve, control):
    server = serve()
    ladder = server.ladder("fashion")
    assert ladder["current_level"] == 0 and ladder["degraded"] is False
    gpu = ladder["levels"][0]
    assert (gpu["state"], gpu["providers_wanted"]) == ("ready", [FAULT])
    assert (gpu["provider_used"], gpu["node_share"]) == (FAULT, 1)
    before = control.counters()
    on_gpu, on_cpu = infer(server), infer(server, min_level=1)
    assert (on_gpu.parameters["level"], on_cpu.parameters["level"]) == (0, 1)
    np.testing.assert_array_equal(on_gpu.outputs["logits"], on_cpu.outputs["logits"])
    assert control.counters()["ok"] > before["ok"]


@pytest.mark.parametrize("fault", ["error", "out_of_memory"])
def test_an_error_is_answered_by_the_next_level_in_the_same_request(serve, control, fault):
    server = serve()
    control.order("run", fault)
    assert level_of(server) == 1
    assert control.left("run") == 0
    assert level_of(server) == 0
    assert server.levels("fashion")[0]["failed"] == 1
    assert server.ladder("fashion")["current_level"] == 0


@pytest.mark.parametrize("fault", ["error", "nan"])
def test_three_in_a_row_move_the_ladder_down(serve, control, fault):
    server = serve()
    control.order("run", fault, count=3, text="CUDNN failure 5000: as it was ordered")
    assert [level_of(server) for _ in range(3)] == [1, 1, 1]
    ladder = server.ladder("fashion")
    assert ladder["current_level"] == 1 and ladder["degraded"] is True
    assert ladder["levels"][0]["breaker"] == "open"
    assert last_move(server) == (0, 1, "failures")
    error = "CUDNN failure 5000: as it was ordered" if fault == "error" else "'logits' is not finite"
    assert error in ladder["transitions"][-1]["evidence"] and error in ladder["levels"][0]["reason"]
    assert error in next(line for line in server.log.splitlines() if "event=transition" in line)
    assert control.counters()["injected"] == 3
    assert level_of(server) == 1


def test_outputs_that_are_nan_fall_to_the_next_level(serve, control):
    server = serve()
    control.order("run", "nan")
    assert level_of(server) == 1
    assert control.counters()["injected"] == 1
    control.order("run", "nan")
    refused = server.client.infer("fashion", IMAGE, parameters={"max_level": 0})
    assert refused.status == 503
    assert "'logits' is not finite" in refused.error


def test_outputs_cut_short_fall_to_the_next_level(serve, control):
    server = serve()
    control.order("run", "truncate")
    assert level_of(server) == 1
    assert control.counters()["injected"] == 1
    control.order("run", "truncate")
    refused = server.client.infer("fashion", IMAGE, parameters={"max_level": 0})
    assert refused.status == 503
    assert "'logits' has shape [1,5]" in refused.error


@pytest.mark.parametrize("place, reason", [
    ("gone", "its library offers no device here"), ("create", "the driver is too old"),
    ("compile", "the driver is too old")])
def test_a_device_that_fails_from_the_start_leaves_level_1_and_its_reason(serve, control, place,
                                                                         reason):
    if place == "gone":
        control.set_gone()
    else:
        control.order(place, "error", count=FOREVER, text="the driver is too old")
    server = serve()
    ladder = server.ladder("fashion")
    assert ladder["current_level"] == 1 and ladder["degraded"] is True
    assert ladder["levels"][0]["state"] == "unavailable"
    assert FAULT in ladder["levels"][0]["reason"] and reason in ladder["levels"][0]["reason"]
    assert level_of(server) == 1


def test_an_option_that_it_does_not_have_is_named(serve):
    server = serve(provider=f"{FAULT}: {{contrl: /tmp/x}}")
    assert "unknown option 'contrl'" in server.levels("fashion")[0]["reason"]
    assert level_of(server) == 1


def test_its_control_file_may_come_as_an_option(serve, tmp_path):
    own = Control(tmp_path / "own", create=True)
    server = serve(provider=f"{FAULT}: {{control: {own.path}}}")
    own.order("run", "error")
    assert level_of(server) == 1
    assert own.counters()["injected"] == 1


def test_slowness_moves_the_ladder_down(serve, control):
    server = serve(policy=f"{NEVER_CLIMB}, {SOON_SLOW}")
    assert level_of(server) == 0
    control.set_delay(0.25)  # the target is 100 ms, slow is twice that
    poll("the ladder to leave level 0", 60, lambda: level_of(server) == 1)
    assert last_move(server) == (0, 1, "slow")
    levels = server.levels("fashion")
    assert levels[0]["failed"] == 0, "slow answers are answers"
    assert level_of(server) == 1


def seconds_between_the_last_two_moves(server):
    times = [np.datetime64(move["time"].removesuffix("Z"))
             for move in server.ladder("fashion")["transitions"][-2:]]
    return (times[1] - times[0]) / np.timedelta64(1, "s")


def test_after_a_quiet_hold_the_ladder_climbs_back(serve, control):
    server = serve(policy=CLIMB_SOON, target_ms=1000)
    control.order("run", "error", count=FOREVER)
    poll("the ladder to leave level 0", 30, lambda: level_of(server) == 1)
    for _ in range(20):
        assert level_of(server) == 1
    control.clear()
    poll("the ladder to climb", 60, lambda: server.ladder("fashion")["current_level"] == 0)
    assert last_move(server) == (1, 0, "promoted")
    assert seconds_between_the_last_two_moves(server) >= 1
    assert level_of(server) == 0
    assert server.ladder("fashion")["degraded"] is False


def test_it_climbs_back_after_slowness_too(serve, control):
    server = serve(policy=f"{CLIMB_SOON}, {SOON_SLOW}")
    control.set_delay(0.25)
    poll("the ladder to leave level 0", 60, lambda: level_of(server) == 1)
    control.set_delay(0)
    poll("the ladder to climb", 60, lambda: level_of(server) == 0)
    assert last_move(server) == (1, 0, "promoted")


@pytest.mark.skipif(not os.environ.get("GRADUS_LONG"), reason="GRADUS_LONG=1 runs it")
def test_an_unknown_fault_that_lasts_until_the_process_ends_replaces_the_worker(serve, control):
    server = serve(policy=CLIMB_SOON, target_ms=1000)
    text = "CUBLAS failure 13: CUBLAS_STATUS_EXECUTION_FAILED"
    control.order("run", "error", text=text, sticky=True)
    for _ in range(3):
        assert level_of(server) == 1
    assert server.ladder("fashion")["current_level"] == 1
    poll("level 0 to be back", 60, lambda: server.ladder("fashion")["current_level"] == 0)
    worker = server.levels("fashion")[0]["worker"]
    assert (worker["restarts"], worker["class"]) == (1, "failures")
    assert text in worker["last_fault"]
    assert level_of(server) == 0


def test_a_device_that_is_gone_and_comes_back_is_used_again(serve, control):
    server = serve(policy=CLIMB_SOON, target_ms=1000)
    control.set_gone()
    for _ in range(5):
        assert level_of(server) == 1
    assert server.ladder("fashion")["current_level"] == 1
    control.set_gone(0)
    poll("the ladder to climb", 60, lambda: server.ladder("fashion")["current_level"] == 0)
    assert level_of(server) == 0
