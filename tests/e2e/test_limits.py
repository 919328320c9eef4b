"""Limits, told by raw sockets: what is refused, when, and at what cost."""
import select
import socket
import time

import pytest

import client
import samples
from server import DEMO_MODELS, Server, poll

INFER = b"POST /v2/models/fashion/infer HTTP/1.1\r\nHost: gradus\r\n"
HEADERS, BODY = client.encode({"image": samples.fashion_images()[:1]}, binary_output=True)
FIELDS = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items()).encode()
MAX_INPUT = 1 << 20
MAX_HEADER = 4096
HEADER_TIMEOUT_S, BODY_TIMEOUT_S, IDLE_TIMEOUT_S = 1.0, 1.5, 3.0


@pytest.fixture(scope="module")
def limited(tmp_path_factory):
    config = tmp_path_factory.mktemp("config") / "server.yaml"
    config.write_text(f"""\
model_repositories: [{DEMO_MODELS}]
providers: [cpu]
http:
  max_input_size: {MAX_INPUT}
  max_header_size: {MAX_HEADER}
  max_json_depth: 20
  header_timeout_ms: {int(HEADER_TIMEOUT_S * 1000)}
  body_timeout_ms: {int(BODY_TIMEOUT_S * 1000)}
  idle_timeout_ms: {int(IDLE_TIMEOUT_S * 1000)}
""")
    server = Server([], "--config", config)
    try:
        server.wait_loaded("fashion", "upscale", "langid")
        yield server
        server.stop()
    finally:
        server.kill()


def refused(server, sent, status, *parts, limit_s=10):
    """What is sent on a new connection gets this error, and the connection ends."""
    with server.connect(limit_s) as sock:
        sock.sendall(sent)
        answer = client.read_response(sock)
        assert answer.status == status, answer.body
        for part in parts:
            assert part in answer.error
        assert answer.headers["Connection"] == "close"
        assert client.closed_by_peer(sock)
    expect_good(server)


def expect_good(server):
    answer = server.client.post("/v2/models/fashion/infer", BODY, HEADERS)
    assert answer.outputs["logits"].argmax() == 9


def test_a_body_over_the_limit_is_refused_before_it_is_read(limited):
    refused(limited, INFER + b"Content-Length: %d\r\n\r\n" % (MAX_INPUT + 1), 413, str(MAX_INPUT))


def test_a_body_of_exactly_the_limit_is_read(limited):
    padding = b" " * (MAX_INPUT - len(BODY))
    size = int(HEADERS["Inference-Header-Content-Length"])
    body = BODY[:size] + padding + BODY[size:]
    headers = {**HEADERS, "Inference-Header-Content-Length": str(size + len(padding))}
    answer = limited.client.post("/v2/models/fashion/infer", body, headers)
    assert answer.outputs["logits"].argmax() == 9


