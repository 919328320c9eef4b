"""What keeps a gRPC connection and what ends it: pings, silence, age. Frames as in RFC 9113."""
import socket
import struct
from collections import namedtuple
from pathlib import Path

import grpc
import pytest

from grpc_client import GrpcClient
from server import TEST_MODELS, poll

SETTINGS, PING, GOAWAY = 4, 6, 7
ACK = 1
NO_ERROR, ENHANCE_YOUR_CALM = bytes(4), bytes([0, 0, 0, 11])
LIMIT_S = 20

Frame = namedtuple("Frame", "kind flags payload")


def frame_of(kind, flags=0, payload=b""):
    return struct.pack(">HBBBI", 0, len(payload), kind, flags, 0) + payload


class Connection:
    """Speaks just enough HTTP/2 to be a client without a call."""

    def __init__(self, port):
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=LIMIT_S)
        self._stream = self._socket.makefile("rb")
        self._socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame_of(SETTINGS))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stream.close()
        self._socket.close()

    def send(self, *frames):
        self._socket.sendall(b"".join(frames))

    def frames(self):
        """Those that come, until the server closes the connection."""
        while len(head := self._stream.read(9)) == 9:
            yield Frame(head[3], head[4], self._stream.read(int.from_bytes(head[:3], "big")))


@pytest.fixture
def serve(start):
    """Starts a server without models with flags; returns its gRPC port."""
    def call(*flags):
        return start(TEST_MODELS, "--model-control-mode=explicit", "--providers=cpu",
                     *flags).grpc_port
    return call


def is_cut_off(port, pings):
    """Whether so many pings in a row, and a word behind them, are too much."""
    with Connection(port) as connection:
        connection.send(*[frame_of(PING, 0, bytes(8))] * pings, frame_of(SETTINGS))
        acknowledged = 0
        for frame in connection.frames():
            if frame.kind == GOAWAY:
                assert frame.payload[4:] == ENHANCE_YOUR_CALM + b"too_many_pings"
                return True
            acknowledged += (frame.kind, frame.flags) == (SETTINGS, ACK)
            if acknowledged == 2:  # of the preface, and behind the pings
                return False
    raise AssertionError("closed without a word")


ANYTIME = "--grpc-http2-min-recv-ping-interval-without-data=0"
WITHOUT_CALLS = "--grpc-keepalive-permit-without-calls"


@pytest.mark.parametrize("flags, taken", [
    ([], 3), (["--grpc-http2-max-ping-strikes=5"], 6), ([ANYTIME], 3), ([WITHOUT_CALLS], 3),
])
def test_who_pings_too_often_is_cut_off(serve, flags, taken):
    """The first ping is never too soon, and so many strikes are let pass."""
    port = serve(*flags)
    assert not is_cut_off(port, taken)
    assert is_cut_off(port, taken + 1)


@pytest.mark.parametrize("flags", [
    ["--grpc-http2-max-ping-strikes=0"], [ANYTIME, WITHOUT_CALLS]])
def test_pings_may_come_without_bound(serve, flags):
    assert not is_cut_off(serve(*flags), 100)


def test_who_says_nothing_is_pinged_and_must_answer(serve):
    port = serve("--grpc-keepalive-time=100", "--grpc-keepalive-timeout=2000", WITHOUT_CALLS)
    with Connection(port) as connection:
        pings = 0
        for frame in connection.frames():  # ends once one is not answered in time
            if frame.kind == PING:
                pings += 1
                if pings <= 5:
                    connection.send(frame_of(PING, ACK, frame.payload))
    assert pings == 6


def ports_to(port):
    """Of connections to that port, the clients' own."""
    rows = [line.split() for table in ("tcp", "tcp6")
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]]
    return {row[1] for row in rows if row[2].endswith(f":{port:04X}")}


def test_no_call_fails_when_connections_grow_old(serve):
    port = serve("--grpc-max-connection-age=300")
    with Connection(port) as connection:
        told = next(frame for frame in connection.frames() if frame.kind == GOAWAY)
        assert told.payload[4:8] == NO_ERROR
    seen = set()

    def is_live_on_another():
        assert rpc.call("ServerLive").live
        seen.update(ports_to(port))
        return len(seen) >= 4
    with GrpcClient(port) as rpc:
        poll("calls on a fourth connection", LIMIT_S, is_live_on_another)


def test_a_call_that_stays_on_an_old_connection_is_cancelled_after_the_grace(serve):
    port = serve("--grpc-max-connection-age=100", "--grpc-max-connection-age-grace=100")
    with GrpcClient(port) as rpc:
        with pytest.raises(grpc.RpcError) as ended:
            for _ in rpc.bytes_stream("/grpc.health.v1.Health/Watch", b"", timeout=LIMIT_S):
                pass
        assert ended.value.code() == grpc.StatusCode.UNAVAILABLE
