"""`gradus drill --url`: a game day on a server that runs, with what can be done to it from outside."""
import json
import os
import pty
import subprocess
import sys

import pytest

from server import BINARY, DEMO_MODELS, ROOT, environment, run_to_end

sys.path.insert(0, str(ROOT / "tests" / "support"))
from fault_control import Control  # noqa: E402

LIBRARY = BINARY.parent / "libgradus_fault_ep.so"
LADDER = """\
levels:
  - {name: gpu, file: model.onnx, providers: [%s], target_p99_ms: 100, check_outputs: finite,
     isolation: %s, keep: always}
  - {name: cpu, file: model.onnx, providers: [cpu], keep: always}
policy: {hold_ms: 500, hold_cap_ms: 500, probe_every_ms: 50, cooldown_ms: 500, breaker_open_ms: 500,
         canary_stage_min_ms: 0}
"""
HOLD_S = 0.5


@pytest.fixture
def control(tmp_path):
    return Control(tmp_path / "control", create=True)


@pytest.fixture
def serve(start, tmp_path, control):
    def started(provider="FaultExecutionProvider", isolation="process", more=""):
        folder = tmp_path / "models" / "fashion"
        folder.mkdir(parents=True)
        (folder / "1").symlink_to(DEMO_MODELS / "fashion" / "1")
        (folder / "gradus.yaml").write_text(LADDER % (provider, isolation))
        config = tmp_path / "server.yaml"
        config.write_text(f"provider_libraries: {{FaultExecutionProvider: {LIBRARY}}}\n{more}")
        server = start(tmp_path / "models", "--config", config,
                       env={"GRADUS_FAULT_CONTROL": control.path})
        server.wait_loaded("fashion")
        return server
    return started


def flags(server, *more, rate=50):
    return ("drill", "--url", f"http://127.0.0.1:{server.port}", "--model", "fashion", "--rate", rate,
            "--hold", HOLD_S, "--max-hold", HOLD_S, "--cooldown", HOLD_S, *more)


def worker(server):
    return server.levels("fashion")[0]["worker"]


def ask_on_a_terminal(server, answer, *more):
    """(exit code, all that was printed) when a person types that."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answer)
        done = subprocess.run([str(BINARY), *map(str, flags(server, *more))], env=environment(None),
                              stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=60, check=False)
    finally:
        os.close(ours)
        os.close(theirs)
    return done.returncode, done.stdout


def test_signals_need_nothing_but_leave(serve, tmp_path):
    server = serve()
    report = tmp_path / "report.json"
    code, out, err = run_to_end(*flags(server, "--yes", "--json", report))
    assert code == 0, out + err
    faults = json.loads(report.read_text())["faults"]
    assert [(entry["fault"], entry["class"]) for entry in faults] == [("kill", "died"), ("stop", "hung")]
    for entry in faults:
        assert (entry["failed"], entry["wrong"], entry["transitions_down"]) == (0, 0, 1)
        assert entry["answered_by_level"]["0"] > 0 and entry["answered_by_level"]["1"] > 0
    assert worker(server)["restarts"] == 2
    assert server.alive()


def test_nothing_is_killed_before_somebody_agrees(serve):
    server = serve()
    before = worker(server)["pid"]
    code, _, err = run_to_end(*flags(server, "--fault", "kill"))
    assert code == 2 and "no terminal" in err and "--yes" in err
    code, said = ask_on_a_terminal(server, b"n\n", "--fault", "kill")
    assert code == 1 and "nothing was done" in said
    assert f"worker {before}" in said and "the worker gets SIGKILL" in said
    assert worker(server)["pid"] == before
    code, said = ask_on_a_terminal(server, b"y\n", "--fault", "kill")
    assert code == 0, said
    assert worker(server)["pid"] != before


def test_orders_need_the_servers_control_file(serve, control, tmp_path):
    server = serve()
    code, _, err = run_to_end(*flags(server, "--yes", "--fault", "hang"))
    assert code == 2 and "'hang' needs level 0 on the fault provider" in err and "--control" in err
    other = Control(tmp_path / "other", create=True)
    code, _, err = run_to_end(*flags(server, "--yes", "--fault", "hang", "--control", other.path))
    assert code == 2 and "is not the control file of worker" in err
    code, _, err = run_to_end(*flags(server, "--yes", "--fault", "nolib", "--control", control.path))
    assert code == 2 and "'nolib' needs a server of the drill's own" in err
    report = tmp_path / "report.json"
    code, out, err = run_to_end(*flags(server, "--yes", "--fault", "error3,oom", "--control", control.path,
                                       "--json", report), limit_s=150)
    assert code == 0, out + err
    assert [entry["class"] for entry in json.loads(report.read_text())["faults"]] == ["failures",
                                                                                      "out_of_memory"]
    assert control.left("run") == 0


def test_connections_that_the_server_closes_between_requests_are_no_failures(serve, tmp_path):
    server = serve(more="http: {idle_timeout_ms: 500}\n")
    report = tmp_path / "report.json"
    code, out, err = run_to_end(*flags(server, "--yes", "--fault", "kill", "--json", report, rate=1))
    assert code == 0, out + err
    entry = json.loads(report.read_text())["faults"][0]
    assert entry["failed"] == 0 and entry["sent"] > 3


def test_a_level_without_a_worker_cannot_be_drilled(serve):
    server = serve(provider="cpu", isolation="none")
    code, _, err = run_to_end(*flags(server, "--yes"))
    assert code == 2 and "has no worker process" in err


@pytest.mark.parametrize("more, said", [
    (("--restart-backoff", 1), "a running server has its own"),
    (("--provider", "webgpu"), "a running server has its own"),
    (("--model-repository", DEMO_MODELS), "--model-repository or --url")])
def test_flags_of_a_server_of_its_own_are_refused(more, said):
    code, _, err = run_to_end("drill", "--url", "http://127.0.0.1:9", "--model", "fashion", "--yes", *more)
    assert code == 2 and said in err


def test_a_server_elsewhere_is_refused():
    code, _, err = run_to_end("drill", "--url", "http://192.0.2.1:8000", "--model", "fashion", "--yes")
    assert code == 2 and "process of this machine" in err


def test_an_unknown_model_is_a_usage_error(serve):
    server = serve()
    code, _, err = run_to_end("drill", "--url", f"http://127.0.0.1:{server.port}", "--model", "none",
                              "--yes")
    assert code == 2 and "none" in err
