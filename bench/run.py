#!/usr/bin/python3
"""Measures the server; bench/README.md says what each suite is and how to read it."""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import batching
import faults
import headline
import large
import overload
import padding
import ratios
import rules
from workloads import ROOT, BenchError

SUITES = {"ratios": ratios, "batching": batching, "padding": padding, "overload": overload,
          "headline": headline, "rules": rules, "large": large,
          "faults": faults}


def arguments():
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument("suite", nargs="?", choices=SUITES, default="ratios",
                        help="what is measured (default: ratios)")
    parser.add_argument("--rounds", type=int, help="alternating rounds (default: "
                        f"{', '.join(f'{name} {suite.ROUNDS}' for name, suite in SUITES.items())})")
    parser.add_argument("--seconds", type=float,
                        help="measured time of each part of a round or of the step under overload; holds of faults "
                        "(default: "
                        f"{', '.join(f'{name} {suite.SECONDS:g}' for name, suite in SUITES.items())})")
    parser.add_argument("--quick", action="store_true",
                        help="one short round: whether it works, not how fast; no figures to quote")
    parser.add_argument("--only", default="", metavar="PART,…",
                        help="only these parts, such as tiny or tiny/c32,1ms/c8 of ratios; a wrong one is "
                        "answered with all")
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release", metavar="DIR",
                        help="the build to measure (default: build/release)")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "bench", metavar="DIR",
                        help="where the results and what is needed on the way go (default: build/bench)")
    given = parser.parse_args()
    suite = SUITES[given.suite]
    rounds, seconds = suite.QUICK if given.quick else (suite.ROUNDS, suite.SECONDS)
    given.rounds = rounds if given.rounds is None else given.rounds
    given.seconds = seconds if given.seconds is None else given.seconds
    if given.rounds < 1 or given.seconds <= 0:
        parser.error("--rounds must be at least 1, --seconds over 0")
    return given


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


def usable_cpus():
    """As the server counts them: no more than the control group's share."""
    cpus = len(os.sched_getaffinity(0))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return cpus if quota == "max" else max(1, min(cpus, -(-int(quota) // int(period))))
    except (OSError, ValueError):
        return cpus


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
    suite = SUITES[given.suite]
    results = given.output / ("results.json" if suite is ratios else f"{given.suite}.json")
    results.unlink(missing_ok=True)
    kind = build_type(given.build)
    parts = suite.chosen(given.only)
    measured = suite.measure(given.build, given.output, given.rounds, given.seconds, parts, show_progress)
    print("\r\033[K" if sys.stdout.isatty() else "")
    rows = suite.rows_of(measured)
    cpus = usable_cpus()
    machine = {"cpu": cpu_model(), "usable_cpus": cpus, "load_average_1min": os.getloadavg()[0]}
    said = {"suite": given.suite, "machine": machine, "commit": commit(), "build_type": kind,
            "rounds": given.rounds, "seconds": given.seconds, "rows": rows}
    if suite is not ratios:
        said["measured"] = measured
    results.write_text(json.dumps(said, indent=1) + "\n")
    print(suite.table(measured, rows))
    print(f"{machine['cpu']}, {cpus} usable CPUs, client on the same ones; commit {commit()}, {kind}; "
          f"{given.rounds} rounds of {given.seconds:g} s; medians\nAll rows: {results}")
    if suite is faults and (lost := faults.lost(measured)):
        sys.exit(f"bench: a request failed or was wrong, or the ladder broke a promise: {', '.join(lost)}")


if __name__ == "__main__":
    try:
        main()
    except BenchError as failure:
        sys.exit(f"bench: {failure}\nbench: nothing is reported")
