"""What joining requests gains where it can, and costs where it can't: three servers take turns, one with
max_batch_size 1, one with 32, and one that also halves it when a run misses the target (adaptive_batch)."""
import contextlib

from contenders import Gradus, Raw
from report import RATE, RATIO, TIME, aligned, row_of, spread
from workloads import WORKLOADS, BenchError, lay_out, picked, seeded_workload

ROUNDS, SECONDS = 5, 1.0
QUICK = 1, 0.1
CONCURRENCY = 32
TARGET_MS = 8  # what a large batch of `decoder` misses; only `adaptive` heeds it, as there is no level below
SIDES = {"unjoined": "max_batch_size: 1", "joined": "max_batch_size: 32",  # neighbours are compared
         "adaptive": "max_batch_size: 32, adaptive_batch: true"}
CONFIG = f"levels:\n  - {{name: cpu, file: model.onnx, providers: [cpu], target_p99_ms: {TARGET_MS}, %s}}\n"
RATIOS = (("ratio", "joined", "unjoined", "requests_per_second"), ("p99_ratio", "joined", "unjoined", "p99_us"),
          ("adaptive/ratio_to_joined", "adaptive", "joined", "requests_per_second"),
          ("adaptive/p99_ratio_to_joined", "adaptive", "joined", "p99_us"))


def chosen(only):
    return picked(only, ["tiny", "decoder", "1ms", "16ms"])


def workloads(names):
    known = {workload.name: workload for workload in WORKLOADS}
    if "decoder" in names:
        known["decoder"] = seeded_workload("decoder", (1, 512))
    return [known[name] for name in names]


def measure(build, output, rounds, seconds, names, progress):
    """{model: [{"joined": …, "unjoined": …, "adaptive": …} of each round]}, as the load client says."""
    programs, work = build / "bench", output / "work"
    work.mkdir(parents=True, exist_ok=True)
    models = workloads(names)
    measured = {workload.name: [] for workload in models}
    with contextlib.ExitStack() as running:
        raws = {w: running.enter_context(Raw(programs, w, work)) for w in models}
        servers, requests = {}, {}
        for side, settings in SIDES.items():
            repository = output / f"batching-{side}"
            lay_out(models, repository)
            for workload in models:
                (repository / workload.name / "gradus.yaml").write_text(CONFIG % settings)
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
        name = f"batching/{model}/c{CONCURRENCY}"
        for side in SIDES:
            for key, unit in (("requests_per_second", RATE), ("p50_us", TIME), ("p99_us", TIME),
                              ("server_cpu_us", TIME)):
                rows.append(row_of(f"{name}/{side}/{key}", [one[side][key] for one in rounds], unit))
        for ratio, side, to, key in RATIOS:
            rows.append(row_of(f"{name}/{ratio}", [one[side][key] / one[to][key] for one in rounds], RATIO))
    return rows


def table(measured, rows):
    found = {row["name"]: row for row in rows}
    lines = [("model", *(f"{side}/s" for side in SIDES), "ratio (min-max)", "p99 ratio (min-max)",
              "adaptive to joined", "p99 adaptive to joined", *(f"{side} p99 ms" for side in SIDES))]
    for model in measured:
        def row(name, model=model):
            return found[f"batching/{model}/c{CONCURRENCY}/{name}"]

        lines.append((model, *(f"{row(f'{side}/requests_per_second')['value']:.0f}" for side in SIDES),
                      *(spread(row(ratio), 2 if key == "p99_us" else 3) for ratio, *_, key in RATIOS),
                      *(f"{row(f'{side}/p99_us')['value'] / 1000:.1f}" for side in SIDES)))
    return "\n".join(aligned(lines))
