"""The plain ONNX Runtime script against the server, on the same CPUs: requests a second, p99 and memory,
with the full model, with the INT8 one, and with a whole ladder that chooses by itself."""
import contextlib
import os
import shutil
import subprocess

from contenders import Gradus, HttpServer, Raw, pss_bytes
from models import seeded
from report import RATE, RATIO, TIME, aligned, row_of, spread
from workloads import (DEMO_MODELS, FETCHED, ROOT, BenchError, demo_workload, on_the_wire, picked,
                       seeded_workload)

ROUNDS, SECONDS = 5, 3.0
QUICK = 1, 0.3
CONCURRENCY = 8
PYTHON = FETCHED / "venv" / "bin" / "python"
ADVICE = (f"{PYTHON} has no onnxruntime; make it so:\n  python3 -m venv {FETCHED}/venv\n"
          f"  {FETCHED}/venv/bin/pip install onnxruntime==1.31.1")
FILES = ("model.onnx", "model.int8.onnx", "model.small.onnx")
NAIVE = {"naive": 0, "naive-1": 1}  # threads of a run; 0: ONNX Runtime's default, all CPUs
# What may answer on each side.
SERVED = {"fp32": FILES[:1], "int8": FILES[1:2], "small": FILES[2:], "ladder": FILES}
NAMES = {"model.onnx": "cpu", "model.int8.onnx": "cpu-int8", "model.small.onnx": "cpu-small"}
EXACT = ("naive", "naive-1", "fp32")  # sides whose answers must be ONNX Runtime's own
PUBLISHED = "claimed elsewhere for a ladder against such a script: 3.1 x the rate, 3 x the p99, 57 % memory"


def chosen(only):
    return picked(only, ["upscale", "fashion", "resnet50"])


def workload_of(name):
    """(workload, {file of the ladder: where it is})"""
    if name == "resnet50":
        return (seeded_workload(name, (1, 3, 224, 224)),
                {"model.onnx": seeded.file("resnet50"), "model.int8.onnx": seeded.file("resnet50-int8")})
    shape = {"upscale": (1, 128, 128, 3), "fashion": (1, 1, 28, 28)}[name]
    return demo_workload(name, "image", shape), {file: DEMO_MODELS / name / "1" / file for file in FILES}


class Naive(HttpServer):
    def __init__(self, workload, threads):
        super().__init__([PYTHON, ROOT / "bench" / "naive_server.py", workload.file,
                          "x".join(map(str, workload.shape)), threads],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         env={**os.environ, "PYTHONNOUSERSITE": "1"})
        line = self.process.stdout.readline()
        if not line:
            raise BenchError(f"naive_server.py ended; its message is above. {ADVICE}")
        self.port = int(line.removeprefix("listening "))

    def request(self, workload):
        return [on_the_wire("/", self.port, workload.input_bytes(), {})]

    def pss_bytes(self):
        return pss_bytes(self.process.pid)


def config_of(files):
    """All levels that have a file, however busy the machine is while they load."""
    batch = {"model.onnx": 8}  # the default ladder's
    return "levels:\n" + "".join(
        f"  - {{level: {FILES.index(file) + 1}, name: {NAMES[file]}, file: {file}, providers: [cpu], "
        f"keep: always, max_batch_size: {batch.get(file, 1)}, "
        f"target_p99_ms: {(800, 500, 200)[FILES.index(file)]}}}\n" for file in files)


def lay_out(repository, workload, files):
    """`files`: {file of the ladder: where it is}"""
    shutil.rmtree(repository, ignore_errors=True)
    version = repository / workload.name / "1"
    version.mkdir(parents=True)
    for file, source in files.items():
        shutil.copyfile(source, version / file)
    (version.parent / "gradus.yaml").write_text(config_of(files))


def start(running, build, output, workload, files):
    """{side: server}, each with a process of its own; a side without a file is left out."""
    servers = {side: running.enter_context(Naive(workload, threads)) for side, threads in NAIVE.items()}
    for side, wanted in SERVED.items():
        present = {file: files[file] for file in wanted if file in files}
        if present:
            name = f"headline-{workload.name}-{side}"
            lay_out(output / name, workload, present)
            servers[side] = running.enter_context(
                Gradus(build / "gradus", output / name, output / "work" / f"{name}.log"))
            servers[side].wait_loaded(workload.name)
    return servers


