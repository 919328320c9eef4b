"""The processes that are measured against each other: ONNX Runtime alone, HTTP or gRPC alone, and the
server. Each lives for the whole benchmark and idles while the others are measured."""
import ctypes
import http.client
import json
import os
import re
import signal
import struct
import subprocess
import time
from pathlib import Path

from workloads import BenchError, http_binary_body, on_the_wire

LISTENING = re.compile(r"listening on http://[^\s\"]+:(\d+)")
GRPC = re.compile(r"grpc on [^\s\"]+:(\d+)")
START_LIMIT_S = 60


def pss_bytes(pid):
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"^Pss:\s+(\d+) kB$", rollup, re.MULTILINE)[1]) * 1024


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Child:
    def __init__(self, command, **streams):
        self.process = subprocess.Popen([str(word) for word in command], text=True,
                                        preexec_fn=die_with_parent, **streams)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream:
                stream.close()


class Raw(Child):
    """ONNX Runtime alone, in its own process; also says what the right answer is."""

    def __init__(self, programs, workload, work):
        self.output = work / f"{workload.name}.output"
        tensor = work / f"{workload.name}.input"
        tensor.write_bytes(workload.input_bytes())
        super().__init__([programs / "raw_run", workload.file, "x".join(map(str, workload.shape)), tensor,
                          self.output], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.cpus = int(self._line().removeprefix("ready "))

    def _line(self):
        line = self.process.stdout.readline()
        if not line:
            raise BenchError("raw_run ended; its message is above")
        return line

    def measure(self, concurrency, seconds):
        self.process.stdin.write(f"{concurrency} {seconds}\n")
        self.process.stdin.flush()
        return json.loads(self._line())


def load(client, port, pid, concurrency, seconds, request, output=None):
    """What a load client says of the server with this port and process. `request`: a file, or several
    that are sent in turn; `output`: as many files with the right answers, if answers are to be compared."""
    files = [",".join(map(str, each if isinstance(each, list) else [each])) for each in (request, output) if each]
    command = [client, port, pid, concurrency, seconds, *files]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(done.stderr.strip())
    return json.loads(done.stdout)


class HttpServer(Child):
    """A server that the load client can measure."""
    port = 0

    def measure(self, programs, concurrency, seconds, request, output=None):
        return load(programs / "load_client", self.port, self.process.pid, concurrency, seconds, request, output)


class GrpcServer(Child):
    """A server that the gRPC client can measure."""
    grpc_port = 0

    def measure_grpc(self, programs, concurrency, seconds, request, output=None):
        return load(programs / "grpc_client", self.grpc_port, self.process.pid, concurrency, seconds, request,
                    output)


def port_of(server):
    """That an echo prints."""
    line = server.process.stdout.readline()
    if not line:
        raise BenchError("an echo server ended; its message is above")
    return int(line.removeprefix("listening "))


class Echo(HttpServer):
    def __init__(self, programs):
        super().__init__([programs / "echo_server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.port = port_of(self)

    def request(self, body_bytes, head, tail):
        return on_the_wire(f"/{head}/{tail}", self.port, bytes(body_bytes), {})


class GrpcEcho(GrpcServer):
    def __init__(self, programs):
        super().__init__([programs / "grpc_echo"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.grpc_port = port_of(self)

    @staticmethod
    def request(message_bytes, head, tail):
        return struct.pack("<II", head, tail) + bytes(message_bytes - 8)


class Gradus(HttpServer, GrpcServer):
    def __init__(self, binary, repository, log, words=("--providers", "cpu"), variables=None):
        """`words`: further ones of the command line; `variables`: further ones of its environment."""
        self.log = log
        with log.open("w") as stderr:
            super().__init__([binary, "serve", "--model-repository", repository, *words, "--http-port", 0,
                              "--grpc-port", 0, "--metrics-port", 0],
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
                             env={**os.environ, **(variables or {})})
        try:
            self._wait_ready()
        except BaseException:
            self.__exit__()
            raise

    def _wait_ready(self):
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            log = self.log.read_text(errors="replace")
            found = LISTENING.search(log)
            if found:
                self.port, self.grpc_port = int(found[1]), int(GRPC.search(log)[1])
                if self._ask("GET", "/v2/health/ready").status == 200:
                    return
            time.sleep(0.05)
        raise BenchError(f"the server did not become ready; its log:\n{self.log.read_text()[-4000:]}")

    def _ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=START_LIMIT_S)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            answer.body = answer.read()
            return answer
        finally:
            connection.close()

    def ladder(self, model):
        answer = self._ask("GET", f"/v2/models/{model}/ladder")
        if answer.status != 200:
            raise BenchError(f"{model}'s ladder: status {answer.status}: {answer.body[:1000]!r}")
        return json.loads(answer.body)

    def wait_loaded(self, model):
        """Until no level is being loaded any more; fails if one could not be."""
        deadline = time.monotonic() + START_LIMIT_S
        while time.monotonic() < deadline:
            states = {level["name"]: level["state"] for level in self.ladder(model)["levels"]}
            if "loading" not in states.values():
                break
            time.sleep(0.05)
        if set(states.values()) != {"ready"}:
            raise BenchError(f"{model}'s levels are not ready but {states}")

    def pss_bytes(self):
        """Memory of the server and its workers; what processes share counts once."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return sum(pss_bytes(pid) for pid in [self.process.pid, *children])

    def request(self, workload, **more_headers):
        """(the request on the wire, bytes of its body, bytes of the answer's JSON and of its tensor); see
        `try_request`."""
        body, json_bytes = http_binary_body(workload)
        wire, head, tensor = self.try_request(workload.name, body, json_bytes, **more_headers)
        return wire, len(body), head, len(tensor)

    def try_request(self, model, body, json_bytes, **more_headers):
        """(the request on the wire, bytes of the answer's JSON, the answer's tensor); asks once, and fails
        unless the best level that may answer does. Underscores of headers' names become dashes."""
        path = f"/v2/models/{model}/infer"
        headers = {"Inference-Header-Content-Length": json_bytes,
                   **{name.replace("_", "-"): value for name, value in more_headers.items()}}
        answer = self._ask("POST", path, body, {name: str(value) for name, value in headers.items()})
        if answer.status != 200:
            raise BenchError(f"{model}: status {answer.status}: {answer.body[:1000]!r}")
        head = int(answer.headers["Inference-Header-Content-Length"])
        said = json.loads(answer.body[:head])
        if said["parameters"].get("degraded") is not False and "gradus_min_level" not in more_headers:
            raise BenchError(f"{model}: not answered as it should be: {said['parameters']}")
        return on_the_wire(path, self.port, body, headers), head, answer.body[head:]
