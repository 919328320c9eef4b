"""What clients see when level 0 fails: `gradus drill` in every way that it knows, trial after trial."""
import json
import subprocess

from contenders import die_with_parent
from models.fixed_input import fixed_input
from report import RATE, aligned, row_of
from workloads import WORKLOADS, BenchError, lay_out, picked_cells

ROUNDS, SECONDS = 20, 0.5  # trials of each fault; the ladder's hold, cooldown and breaker
QUICK = 1, 0.5
MODELS = {workload.name: workload for workload in WORKLOADS if workload.name in ("1ms", "16ms")}
FAULTS = ("kill", "stop", "segv", "abort", "exit", "hang", "spin", "error", "error3", "alternate", "sticky", "oom",
          "nan", "gone", "slow", "nolib", "norestart")
NOT_BEGUN = {"trials": 0, "sent": 0, "failed": 0, "wrong": 0, "first_answer_ms": {"p50": None, "max": None},
             "bound_ms": None, "longest_answer_ms": None, "transitions_down": None, "back_at_level0_s": None,
             "rate": None, "cpu_run_ms": None}


def chosen(only):
    return picked_cells(only, [(model, fault) for model in MODELS for fault in FAULTS])


def with_fixed_input(workload):
    """Its file: where a model leaves the input's shape open, a drill takes a small one."""
    return fixed_input(workload.file.read_bytes(), workload.shape)


def drill(binary, repository, work, cell, trials, seconds):
    """See `entry_of`."""
    model, fault = cell
    report = work / f"faults-{model}-{fault}.json"
    report.unlink(missing_ok=True)
    command = [binary, "drill", "--model-repository", repository, "--model", model, "--fault", fault,
               "--trials", trials, "--hold", seconds, "--max-hold", seconds, "--cooldown", seconds,
               "--breaker", seconds, "--restart-backoff", 0.1, "--json", report]
    done = subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False, preexec_fn=die_with_parent)
    if done.returncode == 2:
        raise BenchError(f"{model}, {fault}: {done.stderr.strip()}")
    whole = json.loads(report.read_text()) if report.is_file() else {"faults": []}
    return entry_of(whole, done.stdout, done.stderr, done.returncode)


def entry_of(report, table, stderr, code):
    """The report's one entry and, of its table, what did not hold; NOT_BEGUN if the drill came to none."""
    if not report["faults"]:
        return {**NOT_BEGUN, "held": False, "complaints": [f"not begun: {stderr.strip()}"]}
    entry, *_ = report["faults"]
    under_the_heads = table.splitlines()[2:]
    return {**entry, **{name: report[name] for name in ("rate", "cpu_run_ms", "timer_delay_ms")}, "held": code == 0,
            "complaints": [line.strip() for line in under_the_heads if line.startswith("  ")]}


def measure(build, output, rounds, seconds, cells, progress):
    """{model: {fault: its entry}}."""
    work, repository = output / "work", output / "faults"
    work.mkdir(parents=True, exist_ok=True)
    lay_out([MODELS[model] for model in dict.fromkeys(model for model, _ in cells)], repository,
            with_fixed_input)
    measured = {}
    for model, fault in cells:
        progress(f"faults of {model}", fault)
        said = drill(build / "gradus", repository, work, (model, fault), rounds, seconds)
        measured.setdefault(model, {})[fault] = said
    return measured


def within(entry, which):
    return entry["bound_ms"] and entry["bound_ms"][f"trials_within_{which}"]


def figures(entry):
    """{row's name behind the fault: (value or None, unit)}."""
    return {"trials": (entry["trials"], "trials"), "sent": (entry["sent"], "requests"),
            "failed": (entry["failed"], "requests"), "wrong": (entry["wrong"], "requests"),
            "first_answer_p50_ms": (entry["first_answer_ms"]["p50"], "ms"),
            "first_answer_max_ms": (entry["first_answer_ms"]["max"], "ms"),
            "within_p50": (within(entry, "p50"), "trials"), "within_max": (within(entry, "max"), "trials"),
            "longest_answer_ms": (entry["longest_answer_ms"], "ms"),
            "transitions_down": (entry["transitions_down"], "moves"),
            "back_at_level0_s": (entry["back_at_level0_s"], "s"), "rate": (entry["rate"], RATE),
            "cpu_run_ms": (entry["cpu_run_ms"], "ms")}


def rows_of(measured):
    return [row_of(f"faults/{model}/{fault}/{figure}", [value], unit)
            for model, entries in measured.items() for fault, entry in entries.items()
            for figure, (value, unit) in figures(entry).items() if value is not None]


def lost(measured):
    """[MODEL/FAULT] of which a request failed or was wrong, or the ladder did not do what it promises."""
    return [f"{model}/{fault}" for model, entries in measured.items() for fault, entry in entries.items()
            if entry["failed"] or entry["wrong"] or not entry["held"]]


def table(measured, rows):
    found = {row["name"]: row["value"] for row in rows}
    lines = [("model", "fault", "trials", "sent", "failed", "wrong", "first answer p50 ms", "max ms", "within p50",
              "within max", "longest ms", "downs")]
    complaints = []
    for model, entries in measured.items():
        for fault, entry in entries.items():
            def said(figure, digits=0, name=f"faults/{model}/{fault}"):
                value = found.get(f"{name}/{figure}")
                return "-" if value is None else f"{value:.{digits}f}"

            lines.append((model, fault, said("trials"), said("sent"), said("failed"), said("wrong"),
                          said("first_answer_p50_ms", 1), said("first_answer_max_ms", 1),
                          *(f"{said(which)}/{said('trials')}" if f"faults/{model}/{fault}/{which}" in found else "-"
                            for which in ("within_p50", "within_max")),
                          said("longest_answer_ms", 1), said("transitions_down")))
            complaints += [f"{model}, {fault}: {complaint}" for complaint in entry["complaints"]]
    return "\n".join(aligned(lines) + complaints)