def measure(build, output, rounds, seconds, names, progress):
    """{model: [{side: what the load client says, and `pss_bytes`} of each round]}"""
    if not PYTHON.is_file():
        raise BenchError(ADVICE)
    programs, work = build / "bench", output / "work"
    work.mkdir(parents=True, exist_ok=True)
    measured = {name: [] for name in names}
    for name in names:
        workload, files = workload_of(name)
        with contextlib.ExitStack() as running:
            raw = running.enter_context(Raw(programs, workload, work))
            servers = start(running, build, output, workload, files)
            requests = {side: work / f"{name}.{side}" for side in servers}
            for side, server in servers.items():
                requests[side].write_bytes(server.request(workload)[0])
            for number in range(1, rounds + 1):
                progress(f"headline, {name}, round {number} of {rounds}", "")
                one = {}
                for side in list(servers) if number % 2 else reversed(list(servers)):
                    try:
                        said = servers[side].measure(programs, CONCURRENCY, seconds, requests[side],
                                                     raw.output if side in EXACT else None)
                    except BenchError as error:
                        raise BenchError(f"headline, {name}, {side}: {error}") from error
                    one[side] = {**said, "pss_bytes": servers[side].pss_bytes()}
                measured[name].append(one)
    return measured


def rows_of(measured):
    """Times as in "3 x": how much better than the naive one; memory as a share of the naive one's."""
    rows = []
    for name, rounds in measured.items():
        def add(key, figure, unit, rounds=rounds, name=name):
            rows.append(row_of(f"headline/{name}/{key}", [figure(one) for one in rounds], unit))

        for side in rounds[0]:
            for key, unit in (("requests_per_second", RATE), ("p50_us", TIME), ("p99_us", TIME),
                              ("pss_bytes", "bytes")):
                add(f"{side}/{key}", lambda one, side=side, key=key: one[side][key], unit)
            for base in NAIVE:
                if side not in NAIVE:
                    add(f"{side}/rate_to_{base}", lambda one, side=side, base=base:
                        one[side]["requests_per_second"] / one[base]["requests_per_second"], RATIO)
                    add(f"{side}/p99_of_{base}_to_it", lambda one, side=side, base=base:
                        one[base]["p99_us"] / one[side]["p99_us"], RATIO)
                    add(f"{side}/memory_to_{base}", lambda one, side=side, base=base:
                        one[side]["pss_bytes"] / one[base]["pss_bytes"], RATIO)
    return rows


def answered_by(rounds, side):
    """The levels that answered, as shares in percent."""
    counts = {}
    for one in rounds:
        for level, count in one[side]["levels"].items():
            counts[level] = counts.get(level, 0) + count
    whole = sum(counts.values())
    return " ".join(f"{level}:{100 * count / whole:.0f}%" for level, count in sorted(counts.items()))


def table(measured, rows):
    found = {row["name"]: row for row in rows}
    lines = [("model", "side", "levels", "requests/s (min-max)", "p50 ms", "p99 ms", "PSS MB", "x rate (min-max)",
              "x p99", "memory", "x rate-1", "x p99-1")]
    for name, rounds in measured.items():
        for side in rounds[0]:
            def row(key, at=f"headline/{name}/{side}"):
                return found[f"{at}/{key}"]

            lines.append((
                name, side, "" if side in NAIVE else answered_by(rounds, side),
                spread(row("requests_per_second"), 1), f"{row('p50_us')['value'] / 1000:.1f}",
                f"{row('p99_us')['value'] / 1000:.1f}", f"{row('pss_bytes')['value'] / 1e6:.0f}",
                *(("",) * 5 if side in NAIVE else
                  (spread(row("rate_to_naive"), 2), f"{row('p99_of_naive_to_it')['value']:.2f}",
                   f"{100 * row('memory_to_naive')['value']:.0f}%", f"{row('rate_to_naive-1')['value']:.2f}",
                   f"{row('p99_of_naive-1_to_it')['value']:.2f}"))))
    return "\n".join([*aligned(lines),
                      f"{CONCURRENCY} at once. naive: a run on all CPUs (ONNX Runtime's default); naive-1: on one, "
                      "which the last two columns compare with", PUBLISHED])
