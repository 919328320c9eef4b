"""Starts the real binary on a free port; nothing that it starts outlives a test.

`GRADUS_BINARY` names the binary (default: build/release/gradus). A server sees no GPU unless the
test gives it one: the tests hold on a machine with a GPU too.
"""
import ctypes
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import client

ROOT = Path(__file__).resolve().parents[2]
DEMO_MODELS = ROOT / "demo" / "models"
TEST_MODELS = ROOT / "tests" / "models"
SAMPLES = ROOT / "demo" / "samples"
BINARY = Path(os.environ.get("GRADUS_BINARY", ROOT / "build" / "release" / "gradus"))
SOFTWARE_GPU = ROOT / "build" / "deps" / "software-gpu" / "lvp_icd.json"

NO_GPU = {"VK_DRIVER_FILES": "/nonexistent/icd.json", "CUDA_VISIBLE_DEVICES": "-1"}
WITH_SOFTWARE_GPU = {"VK_DRIVER_FILES": str(SOFTWARE_GPU), "CUDA_VISIBLE_DEVICES": "-1"}
START_LIMIT_S = 60
EXIT_LIMIT_S = 60
LISTENING = re.compile(r"listening on http://[^\s\"]+:(\d+)")
METRICS = re.compile(r"metrics on http://[^\s\"]+:(\d+)/metrics")  # logged before that
GRPC = re.compile(r"grpc on [^\s\"]+:(\d+)")  # so is this


def poll(what, limit_s, check):
    """Calls `check` until it returns something true, which it returns; fails after the limit."""
    deadline = time.monotonic() + limit_s
    while True:
        found = check()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {limit_s} s in vain for: {what}")
        time.sleep(0.02)


def environment(changes):
    """This process's environment without what steers providers, then `changes`."""
    kept = {key: value for key, value in os.environ.items()
            if key not in ("ORT_PROVIDERS", "VK_ICD_FILENAMES", "VK_ADD_DRIVER_FILES")}
    return {**kept, **NO_GPU, **(changes or {})}


def run_to_end(*arguments, env=None, limit_s=60):
    """Runs `gradus` with the arguments until it ends; returns (exit code, stdout, stderr)."""
    done = subprocess.run([str(BINARY), *map(str, arguments)], env=environment(env),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=limit_s, check=False)
    return done.returncode, done.stdout, done.stderr


def die_with_parent():
    """And a hangup counts, whoever runs the tests."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Server:
    """A running `gradus serve`. `wait`: `ready`, or `listening` to return after the bind.
    `through`: a command that ends as the one that it is given."""

    def __init__(self, repositories, *arguments, env=None, wait="ready", through=()):
        if not isinstance(repositories, (list, tuple)):
            repositories = [repositories]
        command = [*through, str(BINARY), "serve", "--http-port", "0", "--grpc-port", "0",
                   "--metrics-port", "0"]
        for repository in repositories:
            command += ["--model-repository", str(repository)]
        self._log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            command + list(map(str, arguments)), env=environment(env), stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=self._log, preexec_fn=die_with_parent)
        try:
            self.port = int(poll("the line that names the port", START_LIMIT_S, self._find_port))
            self.client = client.Client("127.0.0.1", self.port)
            self.metrics_port = int(METRICS.search(self.log).group(1))
            self.grpc_port = int(GRPC.search(self.log).group(1))
            if wait == "ready":
                self.wait_ready()
        except BaseException:
            self.kill()
            raise

    def _find_port(self):
        found = LISTENING.search(self.log)
        if not found and self.process.poll() is not None:
            raise AssertionError(f"gradus ended with {self.process.returncode}:\n{self.log}")
        return found and found.group(1)

    @property
    def log(self):
        """All that the server has written to standard error."""
        size = os.fstat(self._log.fileno()).st_size
        return os.pread(self._log.fileno(), size, 0).decode(errors="replace")

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process.poll() is None

    def wait_ready(self, limit_s=START_LIMIT_S):
        poll("/v2/health/ready to say 200", limit_s,
             lambda: self.client.get("/v2/health/ready").status == 200)

    def ladder(self, model):
        answer = self.client.get(f"/v2/models/{model}/ladder")
        assert answer.status == 200, answer.body
        return answer.json

    def levels(self, model):
        """The ladder's levels by number."""
        return {level["level"]: level for level in self.ladder(model)["levels"]}

    def wait_loaded(self, *models, limit_s=START_LIMIT_S):
        """Waits until no level of the models is loading any more."""
        for model in models:
            poll(f"every level of {model} to be ready or to have failed", limit_s,
                 lambda: all(level["state"] != "loading"
                             for level in self.ladder(model)["levels"]))

    def connect(self, limit_s=10):
        return socket.create_connection(("127.0.0.1", self.port), timeout=limit_s)

    def rss_bytes(self):
        with open(f"/proc/{self.pid}/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def open_files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def wait_exit(self, limit_s=EXIT_LIMIT_S):
        try:
            return self.process.wait(limit_s)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"gradus did not end in {limit_s} s after SIGTERM") from error

    def stop(self):
        """SIGTERM, and the promise that it ends well."""
        if self.process.returncode is None:
            self.terminate()
            self.must_end_well()

    def must_end_well(self):
        try:
            code = self.wait_exit()
        finally:
            self.kill()
        assert code == 0, f"gradus ended with {code}:\n{self.log[-4000:]}"

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
