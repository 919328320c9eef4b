"""What joining texts of unequal lengths gains: the demo's `langid` under a mix of lengths, from two
servers, one that pads requests to run together and one that runs each alone. They take turns."""
import contextlib
import shutil
import struct

from contenders import Gradus
from report import RATE, RATIO, TIME, aligned, row_of, spread
from workloads import DEMO_MODELS, ROOT, BenchError, binary_body, picked

ROUNDS, SECONDS = 5, 3.0
QUICK = 1, 0.3
CONCURRENCIES = (8, 32)
TEXTS = 64
SIDES = {"joined": 16, "unjoined": 1}  # max_batch_size
CONFIG = """\
levels:
  - {name: cpu, file: model.onnx, providers: [cpu], max_batch_size: %d, max_padding_waste: 0.25}
"""


def chosen(only):
    return picked(only, [f"c{concurrency}" for concurrency in CONCURRENCIES])


def lengths():
    """Tokens of each text: evenly from 3 to 128, and neighbours in the order of sending far apart."""
    even = [round(3 + i * 125 / (TEXTS - 1)) for i in range(TEXTS)]
    return [even[i * 27 % TEXTS] for i in range(TEXTS)]


def bodies():
    """(body, bytes of its JSON header) of a request for each text."""
    lines = (ROOT / "demo" / "samples" / "langid-sentences.tsv").read_text(encoding="utf-8").splitlines()
    prose = " ".join(line.split("\t")[1] for line in lines).encode()
    for start, length in enumerate(lengths()):
        tokens = [257, *prose[start:start + length - 1]]
        shape, datatype = (1, length), "INT64"
        yield binary_body([("input_ids", shape, datatype, struct.pack(f"<{length}q", *tokens)),
                           ("attention_mask", shape, datatype, struct.pack(f"<{length}q", *[1] * length))])


def lay_out(repository, size):
    shutil.rmtree(repository, ignore_errors=True)
    version = repository / "langid" / "1"
    version.mkdir(parents=True)
    shutil.copyfile(DEMO_MODELS / "langid" / "1" / "model.onnx", version / "model.onnx")
    (version.parent / "gradus.yaml").write_text(CONFIG % size)


def measure(build, output, rounds, seconds, names, progress):
    """{"c8": [{"joined": …, "unjoined": …} of each round], …}, as the load client says, with the
    requests of an execution as `batch`. What is right, says the server that runs each alone."""
    work = output / "work"
    work.mkdir(parents=True, exist_ok=True)
    measured = {name: [] for name in names}
    with contextlib.ExitStack() as running:
        servers, requests, answers = {}, {}, []
        for side, size in SIDES.items():
            lay_out(output / f"padding-{side}", size)
            server = running.enter_context(
                Gradus(build / "gradus", output / f"padding-{side}", work / f"padding-{side}.log"))
            server.wait_loaded("langid")
            servers[side], requests[side] = server, []
            for number, (body, json_bytes) in enumerate(bodies()):
                wire, _, tensor = server.try_request("langid", body, json_bytes)
                file = work / f"langid-{number}"
                requests[side].append(file.with_suffix(f".{side}"))
                requests[side][-1].write_bytes(wire)
                if side == "unjoined":
                    answers.append(file.with_suffix(".output"))
                    answers[-1].write_bytes(tensor)
        for number in range(1, rounds + 1):
            for name in names:
                progress(f"padding, round {number} of {rounds}", name)
                order = list(SIDES) if number % 2 else list(reversed(SIDES))
                one = {}
                for side in order:
                    before = servers[side].ladder("langid")["levels"][0]["served"]
                    try:
                        said = servers[side].measure(build / "bench", int(name[1:]), seconds, requests[side],
                                                     answers)
                    except BenchError as error:
                        raise BenchError(f"padding, {side}, {name}: {error}") from error
                    executions = servers[side].ladder("langid")["levels"][0]["served"] - before
                    one[side] = {**said, "batch": said["sent"] / executions}
                measured[name].append(one)
    return measured


def rows_of(measured):
    rows = []
    for name, rounds in measured.items():
        for side in SIDES:
            for key, unit in (("requests_per_second", RATE), ("p50_us", TIME), ("p99_us", TIME),
                              ("server_cpu_us", TIME), ("batch", "requests")):
                rows.append(row_of(f"padding/langid/{name}/{side}/{key}",
                                   [one[side][key] for one in rounds], unit))
        for key, figure in (("ratio", "requests_per_second"), ("p99_ratio", "p99_us")):
            rows.append(row_of(f"padding/langid/{name}/{key}",
                               [one["joined"][figure] / one["unjoined"][figure] for one in rounds], RATIO))
    return rows


def table(measured, rows):
    found = {row["name"]: row for row in rows}
    lines = [("at once", "side", "requests/s (min-max)", "p50 ms", "p99 ms (min-max)", "CPU us", "a run has")]
    text = []
    for name in measured:
        def row(key, name=name):
            return found[f"padding/langid/{name}/{key}"]

        for side in SIDES:
            p99 = {key: row(f"{side}/p99_us")[key] / 1000 for key in ("value", "min", "max")}
            lines.append((name[1:], side, spread(row(f"{side}/requests_per_second")),
                          f"{row(f'{side}/p50_us')['value'] / 1000:.2f}", spread(p99, 2),
                          f"{row(f'{side}/server_cpu_us')['value']:.0f}", f"{row(f'{side}/batch')['value']:.1f}"))
        text.append(f"{name[1:]} at once, joined to unjoined: {spread(row('ratio'), 3)} of the requests/s, "
                    f"{spread(row('p99_ratio'), 2)} of the p99")
    return "\n".join(aligned(lines) + text)
