"""The server against what it is made of: ONNX Runtime alone, the HTTP stack alone, and both together
take turns."""
import contextlib

import report
from contenders import Echo, Gradus, Raw
from workloads import WORKLOADS, BenchError, lay_out

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


def measure(build, output, rounds, seconds, cells, progress):
    """{(model, concurrency): [(raw, echo, http) for each round]}."""
    programs, work, repository = build / "bench", output / "work", output / "models"
    workloads = list(dict.fromkeys(workload for workload, _ in cells))
    lay_out(workloads, repository)
    work.mkdir(parents=True, exist_ok=True)
    measured = {(workload.name, concurrency): [] for workload, concurrency in cells}
    with contextlib.ExitStack() as running:
        raws = {w: running.enter_context(Raw(programs, w, work)) for w in workloads}
        echo = running.enter_context(Echo(programs))
        gradus = running.enter_context(Gradus(build / "gradus", repository, work / "gradus.log"))
        requests = {}
        for workload in workloads:
            requests[workload] = (work / f"{workload.name}.echo", work / f"{workload.name}.http_binary")
            wire, body, head, tail = gradus.request(workload)
            requests[workload][0].write_bytes(echo.request(body, head, tail))
            requests[workload][1].write_bytes(wire)
        for number in range(1, rounds + 1):
            for workload, concurrency in cells:
                progress(f"round {number} of {rounds}", f"{workload.name}, {concurrency} at once")
                time, raw = seconds * workload.time, raws[workload]
                echo_request, http_request = requests[workload]
                try:
                    measured[workload.name, concurrency].append((
                        raw.measure(concurrency, time),
                        echo.measure(programs, concurrency, time, echo_request),
                        gradus.measure(programs, concurrency, time, http_request, raw.output)))
                except BenchError as error:
                    raise BenchError(f"{workload.name}, {concurrency} at once: {error}") from error
    return measured


def rows_of(measured):
    return report.rows_of(measured)


def table(measured, rows):
    return report.table(rows, measured.keys())
