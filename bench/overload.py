"""What becomes of requests when more come than a level can carry, with and without a ladder."""
import json
import shutil
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

from contenders import Gradus
from models import seeded
from report import RATIO, aligned, row_of, spread
from workloads import ROOT, WORKLOADS, BenchError, picked, prepare

sys.path.insert(0, str(ROOT / "tests" / "support"))
from fault_control import Control  # noqa: E402

ROUNDS, SECONDS = 3, 30.0
QUICK = 1, 5.0
DEADLINE_MS = 200
CAPACITY_S = 3.0
CALM = 0.5      # of a capacity: the load before and after a step
STEP = 3.0
GOAL = 0.8      # with the ladder of what is offered, without of the capacity
NEAR = 0.85     # of the slow GPU's capacity: the load that it has to carry
SIDES = ("alone", "ladder")
READING = next(workload for workload in WORKLOADS if workload.name == "16ms")

# The "GPU" of the slow one: 5 ms a run more than its arithmetic, three times that when it is slow, which
# is over twice its target.
GPU_DELAY_S, SLOW_FACTOR = 0.005, 3
GPU = """\
levels:
  - {name: gpu, file: model.small.onnx, providers: [FaultExecutionProvider], keep: always,
     max_batch_size: 8, target_p99_ms: 7}
"""
CPU = "  - {name: cpu, file: model.onnx, providers: [cpu], keep: always, target_p99_ms: 200}\n"


def chosen(only):
    return picked(only, ["step", "slow-gpu"])


def lay_out(repository, config=None, small=True, full=True):
    """`16ms` in a fresh repository, its best level the real model, its lower one `reading-small`."""
    prepare([READING])
    shutil.rmtree(repository, ignore_errors=True)
    version = repository / READING.name / "1"
    version.mkdir(parents=True)
    if full:
        shutil.copyfile(READING.file, version / "model.onnx")
    if small:
        shutil.copyfile(seeded.file("reading-small"), version / "model.small.onnx")
    if config:
        (version.parent / "gradus.yaml").write_text(config)


@contextmanager
def watched(server, interval=1.0):
    """A list that fills with (seconds from the start, current level, saturated) while inside."""
    seen, done, started = [], threading.Event(), time.monotonic()

    def watch():
        while not done.is_set():
            ladder = server.ladder(READING.name)
            seen.append((round(time.monotonic() - started, 2), ladder["current_level"], ladder["saturated"]))
            done.wait(interval)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seen
    finally:
        done.set()
        watcher.join()


def open_load(programs, server, seed, steps, request):
    """What open_load says of `steps`, [(rate, seconds)]."""
    words = [programs / "open_load", server.port, DEADLINE_MS, seed,
             ",".join(f"{rate:.3f}:{seconds:g}" for rate, seconds in steps), request]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BenchError(done.stderr.strip())
    return json.loads(done.stdout)


def recovery_s(seconds, from_second):
    """Seconds from the step's end until one in which nothing missed its deadline; None: there was none."""
    return next((at for at, tally in enumerate(seconds[from_second:])
                 if tally["offered"] and tally["in_time"] == tally["offered"]), None)


def run_steps(programs, server, work, seed, steps):
    """One server through (calm, step, calm): what became of the step, and how it went on."""
    request = work / "overload.request"
    request.write_bytes(server.request(READING, gradus_timeout_ms=DEADLINE_MS)[0])
    with watched(server) as seen:
        said = open_load(programs, server, seed, steps, request)
    ladder = server.ladder(READING.name)
    tally, before = said["steps"][1], steps[0][1]
    end = round(before + steps[1][1])
    usual = seen[0][1]
    back = [at for at, level, _ in seen if at > end and level != usual]
    return {"rate": steps[1][0], "tally": tally, "calm": [said["steps"][0], said["steps"][2]],
            "goodput": tally["in_time"] / max(tally["offered"], 1),
            "goodput_per_second": tally["in_time"] / steps[1][1],
            "p99_ms": tally["p99_ms"], "recovery_s": recovery_s(said["seconds"], end),
            "level_back_s": None if seen[-1][1] != usual else (back[-1] - end + 1 if back else 0),
            "saturated": any(each[2] for each in seen), "stayed": {each[1] for each in seen} == {usual},
            "levels": [each[1] for each in seen],
            "seconds": said["seconds"], "transitions": ladder["transitions"]}


def capacity(programs, server, work, at_once=8, **headers):
    """Requests a second in a closed loop, without a deadline that matters."""
    request = work / "capacity.request"
    request.write_bytes(server.request(READING, gradus_timeout_ms=10_000, **headers)[0])
    return server.measure(programs, at_once, CAPACITY_S, request)["requests_per_second"]


def step_round(build, output, number, seconds):
    """{"capacity": …, "alone": …, "ladder": …} of one round: a step to three times the capacity."""
    programs, work = build / "bench", output / "work"
    found = {}
    for name, small in (("alone", False), ("ladder", True)):
        repository = output / f"overload-{name}"
        lay_out(repository, small=small)
        with Gradus(build / "gradus", repository, work / f"overload-{name}-{number}.log") as server:
            server.wait_loaded(READING.name)
            if name == "alone":
                found["capacity"] = capacity(programs, server, work)
            calm, rate = max(1, round(seconds / 6)), found["capacity"]
            found[name] = run_steps(programs, server, work, number,
                                    [(CALM * rate, calm), (STEP * rate, seconds),
                                     (CALM * rate, 2 * seconds)])
    return found


