"""What /metrics says after requests whose number and fate are known."""
import os
import re
import signal
import socket

import pytest

import busy
import client
import samples
from conftest import link_models
from server import DEMO_MODELS, TEST_MODELS, Server, poll, run_to_end

IMAGES = samples.fashion_images()
LADDER = """\
levels:
  - {name: isolated, file: model.onnx, providers: [CPUExecutionProvider], isolation: process,
     keep: always, max_batch_size: 8}
  - {name: cpu, file: model.onnx, providers: [CPUExecutionProvider], keep: always, max_batch_size: 8}
"""
SERIES = re.compile(r'([a-z_]+)(?:\{(.*)\})? (\S+)')
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)",?')


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    root = link_models(tmp_path_factory.mktemp("models"), {"busy": TEST_MODELS / "busy"})
    (root / "fashion").mkdir()
    (root / "fashion" / "1").symlink_to(DEMO_MODELS / "fashion" / "1")
    (root / "fashion" / "gradus.yaml").write_text(LADDER)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and does not listen
        config = tmp_path_factory.mktemp("config") / "server.yaml"
        config.write_text("alerts: {webhook_url: 'http://127.0.0.1:%d/'}\n" % nobody.getsockname()[1])
        found = Server(root, "--providers", "cpu", "--config", config)
        try:
            found.wait_loaded("busy", "fashion")
            yield found
            found.stop()
        finally:
            found.kill()


class Metrics:
    """One scrape: `metrics("name", label="value")` is the value of the one series that fits."""

    def __init__(self, server):
        answer = client.Client("127.0.0.1", server.metrics_port).get("/metrics")
        assert answer.status == 200
        assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        self.series = []
        for line in answer.body.decode().splitlines():
            if not line.startswith("#"):
                name, labels, value = SERIES.fullmatch(line).groups()
                self.series.append((name, dict(LABEL.findall(labels or "")), float(value)))

    def all(self, name, **labels):
        return [(has, value) for one, has, value in self.series
                if one == name and labels.items() <= has.items()]

    def __call__(self, name, **labels):
        found = self.all(name, **labels)
        assert len(found) == 1, (name, labels, found)
        return found[0][1]


def added(before, after, name, **labels):
    """By how much each series that fits has grown, those apart that have not."""
    was = {tuple(sorted(has.items())): value for has, value in before.all(name, **labels)}
    grown = {}
    for has, value in after.all(name, **labels):
        more = value - was.get(tuple(sorted(has.items())), 0)
        if more:
            grown[tuple(value for key, value in sorted(has.items())
                        if key not in ("model", "version", *labels))] = more
    return grown


def ask(server, count=1, **parameters):
    return server.client.infer("fashion", {"image": IMAGES[:count]}, binary_output=True,
                               parameters=parameters)


def test_each_request_is_counted_once_by_level_or_by_class(server):
    before = Metrics(server)
    for level, count in ((0, 1), (0, 1), (0, 3), (1, 1), (1, 2)):
        assert ask(server, count, min_level=level, max_level=level).status == 200
    assert ask(server, min_level=2).status == 400
    assert server.client.infer("fashion", {"picture": IMAGES[:1]}).status == 400
    assert server.client.post("/v2/models/fashion/infer", b"{").status == 400
    assert server.client.infer("nobody", {"image": IMAGES[:1]}).status == 404
    assert server.client.infer("fashion", {"image": IMAGES[:1]}, version="7").status == 404
    after = Metrics(server)

    def grown(name):
        return added(before, after, name, model="fashion", version="1")

    assert grown("gradus_serving_requests_total") == {("0",): 3, ("1",): 2}
    assert grown("gradus_serving_samples_total") == {("0",): 5, ("1",): 3}
    assert grown("gradus_serving_runs_total") == {("0",): 3, ("1",): 2}
    assert grown("gradus_serving_failures_total") == {("invalid",): 3}
    assert grown("gradus_serving_failed_runs_total") == {}
    assert grown("nv_inference_request_success") == {(): 5}
    assert grown("nv_inference_request_failure") == {("OTHER",): 3}
    assert grown("nv_inference_count") == {(): 8}
    assert grown("nv_inference_exec_count") == {(): 5}
    assert added(before, after, "gradus_serving_unknown_model_total") == {("not_found",): 2}
    assert added(before, after, "gradus_serving_requests_total", model="busy") == {}


