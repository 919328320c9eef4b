#!/usr/bin/python3
"""Measures the server against what it is made of; bench/README.md says how to read it."""
import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from contenders import Echo, Gradus, Raw
from report import rows_of, table
from workloads import ROOT, WORKLOADS, BenchError, lay_out

CONCURRENCIES = (1, 2, 8, 32)


def arguments():
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="alternating rounds (default: 5)")
    parser.add_argument("--seconds", type=float, default=1.0,
                        help="measured time of each part of a round; twice that for 16ms (default: 1)")
    parser.add_argument("--only", default="", metavar="MODEL[/cN],…",
                        help="only these, such as tiny or tiny/c32,1ms/c8")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release", metavar="DIR",
                        help="the build to measure (default: build/release)")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "bench", metavar="DIR",
                        help="where results.json and what is needed on the way go (default: build/bench)")
    given = parser.parse_args()
    if given.rounds < 1 or given.seconds <= 0:
        parser.error("--rounds must be at least 1, --seconds over 0")
    return given


def chosen_cells(only):
    """[(workload, concurrency)] that --only leaves, in order."""
    cells = [(workload, concurrency) for workload in WORKLOADS for concurrency in CONCURRENCIES]
    wanted = [word for word in only.split(",") if word]
    names = {f"{w.name}/c{c}" for w, c in cells} | {w.name for w in WORKLOADS}
    for word in wanted:
        if word not in names:
            raise BenchError(f"--only {word}: known are {', '.join(sorted(names))}")
    return [(workload, concurrency) for workload, concurrency in cells
            if not wanted or workload.name in wanted or f"{workload.name}/c{concurrency}" in wanted]


def build_type(build):
    try:
        cache = (build / "CMakeCache.txt").read_text()
    except OSError as error:
        raise BenchError(f"{build} is no build folder: {error}") from error
    found = re.search(r"^CMAKE_BUILD_TYPE:\w+=(.*)$", cache, re.MULTILINE)
    kind = found[1] if found else ""
    if kind != "Release":
        raise BenchError(f"{build} is a {kind or 'nameless'} build; figures come from Release builds only")
    return kind


def commit():
    def git(*words):
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    if not shutil.which("git") or not (name := git("rev-parse", "--short=12", "HEAD")):
        return "unknown"
    return name + (" with changes" if git("status", "--porcelain", "--untracked-files=no") else "")


def cpu_model():
    found = re.search(r"^model name\s*:\s*(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else "unknown CPU"


def measure(cells, build, output, rounds, seconds):
    """({(model, concurrency): [(raw, echo, http) for each round]}, usable CPUs)."""
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
                show_progress(f"round {number} of {rounds}", f"{workload.name}, {concurrency} at once")
                time, raw = seconds * workload.time, raws[workload]
                echo_request, http_request = requests[workload]
                try:
                    measured[workload.name, concurrency].append((
                        raw.measure(concurrency, time),
                        echo.measure(programs, concurrency, time, echo_request),
                        gradus.measure(programs, concurrency, time, http_request, raw.output)))
                except BenchError as error:
                    raise BenchError(f"{workload.name}, {concurrency} at once: {error}") from error
        return measured, next(iter(raws.values())).cpus


def show_progress(step, detail):
    """One line that changes on a terminal, elsewhere one line a step."""
    if sys.stdout.isatty():
        print(f"\r\033[K{step}: {detail}", end="", flush=True)
    elif show_progress.last != step:
        print(step, flush=True)
    show_progress.last = step


show_progress.last = None


def main():
    given = arguments()
    results = given.output / "results.json"
    results.unlink(missing_ok=True)
    kind = build_type(given.build)
    cells = chosen_cells(given.only)
    measured, cpus = measure(cells, given.build, given.output, given.rounds, given.seconds)
    print("\r\033[K" if sys.stdout.isatty() else "")
    rows = rows_of(measured)
    machine = {"cpu": cpu_model(), "usable_cpus": cpus, "load_average_1min": os.getloadavg()[0]}
    results.write_text(json.dumps({
        "machine": machine, "commit": commit(), "build_type": kind, "rounds": given.rounds,
        "seconds": given.seconds, "rows": rows}, indent=1) + "\n")
    print(table(rows, measured.keys()))
    print(f"{machine['cpu']}, {cpus} usable CPUs, client on the same ones; commit {commit()}, {kind}; "
          f"{given.rounds} rounds of {given.seconds:g} s; medians\nAll rows: {results}")


if __name__ == "__main__":
    try:
        main()
    except BenchError as failure:
        sys.exit(f"bench: {failure}\nbench: nothing is reported")