def slow_gpu_round(build, output, number, seconds):
    """A "GPU" that grows slow under a load that the CPU can't carry, with the CPU below it and without."""
    programs, work = build / "bench", output / "work"
    config = work / "slow-gpu.yaml"
    config.write_text("provider_libraries: {FaultExecutionProvider: "
                      f"{(build / 'libgradus_fault_ep.so').resolve()}}}\n")
    found = {}
    for name, below in (("alone", ""), ("ladder", CPU)):
        repository = output / f"slow-gpu-{name}"
        lay_out(repository, GPU + below)
        control = Control(work / "fault-control", create=True)
        control.set_delay(GPU_DELAY_S)
        with Gradus(build / "gradus", repository, work / f"slow-gpu-{name}-{number}.log",
                    ("--config", config), {"GRADUS_FAULT_CONTROL": control.path}) as server:
            server.wait_loaded(READING.name)
            if name == "ladder":
                found["cpu_capacity"] = capacity(programs, server, work, gradus_min_level=1)
                rate = found["rate"]
            else:
                found["rate"] = rate = NEAR * capacity_when_slow(programs, server, work, control)
            control.set_delay(GPU_DELAY_S)
            calm = max(1, round(seconds / 6))
            slow = threading.Timer(calm, control.set_delay, (GPU_DELAY_S * SLOW_FACTOR,))
            slow.start()
            found[name] = run_steps(programs, server, work, number, [(rate, calm), (rate, seconds), (rate, 1)])
            slow.cancel()
    return found


def capacity_when_slow(programs, server, work, control):
    control.set_delay(GPU_DELAY_S * SLOW_FACTOR)
    return capacity(programs, server, work, at_once=16)


def measure(build, output, rounds, seconds, names, progress):
    """{"step": [what `step_round` found, of each round], "slow-gpu": …}"""
    (output / "work").mkdir(parents=True, exist_ok=True)
    of = {"step": step_round, "slow-gpu": slow_gpu_round}
    measured = {name: [] for name in names}
    for number in range(1, rounds + 1):
        for name in names:
            progress(f"overload, round {number} of {rounds}", name)
            measured[name].append(of[name](build, output, number, seconds))
    return measured


def rows_of(measured):
    rows = []
    for name, rounds in measured.items():
        def add(key, values, unit, name=name):
            values = [value for value in values if value is not None]
            if values:
                rows.append(row_of(f"overload/{name}/{key}", values, unit))

        for key in ("capacity", "cpu_capacity", "rate"):
            add(key, [one.get(key) for one in rounds], "requests/s")
        for side in SIDES:
            back = (("recovery_s", "s"), ("level_back_s", "s")) if name == "step" else ()
            for key, unit in (("goodput", RATIO), ("goodput_per_second", "requests/s"), ("p99_ms", "ms"), *back):
                add(f"{side}/{key}", [one[side][key] for one in rounds], unit)
            add(f"{side}/saturated", [float(one[side]["saturated"]) for one in rounds], "share of rounds")
            add(f"{side}/stayed", [float(one[side]["stayed"]) for one in rounds], "share of rounds")
        if name == "step":
            add("alone/goodput_to_capacity",
                [one["alone"]["goodput_per_second"] / one["capacity"] for one in rounds], RATIO)
        add("ladder/goodput_to_alone", [one["ladder"]["goodput"] / one["alone"]["goodput"] for one in rounds
                                        if one["alone"]["goodput"]], RATIO)
    return rows


def over_time(levels):
    """Levels, one a second, as a person reads them: 1 x 5, 3 x 30."""
    runs = []
    for level in levels:
        if runs and runs[-1][0] == level:
            runs[-1][1] += 1
        else:
            runs.append([level, 1])
    return ", ".join(f"{level} x {count}" for level, count in runs)


def table(measured, rows):
    found = {row["name"]: row for row in rows}
    lines = [("load", "side", "offered/s", "goodput (min-max)", "in time/s", "p99 ms of accepted", "recovery s",
              "level back s", "saturated")]
    text = []
    for name, rounds in measured.items():
        def said(key, digits=2, name=name):
            row = found.get(f"overload/{name}/{key}")
            return spread(row, digits) if row else "never" if name == "step" else ""

        for side in SIDES:
            rate = sum(one[side]["rate"] for one in rounds) / len(rounds)
            recovered = sum(one[side]["recovery_s"] is not None for one in rounds)
            at_times = name == "step" and 0 < recovered < len(rounds)
            lines.append((
                name, side, f"{rate:.0f}", said(f"{side}/goodput", 3), said(f"{side}/goodput_per_second", 0),
                said(f"{side}/p99_ms", 0),
                said(f"{side}/recovery_s", 0) + (f", {recovered} of {len(rounds)}" if at_times else ""),
                said(f"{side}/level_back_s", 0),
                f"{sum(one[side]['saturated'] for one in rounds)} of {len(rounds)}"))
            text += [f"{name}, {side}, round {number}, level second by second: {over_time(one[side]['levels'])}"
                     for number, one in enumerate(rounds, start=1)]
        if name == "step":
            text += [f"step: goal with the ladder: goodput >= {GOAL:.2f} of what is offered: "
                     f"{said('ladder/goodput', 3)}",
                     f"step: goal without: >= {GOAL:.2f} of the capacity ({said('capacity', 0)}/s): "
                     f"{said('alone/goodput_to_capacity', 3)}"]
        else:
            stayed = sum(one["ladder"]["stayed"] for one in rounds)
            text += [f"slow-gpu: goal: it stays ({stayed} of {len(rounds)}), says saturated, and goodput is no worse "
                     f"than without a ladder: {said('ladder/goodput_to_alone', 3)} of it; the CPU carries "
                     f"{said('cpu_capacity', 0)}/s"]
    return "\n".join(aligned(lines) + text)
