"""Events reach a real Alertmanager, a webhook and the log; receivers that do not answer cost nothing."""
import collections
import datetime
import http.client
import http.server
import json
import re
import socket
import subprocess
import sys
import threading
import time

import pytest

import samples
from server import BINARY, DEMO_MODELS, ROOT, die_with_parent, poll

sys.path.insert(0, str(ROOT / "tests" / "support"))
from fault_control import FOREVER, Control  # noqa: E402

ALERTMANAGER = ROOT / "build" / "deps" / "alertmanager"
IMAGE = {"image": samples.fashion_images()[:1]}
RESEND_S = 2
LADDER = """\
levels:
  - {name: gpu, file: model.onnx, providers: [FaultExecutionProvider], keep: always}
  - {name: small, file: model.small.onnx, providers: [cpu], keep: always}
policy: {hold_ms: 500, hold_cap_ms: 60000, probe_every_ms: 100, cooldown_ms: 500, breaker_open_ms: 500,
         urgent_within_ms: 500, canary_stage_min_ms: 100, canary_stage_max_ms: 300,
         canary_good_answers: 1}
"""
CONFIG = """\
provider_libraries: {FaultExecutionProvider: %s}
worker_restart_backoff_ms: 50
worker_crash_loop_deaths: 2
worker_crash_loop_pause_ms: 1500
alerts: {resend_ms: %d, timeout_ms: 3000}
""" % (BINARY.parent / "libgradus_fault_ep.so", RESEND_S * 1000)


