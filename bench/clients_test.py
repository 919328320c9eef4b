#!/usr/bin/python3
"""Tests of the benchmark's clients: they count right answers and refuse wrong ones. LOAD_CLIENT,
OPEN_LOAD, GRPC_CLIENT and GRPC_ECHO name their programs."""
import contextlib
import json
import os
import socketserver
import struct
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

from workloads import on_the_wire

OUTCOMES = ("in_time", "late", "refused", "expired", "failed")
VALUES = struct.pack("<3f", 0.25, -1.5, 3.0)


def answer(body, status="200 OK", length=True, more=""):
    head = f"HTTP/1.1 {status}\r\n" + (f"content-LENGTH:  {len(body)}\r\n" if length else "") + more + "\r\n"
    return head.encode() + body


class Listening:
    """A server whose connections handle(rfile, wfile) serves, each in a thread."""

    def __init__(self, handle):
        class Handler(socketserver.StreamRequestHandler):
            disable_nagle_algorithm = True

            def handle(self):
                handle(self.rfile, self.wfile)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            request_queue_size = 1024

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class StandIn(Listening):
    """Answers each request, read by its Content-Length, with fixed pieces; an empty list hangs up.
    `pieces` may be a function of the request's body, too."""

    def __init__(self, pieces, delay=0):
        super().__init__(self.serve)
        self.requests = 0
        self.pieces, self.delay = pieces, delay

    def serve(self, rfile, wfile):
        while line := rfile.readline():
            length = 0
            while line.strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
                line = rfile.readline()
            body = rfile.read(length)
            assert len(body) == length
            self.requests += 1
            time.sleep(self.delay)
            said = self.pieces(body) if callable(self.pieces) else self.pieces
            for piece in said:
                wfile.write(piece)
                wfile.flush()
            if not said:
                return


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

    def of_two(self, outputs, pieces):
        """The client with two requests, `a` and `b`, and these outputs."""
        with tempfile.TemporaryDirectory() as folder, StandIn(pieces) as stand_in:
            files = {name: Path(folder) / name for name in ("a", "b", *(f"o{i}" for i in range(len(outputs))))}
            for name in "ab":
                files[name].write_bytes(on_the_wire("/", stand_in.port, name.encode(), {}))
            for i, output in enumerate(outputs):
                files[f"o{i}"].write_bytes(struct.pack("<f", output))
            words = [os.environ["LOAD_CLIENT"], stand_in.port, os.getpid(), 1, 0.05, f"{files['a']},{files['b']}",
                     ",".join(str(files[f"o{i}"]) for i in range(len(outputs)))]
            return subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=60, check=False)

    @staticmethod
    def level_of_two(body):
        """`a` is answered with 1 by level 1, `b` with 2 by level 3."""
        value, level = {b"a": (1.0, 1), b"b": (2.0, 3)}[body]
        return [answer(struct.pack("<f", value), more=f"gradus-level: {level}\r\n")]

    def test_sends_several_requests_in_turn_and_counts_the_levels_that_answer(self):
        done = self.of_two([1.0, 2.0], self.level_of_two)
        self.assertEqual(done.returncode, 0, done.stderr)
        counted = json.loads(done.stdout)
        self.assertEqual(sum(counted["levels"].values()), counted["requests"])
        self.assertEqual(set(counted["levels"]), {"1", "3"})
        self.assertLessEqual(abs(counted["levels"]["1"] - counted["levels"]["3"]), 1)
        self.assertGreater(counted["sent"], counted["requests"])

    def test_compares_each_request_with_its_own_output(self):
        done = self.of_two([1.0, 1.0], self.level_of_two)
        self.assertEqual(done.returncode, 1)
        self.assertIn("wrong answer: element 0 is 2.0", done.stderr)

    def test_refuses_outputs_for_some_requests_only(self):
        self.assertIn("an output for each or for none", self.of_two([1.0], self.level_of_two).stderr)


DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 7, 8  # RFC 9113, section 6
END_STREAM, END_HEADERS = 1, 4


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def headers(stream, fields, flags=0):
    texts = (text.encode() for field in fields.items() for text in field)
    sized = [bytes([len(text)]) + text for text in texts]
    block = b"".join(b"\0" + name + value for name, value in zip(sized[::2], sized[1::2]))  # RFC 7541, 6.2.2
    return frame(HEADERS, END_HEADERS | flags, stream, block)


def message(body, compressed=0):
    return struct.pack(">BI", compressed, len(body)) + body


def grpc_answer(stream, data=message(VALUES), trailers=None):
    return (headers(stream, {":status": "200", "content-type": "application/grpc"}) +
            frame(DATA, 0, stream, data) +
            headers(stream, {"grpc-status": "0", **(trailers or {})}, END_STREAM))


class GrpcStandIn(Listening):
    """Answers each call with the pieces that said(number of the connection, stream, message) gives; none
    hangs up. `greeting` opens each connection; it must widen the windows for more than 64 KB."""

    def __init__(self, said, greeting=frame(SETTINGS, 0, 0)):
        super().__init__(self.serve)
        self.connections = 0
        self.said, self.greeting = said, greeting

    def serve(self, rfile, wfile):
        self.connections += 1
        connection = self.connections
        rfile.read(len(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
        wfile.write(self.greeting)
        data = {}
        with contextlib.suppress(ConnectionError):
            while head := rfile.read(9):
                kind, flags, stream = struct.unpack(">BBI", head[3:])
                payload = rfile.read(int.from_bytes(head[:3], "big"))
                if kind != DATA:
                    continue
                data[stream] = data.get(stream, b"") + payload
                if not flags & END_STREAM:
                    continue
                wfile.write(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", len(data[stream]))))
                pieces = self.said(connection, stream, data.pop(stream)[5:])
                for piece in pieces:
                    wfile.write(piece)
                if not pieces:
                    return


class GrpcClient(unittest.TestCase):
    @staticmethod
    def load(port, server, requests, outputs, calls=1, seconds=0.05):
        with tempfile.TemporaryDirectory() as folder:
            def names(kind, contents):
                files = [Path(folder) / f"{kind}{i}" for i in range(len(contents))]
                for file, content in zip(files, contents):
                    file.write_bytes(content)
                return ",".join(map(str, files))

            words = [os.environ["GRPC_CLIENT"], port, server, calls, seconds, names("request", requests),
                     names("output", outputs)]
            return subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=60, check=False)

    def refused(self, done, text):
        self.assertEqual((done.returncode, done.stdout), (1, ""), done.stderr)
        self.assertIn(text, done.stderr)

    def of_echo(self, request, output, calls=1, seconds=0.05):
        """Against the echo, which answers with as many blanks and zeros as the request says."""
        echo = subprocess.Popen([os.environ["GRPC_ECHO"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with echo:
            port = echo.stdout.readline().removeprefix("listening ").strip()
            done = self.load(port, echo.pid, [request], [output], calls, seconds)
            echo.stdin.close()
        return done

    def of(self, said, calls=1, requests=(b"request",), outputs=(VALUES,), **how):
        """Against the stand-in; said(connection, stream, message)."""
        with GrpcStandIn(said, **how) as stand_in:
            done = self.load(stand_in.port, os.getpid(), requests, outputs, calls)
        return done, stand_in.connections

    def refused_of(self, said, text, **how):
        self.refused(self.of(said, **how)[0], text)

    REQUEST = struct.pack("<II", 4, 12) + b"x" * 300_000

    def test_counts_answers_of_all_calls(self):
        done = self.of_echo(self.REQUEST, bytes(12), calls=8)
        self.assertEqual(done.returncode, 0, done.stderr)
        counted = json.loads(done.stdout)
        self.assertEqual(counted["body_bytes"], 16)
        self.assertGreater(counted["requests"], 0)
        self.assertGreaterEqual(counted["sent"], counted["requests"] + 8)
        self.assertGreater(counted["server_cpu_us"], 0)

    def test_takes_more_than_its_windows(self):
        done = self.of_echo(struct.pack("<II", 0, 4 << 20), bytes(4 << 20), calls=2, seconds=0.5)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(json.loads(done.stdout)["sent"] * (4 << 20), 32 << 20)

    def test_sends_more_than_the_servers_windows(self):
        done = self.of_echo(struct.pack("<II", 4, 12) + bytes(20 << 20), bytes(12), calls=2)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_refuses_wrong_values(self):
        self.refused(self.of_echo(self.REQUEST, VALUES), "wrong answer: element 0 is 0.0")

    def test_refuses_a_status_other_than_ok_and_shows_its_text(self):
        self.refused(self.of_echo(b"none", bytes(12)), "status 3: the request has no sizes")

    def test_at_most_six_calls_share_a_connection(self):
        answer_of = lambda _, stream, __: [grpc_answer(stream)]
        for calls, connections in ((6, 1), (7, 2), (13, 3)):
            done, opened = self.of(answer_of, calls)
            self.assertEqual((done.returncode, opened), (0, connections), done.stderr)

    def test_reads_answers_that_come_in_pieces(self):
        def bytewise(_, stream, __):
            parts = [headers(stream, {":status": "200"})]
            parts += [frame(DATA, 0, stream, message(VALUES)[i:i + 1]) for i in range(len(message(VALUES)))]
            parts += [headers(stream, {"grpc-status": "0"}, END_STREAM)]
            whole = b"".join(parts)
            return [whole[i:i + 7] for i in range(0, len(whole), 7)]
        done, _ = self.of(bytewise, calls=2)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["body_bytes"], len(VALUES))

    @staticmethod
    def level_of_two(_, stream, request):
        """`a` is answered with 1 by level 1, `b` with 2 by level 3."""
        value, level = {b"a": (1.0, "1"), b"b": (2.0, "3")}[request]
        return [grpc_answer(stream, message(struct.pack("<f", value)), {"gradus-level": level})]

    def test_sends_several_requests_in_turn_and_counts_the_levels_that_answer(self):
        outputs = [struct.pack("<f", value) for value in (1.0, 2.0)]
        done, _ = self.of(self.level_of_two, requests=(b"a", b"b"), outputs=outputs)
        self.assertEqual(done.returncode, 0, done.stderr)
        counted = json.loads(done.stdout)
        self.assertEqual(set(counted["levels"]), {"1", "3"})
        self.assertEqual(sum(counted["levels"].values()), counted["requests"])

    def test_compares_the_first_answers_of_every_connection_and_request(self):
        outputs = [struct.pack("<f", 1.0)] * 2
        self.refused_of(self.level_of_two, "wrong answer: element 0 is 2.0", requests=(b"a", b"b"), outputs=outputs)
        second_wrong = lambda connection, stream, _: [grpc_answer(stream, message(bytes(12)) if connection == 2 else
                                                                  message(VALUES))]
        self.refused_of(second_wrong, "wrong answer: element 0 is 0.0", calls=7)

    def test_refuses_an_answer_without_status(self):
        self.refused_of(lambda _, stream, __: [headers(stream, {":status": "200"}), frame(DATA, END_STREAM, stream)],
                        "without grpc-status")
        self.refused_of(lambda _, stream, __: [headers(stream, {":status": "200"}),
                                               headers(stream, {"grpc-status": "none"}, END_STREAM)],
                        "without grpc-status")

    def test_refuses_status_ok_without_one_whole_message(self):
        for data in (b"", message(VALUES)[:-1], message(VALUES) + b"more", message(VALUES) * 2, message(VALUES, 1)):
            self.refused_of(lambda _, stream, __, data=data: [grpc_answer(stream, data)], "without one whole")

    def test_refuses_an_answer_to_half_a_request(self):
        half = headers(1, {":status": "200"}) + headers(1, {"grpc-status": "0"}, END_STREAM)
        self.refused_of(lambda *_: [], "before the request was sent", requests=(b"x" * 100_000,),
                        greeting=frame(SETTINGS, 0, 0) + half)

    def test_refuses_a_reset_call(self):
        self.refused_of(lambda _, stream, __: [frame(RST_STREAM, 0, stream, struct.pack(">I", 8))],
                        "a call was reset: CANCEL")

    def test_refuses_an_answer_that_breaks_http_2(self):
        self.refused_of(lambda _, stream, __: [headers(stream, {"grpc-status": "0"}, END_STREAM)],
                        "a call was reset: PROTOCOL_ERROR")
        self.refused_of(lambda _, stream, __: [frame(DATA, 0, 0)], "HTTP/2")

    def test_refuses_a_server_that_goes_away(self):
        self.refused_of(lambda *_: [frame(GOAWAY, 0, 0, struct.pack(">II", 1, 11) + b"too calm")],
                        "ends the connection: ENHANCE_YOUR_CALM too calm")

    def test_refuses_a_closed_connection(self):
        self.refused_of(lambda *_: [], "the server closed the connection")

    def test_refuses_a_server_without_http_2(self):
        self.refused_of(lambda *_: [], "HTTP/2", greeting=answer(b"{}", "400 Bad Request"))

    def test_refuses_a_port_where_nobody_listens(self):
        with GrpcStandIn(None) as stand_in:
            port = stand_in.port
        self.refused(self.load(port, os.getpid(), [b"request"], [VALUES]), "Connection refused")


class OpenLoad(unittest.TestCase):
    def said(self, pieces, steps, delay=0, deadline_ms=200):
        with tempfile.TemporaryDirectory() as folder, StandIn(pieces, delay) as stand_in:
            request = Path(folder) / "request"
            request.write_bytes(on_the_wire("/", stand_in.port, b"body", {}))
            words = [os.environ["OPEN_LOAD"], stand_in.port, deadline_ms, 1, steps, request]
            done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            said = json.loads(done.stdout)
            for tally in said["steps"]:
                self.assertEqual(tally["offered"], sum(tally[key] for key in OUTCOMES))
            self.assertEqual(sum(tally["offered"] for tally in said["steps"]),
                             sum(tally["offered"] for tally in said["seconds"]))
            return said, stand_in.requests

    def of_status(self, status):
        return self.said([answer(b"{}", status)], "50:0.5")[0]["steps"][0]

    def test_offers_each_steps_rate_and_counts_answers_in_time_by_level(self):
        said, answered = self.said([answer(b"{}", more="gradus-level: 2\r\n")], "40:1,160:1", deadline_ms=10_000)
        calm, busy = said["steps"]
        self.assertEqual(len(said["seconds"]), 2)
        self.assertEqual(calm["levels"], {"2": calm["in_time"]})
        self.assertEqual((calm["in_time"], busy["in_time"]), (calm["offered"], busy["offered"]), said["steps"])
        self.assertEqual(calm["offered"] + busy["offered"], answered)
        self.assertTrue(20 <= calm["offered"] <= 60, calm)  # 40 give or take three deviations
        self.assertTrue(120 <= busy["offered"] <= 200, busy)

    def test_sends_on_while_earlier_requests_wait_and_counts_late_answers(self):
        said, _ = self.said([answer(b"{}")], "40:0.5", delay=0.3, deadline_ms=100)
        tally = said["steps"][0]
        self.assertGreater(tally["offered"], 8)  # one at a time it would be two
        self.assertEqual((tally["late"], tally["in_time"]), (tally["offered"], 0))
        self.assertGreaterEqual(tally["p99_ms"], 300)

    def test_tells_refused_expired_and_failed_apart(self):
        for status, key in (("429 Too Many", "refused"), ("504 Gateway Timeout", "expired"),
                            ("500 Internal Server Error", "failed")):
            tally = self.of_status(status)
            self.assertGreater(tally["offered"], 0)
            self.assertEqual(tally[key], tally["offered"], status)

    def test_a_closed_connection_is_a_failure_and_the_next_request_has_another(self):
        tally = self.said([], "50:0.5")[0]["steps"][0]
        self.assertGreater(tally["offered"], 5)
        self.assertEqual(tally["failed"], tally["offered"])


if __name__ == "__main__":
    unittest.main()
