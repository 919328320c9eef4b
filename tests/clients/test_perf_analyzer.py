"""Triton's load generator against both ports: its own figures, and the server's beside them."""
import csv
import re
import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).resolve().parents[2] / "build" / "deps" / "clients" / "perf_analyzer"
TWO = ("--concurrency-range", "2")
LOADS = {"two at a time": TWO, "60 a second": ("--request-rate-range", "60"),
         "a stream": (*TWO, "--streaming")}


@pytest.mark.parametrize("protocol, load", [
    *((protocol, load) for protocol in ("http", "grpc") for load in list(LOADS)[:2]),
    ("grpc", "a stream")])
def test_it_measures(gradus, tmp_path, protocol, load):
    port = {"http": gradus.port, "grpc": gradus.grpc_port}[protocol]
    table = tmp_path / "figures.csv"
    done = subprocess.run(
        [PROGRAM, "-m", "fashion", "-i", protocol, "-u", f"127.0.0.1:{port}", "-b", "1",
         "--shape", "image:1,28,28" if batched(gradus) else "image:1,1,28,28", "-p", "400",
         "--stability-percentage", "999", "--max-threads", "2", "-f", table, *LOADS[load]],
        capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout
    assert re.search(r"Server:\s+Inference count: [1-9]", said), said
    assert "compute infer" in said and "Error" not in said and "failed" not in said.lower(), said
    with open(table, encoding="ascii") as lines:
        row, = csv.DictReader(lines)
    assert float(row["Inferences/Second"]) > (40 if load == "60 a second" else 20)
    assert float(row["Server Compute Infer"]) > 0 and float(row["p99 latency"]) > 0


def batched(gradus):
    """Whether the client leaves the batch out of shapes: it does where the model has batches."""
    return gradus.client.get("/v2/models/fashion/config").json["max_batch_size"] > 0
