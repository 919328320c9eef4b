"""What the ladder is worth when a "GPU" is lost, grows slow, or is asked for more than it can: the same load on
servers that have level 0 alone, the ladder's hysteresis alone, and all of it; and on one whose clients climb down
by themselves, as the published rule has it."""
import http.client
import random
import threading
import time

from contenders import Gradus
from overload import READING, Control, capacity, lay_out, open_load, over_time, watched
from report import RATIO, aligned, row_of, spread
from workloads import http_binary_body, picked

ROUNDS, SECONDS = 3, 15.0
QUICK = 1, 3.0
DEADLINE_MS = 200

# The "GPU" is the fault provider on the small model with 8 ms a run more; below it the CPU with the real model,
# which carries a third of the load, and the CPU with the small one.
GPU_DELAY_S = 0.008
SLOW = 5
LOAD = 0.5                # of the GPU's capacity
STEP = (0.5, 1.4, 0.5)    # the same, of the load step
LEVELS = """\
levels:
  - {name: gpu, file: model.small.onnx, providers: [FaultExecutionProvider], keep: always, target_p99_ms: 60,
     max_batch_size: 1}
"""
BELOW = """\
  - {name: cpu, file: model.onnx, providers: [cpu], keep: always, target_p99_ms: 200}
  - {name: cpu-small, file: model.small.onnx, providers: [cpu], keep: always, target_p99_ms: 150, quality: 0.9}
"""
QUALITY = {0: 1.0, 1: 1.0, 2: 0.9}
LIMITS_S = {0: 0.06, 1: 0.2, 2: 0.15}  # the levels' targets
SOON = "hold_ms: 2000, hold_cap_ms: 60000, probe_every_ms: 200, cooldown_ms: 4000, breaker_open_ms: 4000"
SIDES = {
    "none": LEVELS + "policy: {%s}\n" % SOON,
    "published": LEVELS + BELOW + "admission: false\npolicy: {hedge_share: 0, hold_ms: 600000}\n",
    "hysteresis": LEVELS + BELOW + "admission: false\npolicy: {%s, canary_stage_min_ms: 0, hedge_share: 0}\n" % SOON,
    "gradus": LEVELS + BELOW + "policy: {%s, canary_stage_min_ms: 500}\n" % SOON,
}
FAULTS = {"gpu-loss": (lambda control: control.set_gone(), lambda control: control.clear()),
          "gpu-slow": (lambda control: control.set_delay(SLOW * GPU_DELAY_S),
                       lambda control: control.set_delay(GPU_DELAY_S)),
          "load-step": (lambda control: None, lambda control: None)}


def chosen(only):
    return picked(only, list(FAULTS))


def one_round(build, output, name, number, seconds):
    """{side: what became of the load} and the GPU's capacity."""
    programs, work = build / "bench", output / "work"
    config = work / "rules.yaml"
    config.write_text("provider_libraries: {FaultExecutionProvider: "
                      f"{(build / 'libgradus_fault_ep.so').resolve()}}}\n")
    found = {}
    for side, levels in SIDES.items():
        repository = output / f"rules-{side}"
        lay_out(repository, levels)
        control = Control(work / "rules-control", create=True)
        control.set_delay(GPU_DELAY_S)
        with Gradus(build / "gradus", repository, work / f"rules-{name}-{side}-{number}.log",
                    ("--config", config), {"GRADUS_FAULT_CONTROL": control.path}) as server:
            server.wait_loaded(READING.name)
            if "capacity" not in found:
                found["capacity"] = capacity(programs, server, work, at_once=4)
            shares = STEP if name == "load-step" else (LOAD, LOAD, LOAD)
            lasts = (seconds / 3, seconds, seconds)
            steps = [(share * found["capacity"], each) for share, each in zip(shares, lasts)]
            request = work / "rules.request"
            request.write_bytes(server.request(READING, gradus_timeout_ms=DEADLINE_MS)[0])
            strike, heal = FAULTS[name]
            timers = [threading.Timer(lasts[0], strike, (control,)),
                      threading.Timer(lasts[0] + lasts[1], heal, (control,))]
            for timer in timers:
                timer.start()
            with watched(server, 0.2) as seen:
                said = published_load(server, number, steps) if side == "published" else \
                    open_load(programs, server, number, steps, request)
            for timer in timers:
                timer.join()
            found[side] = judged(said, seen, server.ladder(READING.name), lasts)
    return found


