"""Level 0 on a GPU: its answers and its speed beside the CPU levels', and what its loss and want of memory cost.

Uses nothing but Python's own library: the machine with the GPU may have no more. tests/gpu/check.sh runs
it. Exit code 1: something is wrong; 77: the provider cannot be used here, for the reason printed.
"""
import argparse
import array
import concurrent.futures
import contextlib
import http.client
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

LISTENING = re.compile(r"listening on http://127.0.0.1:(\d+)")
LANGUAGES = ("en", "de", "es", "it", "pt", "cs", "pl", "ru")
START_LIMIT_S = 150  # shaders and kernels are compiled
NOT_USABLE = 77
LARGEST_BODY = 1 << 30
CPU_IN_TIME = 1024  # the side of a picture for which a CPU level takes some seconds
# Half precision beside single: logits reach 10, colours 255.
LOGITS_TOLERANCE, COLOUR_TOLERANCE = 0.1, 3.0
SHORT = ("--hold", "1", "--max-hold", "1", "--cooldown", "1", "--breaker", "1", "--restart-backoff", "0.1")


class Wrong(Exception):
    """What a person needs to know of it."""


class NotUsable(Exception):
    """Why the provider cannot run here."""


def poll(what, limit_s, check):
    deadline = time.monotonic() + limit_s
    while True:
        found = check()
        if found:
            return found
        if time.monotonic() > deadline:
            raise Wrong(f"waited {limit_s} s in vain for {what}")
        time.sleep(0.05)


class Server:
    """A running `gradus serve` on a free port."""

    def __init__(self, binary, repository, provider, *flags):
        self._log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [binary, "serve", "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0", "--model-repository",
             repository, "--providers", f"{provider},cpu", *flags], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=self._log)
        self.port = int(poll("the server to listen", 60, self._find_port))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()

    def _find_port(self):
        log = os.pread(self._log.fileno(), 1 << 20, 0).decode(errors="replace")
        if self.process.poll() is not None:
            raise Wrong(f"the server ended:\n{log}")
        found = LISTENING.search(log)
        return found and found[1]

    def ask(self, method, path, body=b"", headers=None, limit_s=150):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=limit_s)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def ladder(self, model):
        status, _, body = self.ask("GET", f"/v2/models/{model}/ladder")
        if status != 200:
            raise Wrong(f"no ladder of {model}: {body[:300]}")
        return json.loads(body)

    def wait_level_0(self, model):
        def settled():
            level = self.ladder(model)["levels"][0]
            return level if level["state"] != "loading" else None
        level = poll(f"level 0 of {model}", START_LIMIT_S, settled)
        if level["state"] != "ready":
            raise NotUsable(f"level 0 of {model} is {level['state']}: {level['reason']}")
        return level

    def infer(self, model, inputs, **parameters):
        """(status, level, the first output's values or the error)."""
        body, header = request_body(inputs, parameters)
        status, headers, answer = self.ask(
            "POST", f"/v2/models/{model}/infer", body,
            {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(header)})
        if status != 200:
            return status, None, answer[:300].decode(errors="replace")
        at = int(headers["Inference-Header-Content-Length"])
        size = json.loads(answer[:at])["outputs"][0]["parameters"]["binary_data_size"]
        return status, int(headers["gradus-level"]), array.array("f", answer[at:at + size])


def request_body(inputs, parameters):
    """(body, bytes of its JSON) for inputs (name, datatype, shape, bytes)."""
    header = json.dumps({
        "inputs": [{"name": name, "datatype": datatype, "shape": shape,
                    "parameters": {"binary_data_size": len(data)}} for name, datatype, shape, data in inputs],
        "parameters": {"binary_data_output": True, **parameters}}).encode()
    return header + b"".join(data for *_, data in inputs), len(header)


def only(level):
    return {"min_level": level, "max_level": level, "timeout": 120_000_000}


def pictures(demo):
    """(inputs, class) of each sample picture; the files are IDX."""
    pixels = (demo / "samples" / "fashion-images.idx3").read_bytes()[16:]
    labels = (demo / "samples" / "fashion-labels.idx1").read_bytes()[8:]
    for i, label in enumerate(labels):
        values = array.array("f", (value / 255 for value in pixels[784 * i:784 * (i + 1)]))
        yield [("image", "FP32", [1, 1, 28, 28], values.tobytes())], label


