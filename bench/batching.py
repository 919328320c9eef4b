"""What joining requests gains where it can, and costs where it can't: two servers, one with
max_batch_size 32 and one with 1, take turns."""
import contextlib

from contenders import Gradus, Raw
from report import RATE, RATIO, TIME, aligned, row_of, spread
from workloads import WORKLOADS, BenchError, lay_out, picked, seeded_workload

ROUNDS, SECONDS = 5, 1.0
QUICK = 1, 0.1
CONCURRENCY = 32
SIDES = {"joined": 32, "unjoined": 1}  # max_batch_size
CONFIG = "levels:\n  - {name: cpu, file: model.onnx, providers: [cpu], max_batch_size: %d}\n"


def chosen(only):
    return picked(only, ["tiny", "decoder", "1ms", "16ms"])


def workloads(names):
    known = {workload.name: workload for workload in WORKLOADS}
    if "decoder" in names:
        known["decoder"] = seeded_workload("decoder", (1, 512))
    return [known[name] for name in names]


def measure(build, output, rounds, seconds, names, progress):
    """{model: [{"joined": …, "unjoined": …} of each round]}, as the load client says."""
    programs, work = build / "bench", output / "work"
    work.mkdir(parents=True, exist_ok=True)
    models = workloads(names)
    measured = {workload.name: [] for workload in models}
    with contextlib.ExitStack() as running:
        raws = {w: running.enter_context(Raw(programs, w, work)) for w in models}
        servers, requests = {}, {}
        for side, size in SIDES.items():
            repository = output / f"batching-{side}"
            lay_out(models, repository)
            for workload in models:
                (repository / workload.name / "gradus.yaml").write_text(CONFIG % size)
            servers[side] = running.enter_context(
                Gradus(build / "gradus", repository, work / f"batching-{side}.log"))
            for workload in models:
                servers[side].wait_loaded(workload.name)
                requests[side, workload] = work / f"{workload.name}.{side}"
                requests[side, workload].write_bytes(servers[side].request(workload)[0])
        for number in range(1, rounds + 1):
            for workload in models:
                progress(f"batching, round {number} of {rounds}", workload.name)
                order = list(SIDES) if number % 2 else list(reversed(SIDES))
                try:
                    measured[workload.name].append({
                        side: servers[side].measure(programs, CONCURRENCY, seconds * workload.time,
                                                    requests[side, workload], raws[workload].output)
                        for side in order})
                except BenchError as error:
                    raise BenchError(f"batching, {workload.name}: {error}") from error
    return measured


def rows_of(measured):
    rows = []
    for model, rounds in measured.items():
        def of_rounds(figure, rounds=rounds):
            return [figure(one["joined"], one["unjoined"]) for one in rounds]

        name = f"batching/{model}/c{CONCURRENCY}"
        for at, side in enumerate(SIDES):
            for key, unit in (("requests_per_second", RATE), ("p50_us", TIME), ("p99_us", TIME),
                              ("server_cpu_us", TIME)):
                rows.append(row_of(f"{name}/{side}/{key}",
                                   of_rounds(lambda *both, at=at, key=key: both[at][key]), unit))
        rows.append(row_of(f"{name}/ratio",
                           of_rounds(lambda a, b: a["requests_per_second"] / b["requests_per_second"]), RATIO))
        rows.append(row_of(f"{name}/p99_ratio", of_rounds(lambda a, b: a["p99_us"] / b["p99_us"]), RATIO))
    return rows


def table(measured, rows):
    found = {row["name"]: row for row in rows}
    lines = [("model", "joined/s", "unjoined/s", "ratio (min-max)", "p99 ratio (min-max)", "p99 ms",
              "unjoined p99 ms")]
    for model in measured:
        def row(name, model=model):
            return found[f"batching/{model}/c{CONCURRENCY}/{name}"]

        lines.append((model, *(f"{row(f'{side}/requests_per_second')['value']:.0f}" for side in SIDES),
                      spread(row("ratio"), 3), spread(row("p99_ratio"), 2),
                      *(f"{row(f'{side}/p99_us')['value'] / 1000:.1f}" for side in SIDES)))
    return "\n".join(aligned(lines))
