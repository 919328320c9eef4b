"""A level in a worker process: the worker's death, hang or error costs no request."""
import os
import signal
import threading
import time

import numpy as np
import pytest

import samples
from server import DEMO_MODELS, poll

IMAGES = samples.fashion_images()
HOLD_S = 1.5

LADDER = """\
levels:
  - {name: isolated, file: model.onnx, providers: [CPUExecutionProvider], isolation: process,
     keep: always, target_p99_ms: %d}
  - {name: cpu, file: model.onnx, providers: [CPUExecutionProvider], keep: always}
policy: {hold_ms: %d, breaker_open_ms: 1000, cooldown_ms: 1000, canary_stage_min_ms: 0}
"""


def ladder(target_ms=1000):
    return LADDER % (target_ms, HOLD_S * 1000)


@pytest.fixture
def server(start, tmp_path, request):
    """Its parameter: the target of level 0, in milliseconds."""
    folder = tmp_path / "models" / "fashion"
    folder.mkdir(parents=True)
    (folder / "1").symlink_to(DEMO_MODELS / "fashion" / "1")
    (folder / "gradus.yaml").write_text(ladder(getattr(request, "param", 1000)))
    found = start(tmp_path / "models", "--providers", "cpu")
    found.wait_loaded("fashion")
    assert found.ladder("fashion")["current_level"] == 0
    return found


def ask(server, **parameters):
    return server.client.infer("fashion", {"image": IMAGES[:1]}, binary_output=True,
                               parameters=parameters)


def worker(server, level=0):
    return server.levels("fashion")[level]["worker"]


def running(server):
    found = worker(server)
    return found if found["state"] == "running" else None


def back_at_level_0(server):
    poll("level 0 to answer again", HOLD_S + 60,
         lambda: server.ladder("fashion")["current_level"] == 0)