def sentences(demo):
    for line in (demo / "samples" / "langid-sentences.tsv").read_text(encoding="utf-8").splitlines():
        language, text = line.split("\t")
        tokens = array.array("q", [257, *text.encode()])
        ones = array.array("q", [1] * len(tokens))
        yield [("input_ids", "INT64", [1, len(tokens)], tokens.tobytes()),
               ("attention_mask", "INT64", [1, len(tokens)], ones.tobytes())], LANGUAGES.index(language)


def gradient(size):
    """A made-up picture."""
    values = array.array("f", ((x * 3 + y * 2 + c * 40) % 256 for y in range(size) for x in range(size)
                               for c in range(3)))
    return [("image", "FP32", [1, size, size, 3], values.tobytes())]


def answer_of(server, model, inputs, level):
    status, answered, values = server.infer(model, inputs, **only(level))
    if status != 200 or answered != level:
        raise Wrong(f"level {level} of {model} does not answer: {status}, {values}")
    return values


def class_of(values):
    return max(range(len(values)), key=values.__getitem__)


def compare(server, model, cases, tolerance):
    """Level 0 beside level 1; returns a line for people."""
    worst, right, count = 0, 0, 0
    for inputs, truth in cases:
        gpu, cpu = (answer_of(server, model, inputs, level) for level in (0, 1))
        if len(gpu) != len(cpu):
            raise Wrong(f"{model}: {len(gpu)} values on the GPU, {len(cpu)} on the CPU")
        off = max(abs(a - b) for a, b in zip(gpu, cpu))
        if not off <= tolerance:
            raise Wrong(f"{model}: the GPU is off by {off}, more than {tolerance}")
        worst, count = max(worst, off), count + 1
        if truth is not None:
            right += class_of(gpu) == truth
    known = "" if truth is None else f", {right} of {count} as known"
    if truth is not None and right < 0.85 * count:
        raise Wrong(f"{model}: only {right} of {count} answers are right")
    return f"{model}: {count} answers, off the CPU's by at most {worst:.4g}{known}"


def measure(server, load_client, model, inputs, seconds):
    """Prints latency and throughput of each level that is ready."""
    for level in server.ladder(model)["levels"]:
        if level["state"] != "ready":
            continue
        body, header = request_body(inputs, only(level["level"]))
        with tempfile.NamedTemporaryFile() as request:
            request.write(f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                          f"Content-Type: application/octet-stream\r\nContent-Length: {len(body)}\r\n"
                          f"Inference-Header-Content-Length: {header}\r\n\r\n".encode() + body)
            request.flush()
            figures = []
            for connections in (1, 8):
                done = subprocess.run(
                    [load_client, str(server.port), str(server.process.pid), str(connections), str(seconds),
                     request.name], capture_output=True, text=True, timeout=120, check=False)
                if done.returncode != 0:
                    raise Wrong(f"{model}, level {level['level']}: {done.stderr}")
                figures.append(json.loads(done.stdout))
        lonely, busy = figures
        print(f"  {model:8} level {level['level']} {level['name']:10} {level['provider_used']:24} "
              f"p50 {lonely['p50_us'] / 1000:8.2f} ms  p99 {lonely['p99_us'] / 1000:8.2f} ms  "
              f"8 clients {busy['requests_per_second']:9.1f}/s", flush=True)


class Background:
    """Requests that any level may answer, one after another, until it is told to stop."""

    def __init__(self, server, inputs, truth, pause):
        self.levels, self.bad = {}, []
        self._stop = threading.Event()
        self._pool = concurrent.futures.ThreadPoolExecutor(1)
        self._done = self._pool.submit(self._run, server, inputs, truth, pause)

    def _run(self, server, inputs, truth, pause):
        while not self._stop.is_set():
            status, level, said = server.infer("fashion", inputs, timeout=60_000_000)
            if status != 200:
                self.bad.append(said)
            elif class_of(said) != truth:
                self.bad.append(f"level {level} says class {class_of(said)}, not {truth}")
            else:
                self.levels[level] = self.levels.get(level, 0) + 1
            time.sleep(pause)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._done.result(150)
        self._pool.shutdown()


