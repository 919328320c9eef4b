"""The queue policies of a config.pbtxt: who is delayed, rejected or refused while an instance is busy."""
import sys
import threading
import time

import pytest

import samples
from server import BINARY, DEMO_MODELS, ROOT, poll

sys.path.insert(0, str(ROOT / "tests" / "support"))
from fault_control import Control  # noqa: E402

FAULT = "FaultExecutionProvider"
IMAGE = {"image": samples.fashion_images()[:1]}
LADDER = f"""\
levels: [{{name: gpu, file: model.onnx, providers: [{FAULT}], target_p99_ms: 3000}}]
policy: {{hold_ms: 600000, probe_every_ms: 600000}}
"""
CONFIG = """\
max_batch_size: 8
dynamic_batching {
  priority_levels: 3
  default_priority_level: 2
  default_queue_policy { default_timeout_microseconds: 50000 }
  priority_queue_policy {
    key: 1
    value: { timeout_action: DELAY default_timeout_microseconds: 60000000 allow_timeout_override: true }
  }
  priority_queue_policy { key: 3 value: { max_queue_size: 1 } }
}
"""
DELAYED_AFTER_S, LATE_FOR_S = 0.5, 1  # then it counts as in time again, and who waited rises


@pytest.fixture
def control(tmp_path):
    return Control(tmp_path / "control", create=True)


@pytest.fixture
def server(start, tmp_path, control):
    folder = tmp_path / "models" / "fashion"
    folder.mkdir(parents=True)
    (folder / "1").symlink_to(DEMO_MODELS / "fashion" / "1")
    (folder / "gradus.yaml").write_text(LADDER)
    (folder / "config.pbtxt").write_text(CONFIG)
    config = tmp_path / "server.yaml"
    config.write_text(f"provider_libraries: {{{FAULT}: {BINARY.parent / 'libgradus_fault_ep.so'}}}\n")
    server = start(tmp_path / "models", "--config", config,
                   env={"GRADUS_FAULT_CONTROL": control.path})
    server.wait_loaded("fashion")
    return server


class Asked:
    """Requests on threads of their own, and the order of their answers."""

    def __init__(self, server):
        self.server, self.answers, self.threads = server, {}, []

    def ask(self, name, headers=None, **parameters):
        def run():
            self.answers[name] = self.server.client.infer("fashion", IMAGE, headers,
                                                          binary_output=True, parameters=parameters)
        self.threads.append(threading.Thread(target=run))
        self.threads[-1].start()

    def wait_all(self):
        for thread in self.threads:
            thread.join(60)


def waits(server, count):
    poll(f"{count} to wait", 20, lambda: server.levels("fashion")[0]["waiting"] == count)


def answers_behind_a_hang(server, control):
    """In their order, and whether all came while the late one was late."""
    control.order("run", "hang")
    asked = Asked(server)
    hung = control.counters()["hung"]
    asked.ask("holder", priority=1)
    poll("the instance to be busy", 20, lambda: control.counters()["hung"] == hung + 1)

    before = time.monotonic()
    asked.ask("late", priority=1, timeout=int(DELAYED_AFTER_S * 1e6))
    waits(server, 1)
    after = time.monotonic()
    asked.ask("bounded", priority=3)
    waits(server, 2)
    refused = server.client.infer("fashion", IMAGE, parameters={"priority": 3})
    assert refused.status == 429
    assert "level 0 'gpu': as many requests of priority 3 wait as may: 1" in refused.error
    asked.ask("in time", priority=1)
    waits(server, 3)
    rejected = server.client.infer("fashion", IMAGE, parameters={"timeout": 60000000})
    assert rejected.status == 504, "its own timeout may not override the policy's 50 ms"
    assert "the deadline of 50000 us passed" in rejected.error
    hurried = server.client.infer("fashion", IMAGE, {"gradus-timeout-ms": "20"},
                                  parameters={"priority": 1, "timeout": 1000})
    assert hurried.status == 504, "a delay lifts no other deadline"

    poll("one to be late", 20, lambda: time.monotonic() > after + DELAYED_AFTER_S)
    control.release()
    asked.wait_all()
    return asked.answers, time.monotonic() < before + DELAYED_AFTER_S + LATE_FOR_S


def test_each_priority_waits_by_its_own_policy(server, control):
    control.set_delay(0.15)  # so that answers come one after another
    for _ in range(10):  # a busy machine may be too slow
        answers, soon = answers_behind_a_hang(server, control)
        if soon:
            break
    assert soon and list(answers) == ["holder", "in time", "late", "bounded"]
    for answer in answers.values():
        assert answer.status == 200 and answer.outputs["logits"].argmax() == 9
    assert server.ladder("fashion")["current_level"] == 0


def test_the_policies_are_shown_as_they_were_given(server):
    batching = server.client.get("/v2/models/fashion/config").json["dynamic_batching"]
    assert batching["priority_levels"] == 3
    assert batching["default_queue_policy"] == {
        "timeout_action": "REJECT", "default_timeout_microseconds": 50000,
        "allow_timeout_override": False, "max_queue_size": 0}
    assert batching["priority_queue_policy"] == {
        "1": {"timeout_action": "DELAY", "default_timeout_microseconds": 60000000,
              "allow_timeout_override": True, "max_queue_size": 0},
        "3": {"timeout_action": "REJECT", "default_timeout_microseconds": 0,
              "allow_timeout_override": False, "max_queue_size": 1}}