def state_of(pid):
    """One letter of proc(5); none: it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def is_alive(pid):
    return state_of(pid) not in (None, "Z")


class Load:
    """Asks from two threads until it is told to stop; keeps every answer."""

    def __init__(self, server):
        self.answers = []
        self.pause_s = 0.005
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(server,)) for _ in range(2)]

    def _run(self, server):
        while not self._stop.is_set():
            self.answers.append(ask(server))
            time.sleep(self.pause_s)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join(60)


def test_answers_are_bit_identical_to_those_in_the_server(server):
    for count in (1, 7, 64):
        isolated, here = (
            server.client.infer("fashion", {"image": IMAGES[:count]}, binary_output=True,
                                parameters={"min_level": level, "max_level": level})
            for level in (0, 1))
        assert (isolated.parameters["level"], here.parameters["level"]) == (0, 1)
        assert isolated.outputs["logits"].tobytes() == here.outputs["logits"].tobytes()


def test_the_status_shows_the_worker(server):
    found = worker(server)
    assert found["device"] == "cpu:0" and found["state"] == "running"
    assert found["restarts"] == 0 and found["last_fault"] is None and found["class"] is None
    assert found["pid"] != server.pid and is_alive(found["pid"])
    assert server.levels("fashion")[1]["worker"] is None
    listed = server.client.get("/v2/workers").json["workers"]
    assert [(w["device"], w["pid"]) for w in listed] == [("cpu:0", found["pid"])]


def test_a_workers_log_lines_name_it(start, tmp_path, server):
    debugging = start(tmp_path / "models", "--providers", "cpu", "--log-level", "debug")
    poll("a line of the worker", 30, lambda: "worker=cpu:0" in debugging.log)
    assert "worker=cpu:0" not in server.log  # it had nothing to say


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT],
                         ids=["kill", "segv", "abort"])
def test_a_worker_that_dies_costs_no_request(server, number):
    pid = worker(server)["pid"]
    with Load(server) as load:
        poll("some answers", 10, lambda: len(load.answers) > 20)
        before = len(load.answers)
        os.kill(pid, number)
        poll("level 1 to answer", 10, lambda: any(
            answer.parameters.get("level") == 1 for answer in load.answers[before:]))
        poll("another worker", 20, lambda: running(server) and worker(server)["pid"] != pid)
        load.pause_s = 0.05  # else level 0 may be taken for too slow to carry it
        back_at_level_0(server)
    assert {answer.status for answer in load.answers} == {200}
    found = worker(server)
    assert found["restarts"] == 1 and found["class"] == "died"
    assert f"signal {int(number)}" in found["last_fault"]
    downs = [move for move in server.ladder("fashion")["transitions"]
             if move["from"] == 0 and move["to"] == 1]
    assert [move["cause"] for move in downs] == ["hard_loss"]


@pytest.mark.parametrize("server", [100], indirect=True)
def test_a_worker_that_hangs_is_killed_and_the_next_level_answers(server):
    pid = worker(server)["pid"]
    assert ask(server).parameters["level"] == 0
    os.kill(pid, signal.SIGSTOP)
    poll("the worker to have stopped", 10, lambda: state_of(pid) == "T")
    answer = ask(server)
    assert answer.status == 200 and answer.parameters["level"] == 1
    assert answer.parameters["latency_ms"] < 5000  # its limit, one second, and a run; a ping has ten
    poll("the hung worker to be dead", 10, lambda: not is_alive(pid))
    poll("the class to be told", 10, lambda: worker(server)["class"] == "hung")
    back_at_level_0(server)


def test_workers_die_with_the_server(server):
    pid = worker(server)["pid"]
    server.kill()
    poll("the worker to be dead", 10, lambda: not is_alive(pid))


def test_a_level_that_cannot_be_loaded_joins_once_it_can(start, tmp_path):
    folder = tmp_path / "models" / "fashion"
    (folder / "1").mkdir(parents=True)
    original = DEMO_MODELS / "fashion" / "1" / "model.onnx"
    (folder / "1" / "model.onnx").symlink_to(original)
    (folder / "gradus.yaml").write_text(ladder().replace("model.onnx", "late.onnx", 1))
    never = tmp_path / "models" / "never"
    never.mkdir()
    (never / "1").symlink_to(DEMO_MODELS / "fashion" / "1")
    (never / "gradus.yaml").write_text(
        ladder().replace("[CPUExecutionProvider]", "[MIGraphXExecutionProvider]", 1))
    server = start(tmp_path / "models")
    server.wait_loaded("fashion", "never")
    assert server.levels("never")[0]["reason"].endswith(
        "not in this ONNX Runtime; not tried again before the model is loaded anew")
    assert ask(server).parameters["level"] == 1
    assert "late.onnx" in server.levels("fashion")[0]["reason"]
    poll("the worker without work to end", 10, lambda: worker(server)["pid"] is None)
    (folder / "1" / "late.onnx").symlink_to(original)
    poll("level 0 to answer", 30, lambda: ask(server).parameters["level"] == 0)
    assert server.levels("never")[0]["worker"]["restarts"] == 0, "each try has a fresh one"


def test_a_worker_has_the_threads_that_config_pbtxt_gives_a_levels_nodes(start, tmp_path):
    def threads_with(mode):
        folder = tmp_path / mode / "fashion"
        (folder / "1").mkdir(parents=True)
        (folder / "1" / "model.onnx").symlink_to(DEMO_MODELS / "fashion" / "1" / "model.onnx")
        (folder / "gradus.yaml").write_text("default_levels: {cpu: {isolation: process}}")
        (folder / "config.pbtxt").write_text("".join(
            f'parameters {{ key: "{key}" value {{ string_value: "{value}" }} }}\n'
            for key, value in {"execution_mode": mode, "inter_op_thread_count": 200}.items()))
        server = start(tmp_path / mode, "--providers", "cpu")
        server.wait_loaded("fashion")
        assert (ask(server).outputs["logits"].argmax() == 9), "an ankle boot"
        return len(os.listdir(f"/proc/{worker(server, 1)['pid']}/task"))

    assert threads_with("0") < 100
    assert threads_with("1") > 200


def test_a_large_body_is_read_where_it_arrived(server):
    images = np.repeat(IMAGES[:1], 64, axis=0)
    answer = server.client.infer("fashion", {"image": images}, binary_output=True)
    assert answer.status == 200 and answer.headers["gradus-level"] == "0"
    with open(f"/proc/{worker(server)['pid']}/maps", encoding="ascii") as maps:
        assert "memfd:gradus-body" in maps.read()