@contextlib.contextmanager
def little_memory(given, worker):
    """Leaves the device some 64 MiB. CUDA's level has gpu_mem_limit; a software device has its process's memory."""
    if given.software:
        pages = int(Path(f"/proc/{worker}/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + (64 << 20)
        resource.prlimit(worker, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        yield
    elif given.provider.startswith("CUDA"):
        yield
    else:
        with subprocess.Popen([sys.executable, Path(__file__).with_name("fill_memory.py")], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as other:
            try:
                held = other.stdout.readline()
                if not held:
                    raise Wrong(f"the device's memory cannot be filled: {other.stderr.read()}")
                print(f"another process holds {int(held) >> 20} MiB", flush=True)
                yield
            finally:
                other.stdin.close()


def flat(side, colour=100):
    return [("image", "FP32", [1, side, side, 3], (array.array("f", [colour]) * (side * side * 3)).tobytes())]


def is_flat(values, side, colour=100):
    """Of a flat picture's answer: is its middle that too? Edges are shaded."""
    row = values[side * side * 6:side * (side + 1) * 6]
    return len(values) == side * side * 12 and all(abs(v - colour) <= COLOUR_TOLERANCE * 2 for v in row[60:-60])


def refused(server, side, **parameters):
    """What is said of a picture that gets no answer; None: it is answered, rightly."""
    status, level, said = server.infer("upscale", flat(side), timeout=120_000_000, **parameters)
    if status == 200 and not is_flat(said, side):
        raise Wrong(f"level {level} answers a flat picture of {side} x {side} with another")
    if status not in (200, 429, 503):  # 429: its worker was lost, and too little time is left for the next
        raise Wrong(f"a picture of {side} x {side} got {status}: {said}")
    return None if status == 200 else f"{status}: {said}"


def find_too_large(server, sides):
    for side in sides:
        said = refused(server, side, min_level=0, max_level=0)
        if said:
            print(f"a picture of {side} x {side} got {said}", flush=True)
            return side
    raise Wrong(f"level 0 never refused a picture, up to {sides[-1]} x {sides[-1]}")


def moves_down(server, model):
    return sum(move["from"] is not None and (move["to"] is None or move["to"] > move["from"])
               for move in server.ladder(model)["transitions"])


def out_of_memory(server, given, inputs, truth):
    """Pictures that grow until the device has no memory for one; the other model's requests must not notice."""
    classes = ("out_of_memory",) if given.provider.startswith("CUDA") else ("out_of_memory", "died")
    worker = server.ladder("fashion")["levels"][0]["worker"]
    if worker["class"] is not None:
        raise Wrong(f"the worker was lost before: {worker['last_fault']}")
    before = moves_down(server, "fashion")
    small = gradient(32)
    right = answer_of(server, "upscale", small, 0)
    sides = [side for side in (512, 1024, 2048, 4096, 8192) if side * side * 12 < LARGEST_BODY]
    with Background(server, inputs, truth, 0.5 if given.software else 0.01) as load:
        with little_memory(given, worker["pid"]):
            side = find_too_large(server, sides)
            if side <= CPU_IN_TIME:
                said = refused(server, side)
                if said:
                    raise Wrong(f"no other level took the picture of {side} x {side}: {said}")
                print("  without a bound on the level it is answered", flush=True)
            worker = server.ladder("fashion")["levels"][0]["worker"]
            for _ in range(5):  # three in a row are the level's fault
                if worker["class"] is not None:
                    break
                refused(server, side, min_level=0, max_level=0)
                worker = server.ladder("fashion")["levels"][0]["worker"]
        if worker["class"] not in classes:
            raise Wrong(f"the worker's class is {worker['class']}, not {' or '.join(classes)}: {worker['last_fault']}")
        for model in ("fashion", "upscale"):
            poll(f"level 0 of {model} to be current again", START_LIMIT_S,
                 lambda model=model: server.ladder(model)["current_level"] == 0)
        if class_of(answer_of(server, "fashion", inputs, 0)) != truth:
            raise Wrong("level 0 of fashion is wrong once it is back")
        off = max(abs(a - b) for a, b in zip(right, answer_of(server, "upscale", small, 0)))
        if off > COLOUR_TOLERANCE:
            raise Wrong(f"level 0 of upscale is off by {off} once it is back")
    if load.bad:
        raise Wrong(f"a request that is too large cost others theirs: {load.bad[:3]}")
    if moves_down(server, "fashion") - before > 1:
        raise Wrong(f"fashion moved down more than once: {server.ladder('fashion')['transitions']}")
    print(f"  class {worker['class']}: {worker['last_fault']}\n  meanwhile {load.levels} answers by level, all right; "
          f"both levels are back, and right", flush=True)


def run_drill(binary, *flags):
    print(f"drill {' '.join(flags)}", flush=True)
    done = subprocess.run([binary, "drill", "--model", "fashion", *SHORT, *flags], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=200, check=False)
    print(done.stdout, end="", flush=True)
    if done.returncode != 0:
        raise Wrong(f"the drill ended with {done.returncode}: {done.stderr}")


def lay_out(folder, given, models, target_ms):
    """The demo's models with every level kept; level 0 is small in memory where that can be said.
    A run's limit is ten times the target; a software device needs more than what is usual."""
    gpu = {"keep": "always", "allow_software_gpu": given.software}
    if given.software:  # each size of batch would be compiled for each of the workers
        gpu.update(target_p99_ms=target_ms, max_batch_size=1)
    if given.provider.startswith("CUDA"):
        gpu["providers"] = [{"CUDAExecutionProvider": {"gpu_mem_limit": "536870912"}}]
    kept = {name: {"keep": "always"} for name in ("cpu", "cpu-int8", "cpu-small")}
    for model in models:
        # Between pictures that find no memory a probe finds some: then they are not in a row.
        probe, hold = (5000, 5000) if model == "upscale" else (100, 1000)
        policy = {"hold_ms": hold, "hold_cap_ms": hold, "probe_every_ms": probe, "cooldown_ms": 1000,
                  "breaker_open_ms": 1000, "canary_stage_min_ms": 0}
        (folder / model).mkdir(parents=True)
        (folder / model / "1").symlink_to(given.demo.resolve() / "models" / model / "1")
        # JSON is YAML too.
        (folder / model / "gradus.yaml").write_text(
            json.dumps({"default_levels": {"gpu": gpu, **kept}, "policy": policy}))
    return folder


def known_by_all(server, cases):
    """The first picture that every level knows."""
    levels = [level["level"] for level in server.ladder("fashion")["levels"] if level["state"] == "ready"]
    for inputs, truth in cases:
        if all(class_of(answer_of(server, "fashion", inputs, level)) == truth for level in levels):
            return inputs, truth
    raise Wrong("there is no picture that every level knows")


def check(given, folder):
    names = ("fashion", "langid", "upscale")
    models = lay_out(folder / "served", given, names, 20000)
    some = list(pictures(given.demo))[:20 if given.software else 200]
    with Server(given.binary, models, given.provider, "--http-max-input-size", str(LARGEST_BODY)) as server:
        used = {server.wait_level_0(model)["provider_used"] for model in names}
        if used != {given.provider}:
            raise Wrong(f"level 0 runs on {used}")
        print(compare(server, "fashion", some, LOGITS_TOLERANCE))
        print(compare(server, "langid", list(sentences(given.demo))[::4 if given.software else 1], LOGITS_TOLERANCE))
        print(compare(server, "upscale", [(gradient(32 if given.software else 128), None)], COLOUR_TOLERANCE))
        seconds = 0.5 if given.software else 2
        measure(server, given.load_client, "fashion", some[0][0], seconds)
        if not given.software:
            measure(server, given.load_client, "upscale", gradient(64), seconds)
        out_of_memory(server, given, *known_by_all(server, some))
    run_drill(given.binary, "--model-repository", str(lay_out(folder / "drilled", given, ("fashion",), 300)),
              "--provider", given.provider, "--fault", "kill,stop", "--trials", "1" if given.software else "5")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--binary", "--load-client", "--provider"):
        parser.add_argument(name, required=True)
    parser.add_argument("--demo", type=Path, required=True)
    parser.add_argument("--software", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            check(given, Path(folder))
        except NotUsable as reason:
            print(f"not usable here: {reason}")
            return NOT_USABLE
        except Wrong as what:
            print(f"WRONG: {what}", file=sys.stderr)
            return 1
    return 0


sys.exit(main())
