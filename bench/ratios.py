"""The server against what it is made of: ONNX Runtime alone, HTTP or gRPC alone, and both together take
turns."""
import contextlib

import report
from contenders import Echo, Gradus, GrpcEcho, Raw
from workloads import WORKLOADS, BenchError, copied_workload, grpc_message, lay_out, picked_cells

CONCURRENCIES = (1, 2, 8, 32)
ROUNDS, SECONDS = 5, 1.0
QUICK = 1, 0.05
FLOATS = {"600KB": 150_000}  # of a tensor that is copied, one at a time
CELLS = [(workload.name, f"c{concurrency}") for workload in WORKLOADS for concurrency in CONCURRENCIES]
CELLS += [(name, "c1") for name in FLOATS]


def chosen(only):
    """[(model, concurrency)] that --only leaves, in order."""
    return [(model, int(part.removeprefix("c"))) for model, part in picked_cells(only, CELLS)]


def workload_of(model):
    if model in FLOATS:
        return copied_workload(model, FLOATS[model])
    return next(workload for workload in WORKLOADS if workload.name == model)


def requests_of(workload, servers, programs, work, output):
    """{contender: file of its request}."""
    echo, grpc_echo, gradus = servers
    files = {name: work / f"{workload.name}.{name}" for name in ("echo", "http_binary", "grpc_echo", "grpc")}
    wire, body, head, tail = gradus.request(workload)
    files["http_binary"].write_bytes(wire)
    files["echo"].write_bytes(echo.request(body, head, tail))
    message = grpc_message(workload)
    files["grpc"].write_bytes(message)
    answer = gradus.measure_grpc(programs, 1, 1e-4, files["grpc"], output)["body_bytes"]
    files["grpc_echo"].write_bytes(grpc_echo.request(len(message), answer - tail, tail))
    return files


def measure(build, output, rounds, seconds, cells, progress):
    """{(model, concurrency): [{contender: what it did} for each round]}."""
    programs, work, repository = build / "bench", output / "work", output / "models"
    known = {model: workload_of(model) for model, _ in cells}
    workloads = list(known.values())
    lay_out(workloads, repository)
    work.mkdir(parents=True, exist_ok=True)
    measured = {cell: [] for cell in cells}
    with contextlib.ExitStack() as running:
        raws = {w: running.enter_context(Raw(programs, w, work)) for w in workloads}
        echo, grpc_echo, gradus = servers = [running.enter_context(server) for server in (
            Echo(programs), GrpcEcho(programs), Gradus(build / "gradus", repository, work / "gradus.log"))]
        requests = {w: requests_of(w, servers, programs, work, raws[w].output) for w in workloads}
        for number in range(1, rounds + 1):
            for model, concurrency in cells:
                workload = known[model]
                progress(f"round {number} of {rounds}", f"{model}, {concurrency} at once")
                raw, files = raws[workload], requests[workload]
                how = programs, concurrency, seconds * workload.time
                try:
                    # In this order, so that each is next to what it is compared with.
                    measured[model, concurrency].append({
                        "echo": echo.measure(*how, files["echo"]),
                        "http_binary": gradus.measure(*how, files["http_binary"], raw.output),
                        "raw": raw.measure(concurrency, seconds * workload.time),
                        "grpc": gradus.measure_grpc(*how, files["grpc"], raw.output),
                        "grpc_echo": grpc_echo.measure_grpc(*how, files["grpc_echo"])})
                except BenchError as error:
                    raise BenchError(f"{model}, {concurrency} at once: {error}") from error
    return measured


def rows_of(measured):
    return report.rows_of(measured)


def table(measured, rows):
    return report.table(rows, measured.keys())
