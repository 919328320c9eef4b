#!/usr/bin/python3
"""Tests of the benchmark itself: that its client counts right answers and refuses wrong ones, and that
its figures are what they are called. LOAD_CLIENT names the client's program."""
import json
import os
import socketserver
import struct
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

from report import rows_of, table
from run import chosen_cells
from workloads import BenchError, on_the_wire

VALUES = struct.pack("<3f", 0.25, -1.5, 3.0)


def answer(body, status="200 OK", length=True):
    head = f"HTTP/1.1 {status}\r\n" + (f"content-LENGTH:  {len(body)}\r\n" if length else "") + "\r\n"
    return head.encode() + body


class StandIn:
    """Answers each request, read by its Content-Length, with fixed pieces; an empty list hangs up."""

    def __init__(self, pieces):
        self.requests = 0
        stand_in = self

        class Handler(socketserver.StreamRequestHandler):
            disable_nagle_algorithm = True

            def handle(self):
                while line := self.rfile.readline():
                    length = 0
                    while line.strip():
                        if line.lower().startswith(b"content-length:"):
                            length = int(line.split(b":")[1])
                        line = self.rfile.readline()
                    assert len(self.rfile.read(length)) == length
                    stand_in.requests += 1
                    for piece in pieces:
                        self.wfile.write(piece)
                        self.wfile.flush()
                    if not pieces:
                        return

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def load(stand_in, connections=1, seconds=0.05, body=b"x" * 300_000):
    """Runs the client against the stand-in; the right output is VALUES."""
    with tempfile.TemporaryDirectory() as folder:
        request, output = Path(folder) / "request", Path(folder) / "output"
        request.write_bytes(on_the_wire("/", stand_in.port, body, {}))
        output.write_bytes(VALUES)
        words = [os.environ["LOAD_CLIENT"], stand_in.port, os.getpid(), connections, seconds, request, output]
        return subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=60, check=False)


class LoadClient(unittest.TestCase):
    def refused(self, pieces, text):
        with StandIn(pieces) as stand_in:
            done = load(stand_in)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(text, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_counts_answers_of_all_connections(self):
        with StandIn([answer(b"{}" + VALUES)]) as stand_in:
            done = load(stand_in, connections=5)
            self.assertEqual(done.returncode, 0, done.stderr)
            counted = json.loads(done.stdout)
            self.assertEqual(counted["body_bytes"], 2 + len(VALUES))
            self.assertGreaterEqual(stand_in.requests, counted["requests"] + 5)
            self.assertGreater(counted["requests"], 0)
            self.assertLessEqual(counted["p50_us"], counted["p99_us"])
            self.assertGreater(counted["server_cpu_us"], 0)

    def test_reads_answers_that_come_in_pieces(self):
        whole = answer(b"{}" + VALUES)
        with StandIn([whole[i:i + 7] for i in range(0, len(whole), 7)]) as stand_in:
            done = load(stand_in, connections=2)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_accepts_sums_in_another_order(self):
        with StandIn([answer(struct.pack("<3f", 0.25001, -1.5, 3.0001))]) as stand_in:
            self.assertEqual(load(stand_in).returncode, 0)

    def test_refuses_wrong_values(self):
        self.refused([answer(struct.pack("<3f", 0.25, -1.5, 3.1))], "wrong answer: element 2 is 3.1")

    def test_refuses_nan(self):
        self.refused([answer(struct.pack("<3f", 0.25, float("nan"), 3.0))], "wrong answer: element 1 is")

    def test_refuses_a_short_output(self):
        self.refused([answer(VALUES[4:])], "wrong answer: its body has 8 bytes")

    def test_refuses_a_status_other_than_200_and_shows_its_text(self):
        self.refused([answer(b'{"error":"queue full"}', "429 Too Many")],
                     'HTTP/1.1 429 Too Many: {"error":"queue full"}')

    def test_refuses_an_answer_without_length(self):
        self.refused([answer(VALUES, length=False)], "without a Content-Length")

    def test_refuses_bytes_after_the_answer(self):
        self.refused([answer(VALUES) + b"more"], "longer than its Content-Length")

    def test_refuses_a_closed_connection(self):
        self.refused([], "closed the connection")


def raw(rate, p50=100.0):
    return {"requests_per_second": rate, "p50_us": p50, "p99_us": p50, "cpu_us": 90.0}


def served(rate, p50=100.0):
    return {"requests_per_second": rate, "p50_us": p50, "p99_us": 2 * p50, "server_cpu_us": 130.0,
            "client_cpu_us": 10.0}


class Report(unittest.TestCase):
    def rows(self):
        rounds = [(raw(1000), served(4000, 50.0), served(rate, 170.0)) for rate in (400, 800, 500)]
        rows = rows_of({("m", 1): rounds, ("m", 8): [(raw(100), served(50), served(10))]})
        return rows, {row["name"]: row for row in rows}

    def test_ratios_are_medians_of_rounds_with_their_spread(self):
        _, found = self.rows()
        self.assertEqual(found["http_binary/m/c1/ratio_to_raw"],
                         {"name": "http_binary/m/c1/ratio_to_raw", "value": 0.5, "unit": "ratio", "min": 0.4,
                          "max": 0.8, "runs": 3})
        self.assertEqual(found["http_binary/m/c1/ratio_to_echo"]["value"], 0.125)

    def test_ceiling_is_raw_and_echo_one_after_the_other(self):
        _, found = self.rows()
        self.assertAlmostEqual(found["http_binary/m/c1/ratio_to_ceiling"]["value"], 500 / 800)

    def test_added_time_is_told_at_concurrency_1_only(self):
        _, found = self.rows()
        self.assertEqual(found["http_binary/m/c1/p50_added_us"]["value"], 70)
        self.assertEqual(found["http_binary/m/c1/p50_added_beyond_echo_us"]["value"], 20)
        self.assertNotIn("http_binary/m/c8/p50_added_us", found)

    def test_cpu_beyond_raw_is_a_difference_in_a_round(self):
        _, found = self.rows()
        self.assertEqual(found["http_binary/m/c8/server_cpu_beyond_raw_us"]["value"], 40)

    def test_table_has_a_line_for_each_cell(self):
        rows, _ = self.rows()
        lines = table(rows, [("m", 1), ("m", 8)]).splitlines()
        self.assertEqual(lines[1].split()[:6], ["m", "1", "1000", "4000", "500", "0.500"])
        self.assertEqual(lines[2].split()[:6], ["m", "8", "100", "50", "10", "0.100"])


class Choice(unittest.TestCase):
    def names(self, only):
        return [f"{workload.name}/c{concurrency}" for workload, concurrency in chosen_cells(only)]

    def test_everything_unless_told(self):
        self.assertEqual(len(self.names("")), 12)

    def test_models_and_cells(self):
        self.assertEqual(self.names("1ms/c8,tiny"), ["tiny/c1", "tiny/c2", "tiny/c8", "tiny/c32", "1ms/c8"])

    def test_refuses_what_it_does_not_know(self):
        with self.assertRaisesRegex(BenchError, "--only 2ms: known are"):
            chosen_cells("2ms")


if __name__ == "__main__":
    unittest.main()