def test_durations_are_those_that_the_answers_say(server):
    before = Metrics(server)
    answers = [ask(server, min_level=1) for _ in range(20)]
    after = Metrics(server)
    for kind, said in (("latency", 1e-3 * sum(a.parameters["latency_ms"] for a in answers)),
                       ("queue", 1e-6 * sum(a.parameters["queue_us"] for a in answers)),
                       ("run", 1e-6 * sum(a.parameters["run_us"] for a in answers))):
        name = f"gradus_serving_{kind}_seconds"
        total = sum(added(before, after, f"{name}_sum", model="fashion").values())
        assert total == pytest.approx(said, abs=20 * 1.1e-6), kind  # they are cut to whole us
        assert added(before, after, f"{name}_count", model="fashion") == {("1",): 20}
        buckets = [value for _, value in after.all(f"{name}_bucket", model="fashion", level="1")]
        assert buckets == sorted(buckets) and len(buckets) == 22
        assert buckets[-1] == after(f"{name}_count", model="fashion", level="1")


def test_a_missed_deadline_is_counted_where_it_passed(server):
    steps = busy.steps_for(server, 8)
    before = Metrics(server)
    answer = server.client.infer("busy", busy.inputs(steps), {"gradus-timeout-ms": "800"})
    assert answer.status == 504
    after = Metrics(server)
    assert added(before, after, "gradus_serving_failures_total", model="busy") == {("deadline",): 1}
    assert added(before, after, "gradus_serving_deadline_misses_total", model="busy") == {
        ("1", "running"): 1}
    assert added(before, after, "gradus_serving_requests_total", model="busy") == {}
    assert added(before, after, "nv_inference_request_failure", model="busy") == {("REJECTED",): 1}


def test_a_client_that_leaves_is_counted(server):
    headers, body = client.encode(busy.inputs(busy.steps_for(server, 8)))
    before = Metrics(server)
    connection = server.client.connection()
    connection.request("POST", "/v2/models/busy/infer", body, headers)
    poll("it to run", 10, lambda: server.levels("busy")[1]["running"] == 1)
    connection.close()
    poll("it to be counted", 10, lambda: added(
        before, Metrics(server), "gradus_serving_failures_total", model="busy"))
    after = Metrics(server)
    assert added(before, after, "gradus_serving_failures_total", model="busy") == {("cancelled",): 1}
    assert sum(added(before, after, "gradus_serving_cancelled_total", model="busy").values()) == 1
    assert added(before, after, "nv_inference_request_failure", model="busy") == {("CANCELED",): 1}


def test_ladders_and_workers_show_a_loss(server):
    before = Metrics(server)
    assert before("gradus_ladder_current_level", model="fashion") == 0
    assert before("gradus_ladder_degraded", model="fashion") == 0
    assert before("gradus_ladder_level_state", model="fashion", level="0", state="ready") == 1
    assert before("gradus_worker_state", device="cpu:0", state="running") == 1
    assert len(before.all("gradus_ladder_transitions_total", model="fashion", cause="started")) == 1
    os.kill(server.levels("fashion")[0]["worker"]["pid"], signal.SIGKILL)
    poll("the ladder to move down", 10,
         lambda: Metrics(server)("gradus_ladder_current_level", model="fashion") == 1)
    assert ask(server).parameters["level"] == 1
    poll("a new worker", 30, lambda: Metrics(server)(
        "gradus_worker_state", device="cpu:0", state="running") == 1)
    after = Metrics(server)
    assert added(before, after, "gradus_worker_restarts_total") == {("cpu:0",): 1}
    moves = "gradus_ladder_transitions_total"
    assert added(before, after, moves, model="fashion") == {("hard_loss", "0", "1"): 1}
    assert after("gradus_ladder_degraded", model="fashion") == 1
    assert after("gradus_ladder_level_state", model="fashion", level="1", state="ready") == 1
    poll("the alert's receiver to be missed", 10,
         lambda: Metrics(server)("gradus_alerts_failed_tries_total", receiver="webhook") > 0)
    assert Metrics(server)("gradus_alerts_waiting_events", receiver="webhook") > 0


def test_a_port_that_is_taken_ends_the_start(server):
    code, _, said = run_to_end("serve", "--model-repository", TEST_MODELS, "--providers", "cpu",
                               "--http-port", 0, "--grpc-port", 0, "--metrics-port",
                               server.metrics_port)
    assert code == 1, said
    assert "metrics" in said and f":{server.metrics_port}:" in said
    assert "listening on" not in said
