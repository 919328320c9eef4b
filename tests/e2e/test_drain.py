"""SIGTERM and its like: not ready at once, nobody loses an answer, exit 0; a second one ends it at once."""
import signal
import socket
import threading
import time

import pytest

import busy
import client
import samples
from server import DEMO_MODELS, TEST_MODELS, poll, run_to_end

IMAGES = samples.fashion_images()


@pytest.fixture
def server(start, repository):
    found = start(repository(fashion=DEMO_MODELS / "fashion", busy=TEST_MODELS / "busy"),
                  "--providers", "cpu")
    found.wait_loaded("fashion", "busy")
    return found


class Load(threading.Thread):
    """Asks on and on until the server is gone; keeps what was not answered rightly."""

    def __init__(self, server):
        super().__init__()
        self.server, self.answers, self.wrong, self.last = server, 0, [], None

    def run(self):
        i = 0
        while True:
            i = (i + 1) % len(IMAGES)
            try:
                sock = self.server.connect()
            except ConnectionRefusedError:
                return  # it has gone: nothing was accepted
            try:
                headers, body = client.encode({"image": IMAGES[i:i + 1]}, binary_output=True)
                fields = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
                sock.sendall(f"POST /v2/models/fashion/infer HTTP/1.1\r\nHost: a\r\n{fields}"
                             f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
                answer = client.read_response(sock)
                if answer.status != 200 or answer.outputs["logits"].shape != (1, 10):
                    self.wrong.append(answer.body)
                self.answers, self.last = self.answers + 1, time.monotonic()
            except (OSError, AssertionError, IndexError) as error:
                self.wrong.append(repr(error))
            finally:
                sock.close()


def test_requests_in_flight_and_still_arriving_are_answered(server):
    steps = busy.steps_for(server, 1.5)
    long_runs = []
    threads = [threading.Thread(target=lambda: long_runs.append(
        server.client.infer("busy", busy.inputs(steps)))) for _ in range(2)]
    for thread in threads:
        thread.start()
    keep_alive = server.client.connection()
    assert server.client.infer("fashion", {"image": IMAGES[:1]},
                               connection=keep_alive).status == 200
    server.terminate()
    told = time.monotonic()
    on_old_connection = server.client.infer("fashion", {"image": IMAGES[:1]},
                                            connection=keep_alive)
    assert on_old_connection.status == 200
    keep_alive.close()
    poll("ready to say 503", 5, lambda: server.client.get("/v2/health/ready").status == 503)
    assert server.client.get("/v2/health/live").status == 200
    arriving = [server.client.infer("fashion", {"image": IMAGES[i:i + 1]}) for i in range(5)]
    assert [answer.status for answer in arriving] == [200] * 5
    assert all(answer.headers["Connection"] == "close" for answer in arriving)
    assert server.alive()
    for thread in threads:
        thread.join(60)
    assert [answer.status for answer in long_runs] == [200, 200]
    assert server.wait_exit() == 0
    assert time.monotonic() - told < 30


def test_nobody_loses_an_answer_under_load(start, repository, tmp_path):
    config = tmp_path / "server.yaml"
    config.write_text("exit_timeout_ms: 4000\n")
    server = start(repository(fashion=DEMO_MODELS / "fashion"), "--providers", "cpu",
                   "--config", config)
    loads = [Load(server) for _ in range(4)]
    for load in loads:
        load.start()
    poll("every client to have been answered", 20,
         lambda: all(load.answers > 10 for load in loads))
    server.terminate()
    told = time.monotonic()
    poll("ready to say 503", 5, lambda: server.client.get("/v2/health/ready").status == 503)
    assert server.wait_exit() == 0
    for load in loads:
        load.join(20)
        assert not load.is_alive()
    # The load never pauses, so the grace time ends it: whoever was in flight then may be cut off.
    for load in loads:
        assert load.last > told + 1, "requests that came after SIGTERM were answered"
        assert len(load.wrong) <= 1, load.wrong


def test_a_body_on_its_way_is_still_served(server):
    headers, body = client.encode({"image": IMAGES[:1]}, binary_output=True)
    fields = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
    with server.connect() as sock:
        sock.sendall(f"POST /v2/models/fashion/infer HTTP/1.1\r\nHost: a\r\n{fields}"
                     f"Content-Length: {len(body)}\r\n\r\n".encode() + body[:1000])
        poll("the server to have read it", 5, lambda: server.client.get("/v2").status == 200)
        server.terminate()
        poll("ready to say 503", 5, lambda: server.client.get("/v2/health/ready").status == 503)
        sock.sendall(body[1000:])
        answer = client.read_response(sock)
        assert answer.outputs["logits"].argmax() == 9
        assert answer.headers["Connection"] == "close"
    assert server.wait_exit() == 0


def test_connections_that_ask_nothing_do_not_hold_it_up(server):
    silent = [server.connect() for _ in range(5)]
    halfway = server.connect()
    halfway.sendall(b"POST /v2/models/fash")
    begun = time.monotonic()
    server.terminate()
    assert server.wait_exit() == 0
    assert time.monotonic() - begun < 15
    for sock in [*silent, halfway]:
        sock.close()


def test_the_grace_time_is_bounded(start, repository, tmp_path):
    config = tmp_path / "server.yaml"
    config.write_text("exit_timeout_ms: 1000\n")
    server = start(repository(busy=TEST_MODELS / "busy"), "--providers", "cpu", "--config", config)
    steps = busy.steps_for(server, 20)
    headers, body = client.encode(busy.inputs(steps))
    fields = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
    with server.connect() as sock:
        sock.sendall(f"POST /v2/models/busy/infer HTTP/1.1\r\nHost: a\r\n{fields}"
                     f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
        poll("the run to have begun", 5, lambda: server.client.get("/v2").status == 200)
        begun = time.monotonic()
        server.terminate()
        assert server.wait_exit() == 0
        assert time.monotonic() - begun < 6


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(server, second):
    steps = busy.steps_for(server, 20)
    headers, body = client.encode(busy.inputs(steps))
    fields = "".join(f"{k}: {v}\r\n" for k, v in headers.items())
    sock = server.connect()
    sock.sendall(f"POST /v2/models/busy/infer HTTP/1.1\r\nHost: a\r\n{fields}"
                 f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
    server.terminate()
    poll("ready to say 503", 5, lambda: server.client.get("/v2/health/ready").status == 503)
    begun = time.monotonic()

    def again():  # what comes within 100 ms of the first counts as the same signal
        server.process.send_signal(second)
        return not server.alive()

    poll("the end", 5, again)
    assert server.wait_exit() == 1
    assert time.monotonic() - begun < 5
    assert client.closed_by_peer(sock)
    sock.close()


@pytest.mark.parametrize("other", [signal.SIGINT, signal.SIGHUP])
def test_other_signals_drain_too(server, other):
    server.process.send_signal(other)
    assert server.wait_exit() == 0
    assert "drained" in server.log


def test_nohup_keeps_a_hangup_from_it(start):
    server = start(TEST_MODELS, "--providers", "cpu", through=("nohup",))
    server.process.send_signal(signal.SIGHUP)
    until = time.monotonic() + 0.3
    while time.monotonic() < until:
        assert server.client.get("/v2/health/ready").status == 200


def test_the_port_is_refused_when_taken(server):
    for taken, port in (("http", server.port), ("metrics", server.metrics_port)):
        ports = {"--http-port": 0, "--grpc-port": 0, "--metrics-port": 0, f"--{taken}-port": port}
        code, _, said = run_to_end("serve", "--model-repository", DEMO_MODELS, "--providers",
                                   "cpu", *(word for pair in ports.items() for word in pair))
        assert code == 1
        assert f"error {taken}: 127.0.0.1:{port}: Address already in use" in said
        with pytest.raises(OSError), socket.socket() as other:
            other.bind(("127.0.0.1", port))
    with pytest.raises(OSError), socket.socket() as other:
        other.bind(("127.0.0.1", server.port))