class Webhook:
    """Keeps what is posted to it. Until it is opened its port refuses connections."""

    def __init__(self):
        self.bodies = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.headers["Content-Type"] == "application/json"
                outer.bodies.append(json.loads(body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler,
                                                       bind_and_activate=False)
        self._server.server_bind()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hooks/T0K3N"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def open(self):
        self._server.server_activate()
        self._thread.start()
        return self

    def close(self):
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()

    def events(self):
        """How often each came: `urgent begun 1`, with its level if it has one."""
        return collections.Counter(name_of(body) for body in list(self.bodies))


def name_of(event):
    level = event.get("level")
    return f"{event['event']} {event['state']}" + ("" if level is None else f" {level}")


class Alertmanager:
    def __init__(self, folder):
        config = folder / "alertmanager.yml"
        config.write_text("route: {receiver: nobody}\nreceivers: [{name: nobody}]\n")
        self._log = (folder / "log").open("w+")
        self._process = subprocess.Popen(
            [str(ALERTMANAGER / "alertmanager"), f"--config.file={config}",
             f"--storage.path={folder / 'data'}", "--web.listen-address=127.0.0.1:0",
             "--cluster.listen-address="],
            cwd=ALERTMANAGER, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log,
            preexec_fn=die_with_parent)
        self.port = int(poll("Alertmanager to listen", 30, self._find_port))
        self.url = f"http://127.0.0.1:{self.port}/"

    def _find_port(self):
        self._log.seek(0)
        text = self._log.read()
        assert self._process.poll() is None, text
        found = re.search(r'"Listening on" address=127\.0\.0\.1:(\d+)', text)
        return found and found.group(1)

    def alerts(self):
        """What fires: by alertname, and of transitions by their levels too."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", "/api/v2/alerts")
        found = json.loads(connection.getresponse().read())
        connection.close()
        return {"".join(alert["labels"].get(key, "") for key in ("alertname", "from", "to")): alert
                for alert in found}

    def close(self):
        self._process.kill()
        self._process.wait()
        self._log.close()


@pytest.fixture
def alertmanager(tmp_path):
    found = Alertmanager(tmp_path)
    yield found
    found.close()


@pytest.fixture
def webhook():
    found = Webhook()
    yield found
    found.close()


@pytest.fixture
def control(tmp_path):
    return Control(tmp_path / "control", create=True)


@pytest.fixture
def serve(start, tmp_path, control):
    """A server of `fashion` with a level 0 that fails on command, and a last level."""
    def started(*arguments):
        folder = tmp_path / "models" / "fashion"
        folder.mkdir(parents=True)
        (folder / "1").symlink_to(DEMO_MODELS / "fashion" / "1")
        (folder / "gradus.yaml").write_text(LADDER)
        config = tmp_path / "server.yaml"
        config.write_text(CONFIG)
        server = start(tmp_path / "models", "--config", config, "--log-format", "json", *arguments,
                       env={"GRADUS_FAULT_CONTROL": control.path, "no_proxy": "127.0.0.1"})
        server.wait_loaded("fashion")
        assert infer(server) == 0
        return server
    return started


def infer(server):
    answer = server.client.infer("fashion", IMAGE, binary_output=True)
    assert answer.status == 200, answer.body
    return answer.parameters["level"]


def log_lines(server):
    return [json.loads(line) for line in server.log.splitlines()]


def ends_in(alert):
    """Seconds from now."""
    end = datetime.datetime.fromisoformat(alert["endsAt"].replace("Z", "+00:00"))
    return (end - datetime.datetime.now(datetime.timezone.utc)).total_seconds()


def test_each_event_is_told_once_and_alerts_fire_until_all_is_well(serve, control, alertmanager, webhook):
    server = serve("--alertmanager-url", alertmanager.url, "--webhook-url", webhook.open().url)
    assert webhook.events() == {} and alertmanager.alerts() == {}, "all is well"

    control.order("run", "segv", count=FOREVER)  # in each new worker too
    assert infer(server) == 1
    begun = {"transition once": 1, "level_lost begun 0": 1, "degraded begun": 1,
             "urgent begun 1": 1, "crash_loop begun": 1}
    poll("all that began to be told", 20, lambda: webhook.events() == begun)
    firing = {"GradusTransition01", "GradusLevelLost", "GradusDegraded", "GradusUrgent",
              "GradusCrashLoop"}
    alerts = poll("the alerts to fire", 10, lambda: set(alertmanager.alerts()) == firing and
                  alertmanager.alerts())
    instance = webhook.bodies[0]["instance"]
    assert instance == f"{socket.gethostname()}:{server.port}"
    assert alerts["GradusUrgent"]["labels"] == {
        "alertname": "GradusUrgent", "severity": "critical", "model": "fashion", "version": "1",
        "level": "1", "instance": instance}
    assert alerts["GradusLevelLost"]["labels"]["level"] == "0"
    assert alerts["GradusCrashLoop"]["labels"]["device"] == "gpu:0"
    assert alerts["GradusTransition01"]["labels"]["cause"] == "hard_loss"
    assert alerts["GradusUrgent"]["annotations"] == {
        "summary": "model 'fashion': the last level answers: minimum service",
        "description": "model 'fashion' is down to minimum service: level 1 'small', its last, "
                       "answers"}
    first_end = alerts["GradusUrgent"]["endsAt"]
    poll("what still fires to be sent again", 3 * RESEND_S,
         lambda: alertmanager.alerts()["GradusUrgent"]["endsAt"] > first_end)

    control.clear()
    poll("the ladder to climb", 30, lambda: server.ladder("fashion")["current_level"] == 0)
    ended = {"transition once": 2, "level_lost ended 0": 1, "recovered ended": 1,
             "urgent ended 1": 1, "crash_loop ended": 1}
    poll("all ends to be told", 20, lambda: webhook.events() == {**begun, **ended})
    expires_in = min(ends_in(alert) for alert in alertmanager.alerts().values())
    assert expires_in > RESEND_S, "else it might have expired"
    poll("all but the moves to be resolved", expires_in - 1,
         lambda: set(alertmanager.alerts()) == {"GradusTransition01", "GradusTransition10"})

    assert len({body["id"] for body in webhook.bodies}) == len(webhook.bodies)
    urgent = next(body for body in webhook.bodies if body["event"] == "urgent")
    assert set(urgent) == {"id", "event", "state", "severity", "time", "instance", "model",
                           "version", "level", "text"}
    logged = [line["event"] for line in log_lines(server) if "event" in line]
    assert sorted(logged) == sorted(body["event"] for body in webhook.bodies), "one line an event"
    assert "T0K3N" not in server.log


def test_receivers_that_refuse_or_never_answer_cost_no_request_and_no_time_at_the_end(serve, control,
                                                                                    webhook):
    with socket.create_server(("127.0.0.1", 0)) as hangs:  # accepts, and no more
        server = serve("--alertmanager-url", f"http://127.0.0.1:{hangs.getsockname()[1]}",
                       "--webhook-url", webhook.url)
        control.order("run", "error", count=3)
        slowest = 0
        while server.ladder("fashion")["current_level"] == 0:
            infer(server)

        def lines(text):
            return [line for line in log_lines(server) if text in line["message"]]

        def both_are_missed():
            nonlocal slowest
            begun = time.monotonic()
            infer(server)
            slowest = max(slowest, time.monotonic() - begun)
            return lines("alerts do not reach the webhook") and \
                lines("alerts do not reach the alertmanager")
        poll("both receivers to be missed", 10, both_are_missed)
        assert slowest < 2.5, "a try that is not answered takes 3 s"
        webhook.open()
        poll("what waited to arrive", 20, lambda: webhook.events()["urgent begun 1"])
        assert len({body["id"] for body in webhook.bodies}) == len(webhook.bodies)
        poll("the log to say so", 5, lambda: lines("alerts reach the webhook"))
        begun = time.monotonic()
        server.stop()
        assert time.monotonic() - begun < 8, "2 s of quiet, 2 s for the last alerts"
        for receiver in ("webhook", "alertmanager"):
            assert len(lines(f"alerts do not reach the {receiver}")) == 1


def test_a_url_that_is_none_ends_the_start():
    done = subprocess.run([str(BINARY), "serve", "--model-repository", str(DEMO_MODELS),
                           "--alertmanager-url", "localhost:9093"], capture_output=True, text=True,
                          timeout=30, check=False)
    assert done.returncode == 2
    assert "--alertmanager-url = localhost:9093: must be an http:// or https:// URL" in done.stderr