def test_chunks_over_the_limit_are_refused(limited):
    chunk = b"%x\r\n" % 65536 + b"x" * 65536 + b"\r\n"
    with limited.connect() as sock:
        sock.sendall(INFER + b"Transfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(MAX_INPUT // 65536 + 1):
                sock.sendall(chunk)
        except OSError:
            pass  # it does not read on
        assert client.read_response(sock).status == 413
    expect_good(limited)


def test_a_chunked_body_is_read(limited):
    chunks = b"".join(b"%x\r\n" % len(part) + part + b"\r\n"
                      for part in (BODY[:7], BODY[7:100], BODY[100:])) + b"0\r\n\r\n"
    with limited.connect() as sock:
        sock.sendall(INFER + FIELDS + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
        assert client.read_response(sock).outputs["logits"].argmax() == 9


@pytest.mark.parametrize("chunks", [b"xyz\r\n", b"-1\r\nab", b"5\r\nabcdefgh\r\n",
                                    b"ffffffffffffffffff\r\n"],
                         ids=["no-number", "negative", "longer-than-said", "over-64-bits"])
def test_malformed_chunks_are_refused(limited, chunks):
    with limited.connect() as sock:
        sock.sendall(INFER + b"Transfer-Encoding: chunked\r\n\r\n" + chunks)
        answer = client.read_response(sock)
        assert answer.status in (400, 413)
        assert answer.error
        assert client.closed_by_peer(sock)
    expect_good(limited)


@pytest.mark.parametrize("where", ["one field", "many fields", "target"])
def test_a_header_over_the_limit_is_refused(limited, where):
    long = b"x" * MAX_HEADER
    sent = {"one field": b"GET /v2 HTTP/1.1\r\nHost: gradus\r\nX-Long: " + long + b"\r\n\r\n",
            "many fields": b"GET /v2 HTTP/1.1\r\nHost: gradus\r\n" + b"A: b\r\n" * MAX_HEADER,
            "target": b"GET /v2/" + long + b" HTTP/1.1\r\nHost: gradus\r\n\r\n"}[where]
    with limited.connect() as sock:
        try:
            sock.sendall(sent)
        except OSError:
            pass
        answer = client.read_response(sock)
        assert answer.status in (414, 431), answer.body
        assert str(MAX_HEADER) in answer.error
        assert client.closed_by_peer(sock)
    expect_good(limited)


def test_nesting_over_the_limit_is_refused(limited):
    def nested(depth):
        data = "[" * depth + "1" + "]" * depth
        return ('{"inputs":[{"name":"image","shape":[1,1,28,28],"datatype":"FP32","data":'
                + data + "}]}")
    answer = limited.client.post("/v2/models/fashion/infer", nested(21))
    assert answer.status == 400
    assert "20" in answer.error
    deep = limited.client.post("/v2/models/fashion/infer", nested(200_000))
    assert deep.status == 400 and "20" in deep.error
    allowed = limited.client.post("/v2/models/fashion/infer", nested(4))  # 7 with what is around it
    assert "784" in allowed.error  # too few elements, not too deep
    expect_good(limited)


def test_a_slow_header_is_ended(limited):
    with limited.connect() as sock:
        begun = time.monotonic()
        sock.sendall(b"POST /v2/models/fashion/infer HT")
        answer = client.read_response(sock)
        assert answer.status == 408 and answer.error
        assert client.closed_by_peer(sock)
        assert HEADER_TIMEOUT_S * 0.9 < time.monotonic() - begun < HEADER_TIMEOUT_S + 3


def test_a_header_that_drips_is_ended(limited):
    with limited.connect() as sock:
        begun = time.monotonic()
        sock.sendall(b"GET /v2 HTTP/1.1\r\nHost: gradus\r\n")
        drip_until_refused(sock, b"X: y\r\n", HEADER_TIMEOUT_S)
        assert time.monotonic() - begun < HEADER_TIMEOUT_S + 3


def test_a_body_that_drips_is_ended(limited):
    with limited.connect() as sock:
        begun = time.monotonic()
        sock.sendall(INFER + FIELDS + b"Content-Length: %d\r\n\r\n" % len(BODY))
        drip_until_refused(sock, b"x", BODY_TIMEOUT_S)
        assert time.monotonic() - begun < BODY_TIMEOUT_S + 3
    expect_good(limited)


def drip_until_refused(sock, drop, at_least_s):
    """Sends a drop every 50 ms until a 408 comes, which it must not do too early."""
    begun = time.monotonic()
    while not select.select([sock], [], [], 0.05)[0]:
        sock.sendall(drop)
        assert time.monotonic() - begun < 10, "it dripped for ten seconds"
    assert time.monotonic() - begun > at_least_s * 0.9
    answer = client.read_response(sock)
    assert answer.status == 408 and answer.error
    assert client.closed_by_peer(sock)


def test_an_idle_connection_is_ended(limited):
    with limited.connect(IDLE_TIMEOUT_S + 5) as sock:
        begun = time.monotonic()
        assert client.closed_by_peer(sock, IDLE_TIMEOUT_S + 5)
        assert time.monotonic() - begun > HEADER_TIMEOUT_S * 0.9


def test_expect_100_continue_is_answered_at_once(limited):
    with limited.connect() as sock:
        begun = time.monotonic()
        sock.sendall(INFER + FIELDS + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n"
                     % len(BODY))
        assert sock.recv(25, socket.MSG_WAITALL) == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert time.monotonic() - begun < BODY_TIMEOUT_S / 2
        sock.sendall(BODY)
        assert client.read_response(sock).outputs["logits"].argmax() == 9


def test_expect_100_continue_with_too_large_a_body_is_refused_at_once(limited):
    refused(limited, INFER + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % (1 << 40), 413)


def test_another_expectation_is_refused(limited):
    refused(limited, INFER + b"Expect: 200-ok\r\nContent-Length: 3\r\n\r\n", 417)


@pytest.mark.parametrize("fields", [
    b"Content-Length: 5\r\nContent-Length: 6\r\n", b"Content-Length: 5, 6\r\n",
    b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
    b"Content-Length: -5\r\n", b"Content-Length: +5\r\n", b"Content-Length: 0x5\r\n",
    b"Content-Length: \r\n", b"Content-Length: 99999999999999999999999\r\n",
    b"Content-Length : 5\r\n", b"Content-Length: 5\r\n folded: 6\r\n",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"],
    ids=lambda fields: fields.decode().replace("\r\n", "|").replace(" ", ""))
def test_unclear_lengths_are_refused(limited, fields):
    with limited.connect() as sock:
        sock.sendall(INFER + fields + b"\r\nhello GET /v2 HTTP/1.1\r\nHost: gradus\r\n\r\n")
        answer = client.read_response(sock)
        assert answer.status in (400, 413, 501), answer.body
        assert answer.error
        assert client.closed_by_peer(sock)  # what follows is not taken for a request
    expect_good(limited)


def test_another_transfer_coding_is_refused(limited):
    refused(limited, INFER + b"Transfer-Encoding: gzip, chunked\r\n\r\n", 501)


@pytest.mark.parametrize("sent", [
    b"nonsense\r\n\r\n", b"GET /v2\r\n\r\n", b"GET  /v2 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /v2 HTTP/1.1\r\n\r\n", b"GET /v2 HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET /v2 HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
    b"GET /v2 HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\n\n\r\n\r\n"],
    ids=["nonsense", "no-version", "two-blanks", "no-host", "two-hosts", "no-colon", "nul", "tls"])
def test_what_is_not_http_is_refused(limited, sent):
    refused(limited, sent, 400)


def test_another_http_version_is_refused(limited):
    refused(limited, b"GET /v2 HTTP/3.0\r\nHost: a\r\n\r\n", 505)


def test_a_promised_gigabyte_costs_no_memory(start, repository, tmp_path):
    config = tmp_path / "server.yaml"
    config.write_text(f"http: {{max_input_size: {2 << 30}}}\n")
    server = start(repository(fashion=DEMO_MODELS / "fashion"), "--providers", "cpu",
                   "--config", config)
    expect_good(server)
    before = server.rss_bytes()
    socks = []
    for _ in range(20):
        sock = server.connect()
        sock.sendall(INFER + FIELDS + b"Content-Length: %d\r\n\r\n" % (1 << 30) + b"x" * 1000)
        socks.append(sock)
    expect_good(server)  # so the others have been looked at
    poll("every connection to be open", 10, lambda: server.open_files() > 20)
    assert server.rss_bytes() - before < 64 << 20
    for sock in socks:
        sock.close()
    expect_good(server)


def test_a_body_cut_short_gets_400(limited):
    with limited.connect() as sock:
        sock.sendall(INFER + FIELDS + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY[:-100])
        sock.shutdown(socket.SHUT_WR)
        answer = client.read_response(sock)
        assert answer.status == 400
        assert str(len(BODY)) in answer.error
        assert client.closed_by_peer(sock)
    expect_good(limited)


def test_a_header_cut_short_gets_400(limited):
    with limited.connect() as sock:
        sock.sendall(b"POST /v2/models/fashion/infer HTTP/1.1\r\nHost: gra")
        sock.shutdown(socket.SHUT_WR)
        assert client.read_response(sock).status == 400


def test_half_closed_connections_leave_no_files_open(limited):
    expect_good(limited)
    before = limited.open_files()
    for i in range(2000):
        sock = limited.connect()
        if i % 3 == 1:
            sock.sendall(b"POST /v2/mod")
        elif i % 3 == 2:
            sock.sendall(INFER + FIELDS + b"Content-Length: %d\r\n\r\n" % len(BODY))
        sock.shutdown(socket.SHUT_WR)
        sock.close()
    expect_good(limited)
    poll("open files to be as few as before", 15, lambda: limited.open_files() <= before + 2)


def test_requests_sent_ahead_are_answered_in_order(limited):
    with limited.connect() as sock:
        request = INFER + FIELDS + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY
        sock.sendall(request + b"GET /v2 HTTP/1.1\r\nHost: gradus\r\n\r\n" + request)
        stream = sock.makefile("rb")
        assert client.read_response(stream).outputs["logits"].argmax() == 9
        assert client.read_response(stream).json["name"] == "gradus"
        assert client.read_response(stream).outputs["logits"].argmax() == 9


def test_http_1_0_is_answered_and_closed(limited):
    with limited.connect() as sock:
        sock.sendall(b"GET /v2/health/live HTTP/1.0\r\n\r\n")
        answer = client.read_response(sock)
        assert answer.status == 200 and answer.json == {"live": True}
        assert client.closed_by_peer(sock)
