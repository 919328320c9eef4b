"""The server against what it is made of: ONNX Runtime alone, HTTP or gRPC alone, and both together take
turns."""
import contextlib

import report
from contenders import Echo, Gradus, GrpcEcho, Raw
from workloads import WORKLOADS, BenchError, grpc_message, lay_out

CONCURRENCIES = (1, 2, 8, 32)
ROUNDS, SECONDS = 5, 1.0
QUICK = 1, 0.05


def chosen(only):
    """[(workload, concurrency)] that --only leaves, in order."""
    cells = [(workload, concurrency) for workload in WORKLOADS for concurrency in CONCURRENCIES]
    wanted = [word for word in only.split(",") if word]
    names = {f"{w.name}/c{c}" for w, c in cells} | {w.name for w in WORKLOADS}
    for word in wanted:
        if word not in names:
            raise BenchError(f"--only {word}: known are {', '.join(sorted(names))}")
    return [(workload, concurrency) for workload, concurrency in cells
            if not wanted or workload.name in wanted or f"{workload.name}/c{concurrency}" in wanted]


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
    workloads = list(dict.fromkeys(workload for workload, _ in cells))
    lay_out(workloads, repository)
    work.mkdir(parents=True, exist_ok=True)
    measured = {(workload.name, concurrency): [] for workload, concurrency in cells}
    with contextlib.ExitStack() as running:
        raws = {w: running.enter_context(Raw(programs, w, work)) for w in workloads}
        echo, grpc_echo, gradus = servers = [running.enter_context(server) for server in (
            Echo(programs), GrpcEcho(programs), Gradus(build / "gradus", repository, work / "gradus.log"))]
        requests = {w: requests_of(w, servers, programs, work, raws[w].output) for w in workloads}
        for number in range(1, rounds + 1):
            for workload, concurrency in cells:
                progress(f"round {number} of {rounds}", f"{workload.name}, {concurrency} at once")
                raw, files = raws[workload], requests[workload]
                how = programs, concurrency, seconds * workload.time
                try:
                    # In this order, so that each is next to what it is compared with.
                    measured[workload.name, concurrency].append({
                        "echo": echo.measure(*how, files["echo"]),
                        "http_binary": gradus.measure(*how, files["http_binary"], raw.output),
                        "raw": raw.measure(concurrency, seconds * workload.time),
                        "grpc": gradus.measure_grpc(*how, files["grpc"], raw.output),
                        "grpc_echo": grpc_echo.measure_grpc(*how, files["grpc_echo"])})
                except BenchError as error:
                    raise BenchError(f"{workload.name}, {concurrency} at once: {error}") from error
    return measured


def rows_of(measured):
    return report.rows_of(measured)


def table(measured, rows):
    return report.table(rows, measured.keys())
