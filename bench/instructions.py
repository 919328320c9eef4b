#!/usr/bin/python3
"""Instructions that the server executes for one request of the `tiny` model, counted by callgrind. They
hardly depend on how busy the machine is: runs differ by 1 %. With several programs it tells how each
compares to the first:

    python3 bench/instructions.py build/release/gradus build/other/gradus

Needs valgrind. Only what the process itself executes counts, not the kernel's part.
"""
import argparse
import http.client
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from contenders import Gradus
from workloads import WORKLOADS, BenchError, http_binary_body, lay_out

TINY = WORKLOADS[0]
WARM_UP = 500
WRAPPER = """\
#!/bin/sh
exec valgrind --tool=callgrind --callgrind-out-file={out} --instr-atstart=no --error-exitcode=0 {binary} "$@"
"""


def send(server, count):
    """One request after the other on one connection."""
    body, json_bytes = http_binary_body(TINY)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    for _ in range(count):
        connection.request("POST", f"/v2/models/{TINY.name}/infer", body, {
            "Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(json_bytes)})
        answer = connection.getresponse()
        if answer.read() is None or answer.status != 200:
            raise BenchError(f"status {answer.status}")
    connection.close()


def control(server, *words):
    done = subprocess.run(["callgrind_control", *words, str(server.process.pid)], capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        raise BenchError(f"callgrind_control: {done.stdout}{done.stderr}")


def instructions(binary, requests, work):
    """For one request, on average over so many."""
    repository, out, wrapper = work / "models", work / "callgrind.out", work / "gradus"
    lay_out([TINY], repository)
    wrapper.write_text(WRAPPER.format(out=out, binary=binary.resolve()))
    wrapper.chmod(0o755)
    with Gradus(wrapper, repository, work / "log") as server:
        server.wait_loaded(TINY.name)
        control(server, "--instr=on")
        send(server, WARM_UP)
        control(server, "--zero")
        send(server, requests)
        control(server, "--dump=counted")
    (dump,) = work.glob("callgrind.out.*")
    return int(re.search(r"^(?:totals|summary): (\d+)", dump.read_text(), re.MULTILINE)[1]) / requests


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=Path, nargs="+", help="a program to measure, such as build/release/gradus")
    parser.add_argument("--requests", type=int, default=5000, help="how many are counted (5000)")
    given = parser.parse_args()
    if not shutil.which("valgrind"):
        raise BenchError("valgrind is not installed (apt-get install valgrind)")
    first = None
    for binary in given.binary:
        with tempfile.TemporaryDirectory() as work:
            counted = instructions(binary, given.requests, Path(work))
        first = first or counted
        print(f"{binary}: {counted:.0f} instructions a request ({counted / first - 1:+.2%})", flush=True)


if __name__ == "__main__":
    try:
        main()
    except BenchError as failure:
        sys.exit(f"instructions: {failure}")