def published_load(server, seed, steps):
    """As open_load, of clients that ask level 0, and the next one if that fails or took longer than its target;
    the answer of the last one counts."""
    body, json_bytes = http_binary_body(READING)
    chance, threads, tallies = random.Random(seed), [], []
    lock = threading.Lock()

    def one(tally, due):
        level = answered = None
        for level, limit in LIMITS_S.items():
            begun = time.monotonic()
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
            connection.request("POST", f"/v2/models/{READING.name}/infer", body, {
                "Inference-Header-Content-Length": str(json_bytes), "gradus-timeout-ms": "5000",
                "gradus-min-level": str(level), "gradus-max-level": str(level)})
            answer = connection.getresponse()
            answer.read()
            connection.close()
            answered = answer.status == 200
            if answered and time.monotonic() - begun <= limit:
                break
        took = time.monotonic() - due
        with lock:
            tally["failed"] += not answered
            if answered:
                tally["times"].append(took)
                tally["in_time"] += took <= DEADLINE_MS / 1000
                tally["levels"][level] = tally["levels"].get(level, 0) + 1

    due = time.monotonic()
    for rate, seconds in steps:
        tally = {"offered": 0, "in_time": 0, "failed": 0, "levels": {}, "times": []}
        tallies.append(tally)
        end = due + seconds
        while due < end:
            time.sleep(max(0, due - time.monotonic()))
            threads.append(threading.Thread(target=one, args=(tally, due)))
            threads[-1].start()
            tally["offered"] += 1
            due += chance.expovariate(rate)
    for thread in threads:
        thread.join()
    for tally in tallies:
        times = sorted(tally.pop("times"))
        tally["p99_ms"] = 1000 * times[int(0.99 * (len(times) - 1))] if times else 0
    return {"steps": tallies}


def judged(said, seen, ladder, lasts):
    offered = sum(step["offered"] for step in said["steps"])
    in_time = sum(step["in_time"] for step in said["steps"])
    worth = 0.0
    for step in said["steps"]:
        answered = sum(step["levels"].values())
        mean = sum(QUALITY[int(level)] * count for level, count in step["levels"].items()) / max(answered, 1)
        worth += step["in_time"] * mean
    end = lasts[0] + lasts[1]
    away = [at for at, level, _ in seen if at > end and level != 0]
    return {"goodput": in_time / offered, "goodput_per_second": in_time / sum(lasts),
            "effective_accuracy": worth / offered,
            "p99_ms": max(step["p99_ms"] for step in said["steps"]),
            "recovery_s": None if seen[-1][1] != 0 else (away[-1] - end if away else 0),
            "flaps": sum(move["to"] == 0 and move["cause"] == "promoted" for move in ladder["transitions"][1:-1]),
            "failed": sum(step["failed"] for step in said["steps"]),
            "levels": [level for _, level, _ in seen][::5], "transitions": ladder["transitions"]}


def measure(build, output, rounds, seconds, names, progress):
    (output / "work").mkdir(parents=True, exist_ok=True)
    measured = {name: [] for name in names}
    for number in range(1, rounds + 1):
        for name in names:
            progress(f"rules, round {number} of {rounds}", name)
            measured[name].append(one_round(build, output, name, number, seconds))
    return measured


FIGURES = (("goodput", RATIO), ("goodput_per_second", "requests/s"), ("effective_accuracy", RATIO),
           ("p99_ms", "ms"), ("recovery_s", "s"), ("flaps", "flaps"), ("failed", "requests"))


def rows_of(measured):
    rows = []
    for name, rounds in measured.items():
        rows.append(row_of(f"rules/{name}/capacity", [one["capacity"] for one in rounds], "requests/s"))
        for side in SIDES:
            for key, unit in FIGURES:
                values = [one[side][key] for one in rounds if one[side][key] is not None]
                if values:
                    rows.append(row_of(f"rules/{name}/{side}/{key}", values, unit))
    return rows


def table(measured, rows):
    found = {row["name"]: row for row in rows}
    lines = [("scenario", "rule", "in time (min-max)", "in time/s", "accuracy", "p99 ms", "recovery s", "flaps",
              "failed")]
    text = []
    for name, rounds in measured.items():
        for side in SIDES:
            def said(key, digits, name=name, side=side):
                row = found.get(f"rules/{name}/{side}/{key}")
                return spread(row, digits) if row else "never"
            lines.append((name, side, said("goodput", 3), said("goodput_per_second", 0),
                          said("effective_accuracy", 3), said("p99_ms", 0), said("recovery_s", 1),
                          said("flaps", 0), said("failed", 0)))
            text += [f"{name}, {side}, round {number}, level second by second: {over_time(one[side]['levels'])}"
                     for number, one in enumerate(rounds, start=1)]
    return "\n".join(aligned(lines) + text)
