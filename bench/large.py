"""What large tensors cost over HTTP and over gRPC: a model that copies its input, one request at a time."""
import contextlib

from contenders import Gradus
from report import RATE, RATIO, TIME, aligned, row_of, spread
from workloads import copied_workload, grpc_message, lay_out, picked

ROUNDS, SECONDS = 5, 2.0
QUICK = 1, 0.1
FLOATS = {"6MB": 1_500_000, "64MB": 16_000_000}  # of the tensor, there and back
FIGURES = {"requests_per_second": RATE, "p50_us": TIME, "p99_us": TIME, "server_cpu_us": TIME, "client_cpu_us": TIME}


def chosen(only):
    return picked(only, list(FLOATS))


def measure(build, output, rounds, seconds, names, progress):
    """{"6MB": [{"http_binary": …, "grpc": …} of each round], …}, as the load clients say."""
    programs, work, repository = build / "bench", output / "work", output / "large"
    work.mkdir(parents=True, exist_ok=True)
    workloads = {name: copied_workload(name, FLOATS[name]) for name in names}
    lay_out(list(workloads.values()), repository)
    measured = {name: [] for name in names}
    with contextlib.ExitStack() as running:
        gradus = running.enter_context(Gradus(build / "gradus", repository, work / "large.log"))
        files = {}
        for name, one in workloads.items():
            files[name] = {part: work / f"{name}.{part}" for part in ("http_binary", "grpc", "output")}
            files[name]["http_binary"].write_bytes(gradus.request(one)[0])
            files[name]["grpc"].write_bytes(grpc_message(one))
            files[name]["output"].write_bytes(one.input_bytes())
        for number in range(1, rounds + 1):
            for name in names:
                progress(f"round {number} of {rounds}", name)
                wire, message, right = files[name].values()
                measured[name].append({
                    "http_binary": gradus.measure(programs, 1, seconds, wire, right),
                    "grpc": gradus.measure_grpc(programs, 1, seconds, message, right)})
    return measured


def rows_of(measured):
    rows = []
    for name, rounds in measured.items():
        for side in ("http_binary", "grpc"):
            for figure, unit in FIGURES.items():
                rows.append(row_of(f"large/{name}/{side}/{figure}", [one[side][figure] for one in rounds], unit))
        for figure, row in (("p50_us", "p50_to_http"), ("server_cpu_us", "server_cpu_to_http")):
            ratios = [one["grpc"][figure] / one["http_binary"][figure] for one in rounds]
            rows.append(row_of(f"large/{name}/grpc/{row}", ratios, RATIO))
    return rows


def table(measured, rows):
    found = {row["name"]: row for row in rows}
    lines = [("tensor", "over", "requests/s", "p50 us", "server CPU us", "client CPU us", "p50 to HTTP", "CPU to HTTP")]
    for name in measured:
        for side in ("http_binary", "grpc"):
            times = [spread(found[f"large/{name}/{side}/{figure}"])
                     for figure in ("requests_per_second", "p50_us", "server_cpu_us", "client_cpu_us")]
            ratios = [spread(found[f"large/{name}/grpc/{row}"], 2) if side == "grpc" else ""
                      for row in ("p50_to_http", "server_cpu_to_http")]
            lines.append((name, side.removesuffix("_binary"), *times, *ratios))
    return "\n".join(aligned(lines))
