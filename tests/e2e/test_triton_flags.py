"""Command lines made for tritonserver start this server; listeners can be closed, gRPC's full."""
import os
import resource
import socket
import subprocess

import grpc
import pytest

import client
import samples
from grpc_client import GrpcClient, request
from server import BINARY, DEMO_MODELS, EXIT_LIMIT_S, GRPC, environment, poll, run_to_end

ANY_PORTS = ("--http-port=0", "--grpc-port=0", "--metrics-port=0", "--exit-timeout-secs=0")
STORE = f"--model-store={DEMO_MODELS}"


@pytest.fixture
def launch(tmp_path):
    """Starts a program with arguments; returns the process and a function that reads its log."""
    started = []

    def call(*command, **how):
        log = tmp_path / f"log{len(started)}"
        with open(log, "wb") as file:
            started.append(subprocess.Popen(command, env=environment({}), stdout=file, stderr=file,
                                            stdin=subprocess.DEVNULL, **how))
        process = started[-1]

        def text():
            said = log.read_text()
            assert process.poll() is None or "drained" in said, said
            return said
        return process, text

    yield call
    for process in started:
        process.kill()
        process.wait()


def effective(*flags):
    """What --check-config prints of the server, by key."""
    code, said, errors = run_to_end("serve", STORE, "--check-config", *flags)
    assert code == 0, errors
    found, section = {}, ""
    for line in said.split("\n---")[0].splitlines():
        key, _, value = line.partition(":")
        if not line.startswith(" "):
            section = key
        found[key if key == section else f"{section}.{key.strip()}"] = value.strip()
    return found


@pytest.mark.parametrize("flags, key, value", [
    (["--allow-http=false"], "http.enabled", "false"),
    (["--allow-grpc", "0"], "grpc.enabled", "false"),
    (["--allow-metrics=False"], "metrics.enabled", "false"),
    (["--allow-metrics"], "metrics.enabled", "true"),
    (["--metrics-address", "127.0.0.2"], "metrics.address", '"127.0.0.2"'),
    (["--grpc-keepalive-time=60000"], "grpc.keepalive_time_ms", "60000"),
    (["--grpc-keepalive-timeout", "7"], "grpc.keepalive_timeout_ms", "7"),
    (["--grpc-keepalive-permit-without-calls=1"], "grpc.keepalive_permit_without_calls", "true"),
    (["--grpc-http2-min-recv-ping-interval-without-data=8"],
     "grpc.http2_min_recv_ping_interval_without_data_ms", "8"),
    (["--grpc-http2-max-ping-strikes=9"], "grpc.http2_max_ping_strikes", "9"),
    (["--grpc-max-connection-age=10"], "grpc.max_connection_age_ms", "10"),
    (["--grpc-max-connection-age-grace=11"], "grpc.max_connection_age_grace_ms", "11"),
    (["--exit-timeout-secs=5"], "exit_timeout_ms", "5000"),
    (["--trace-log-frequency=5"], "trace.log_frequency", "5"),
    (["--log-verbose=1"], "log_level", "debug"),
    (["--log-verbose=0"], "log_level", "info"),
    (["--log-info=false"], "log_level", "warning"),
    (["--log-info=0", "--log-warning", "0"], "log_level", "error"),
    (["--log-format=ISO8601"], "log_format", "text"),
    (["--trace-config=rate=7", "--trace-config", "triton,file=t.json"], "trace.rate", "7"),
    (["--trace-config=mode=triton", "--trace-config", "triton,file=t.js"], "trace.file", "t.js"),
])
def test_a_flag_means_the_same(flags, key, value):
    assert effective(*flags)[key] == value


@pytest.mark.parametrize("flag, text", [
    ("--grpc-use-ssl=true", "TLS"), ("--grpc-server-cert=cert.pem", "TLS"),
    ("--http-restricted-api=inference:key=value", "proxy"), ("--allow-sagemaker=1", "SageMaker"),
    ("--trace-config=mode=opentelemetry", "Triton's own"), ("--allow-http=maybe", "true or false"),
    ("--exit-timeout-secs=soon", "integer"), ("--grpc-keepalive-time=0", "[1, 2147483647]"),
])
def test_what_cannot_be_is_refused_with_a_reason(flag, text):
    code, _, said = run_to_end("serve", STORE, "--check-config", flag)
    assert code == 2 and flag.split("=")[0] in said and text in said, said


def test_a_wildcard_stands_alone():
    code, _, said = run_to_end("serve", STORE, "--check-config", "--load-model=*", "--load-model=x")
    assert code == 2 and "--load-model" in said and "alone" in said, said


def test_somebody_must_be_able_to_ask():
    code, _, said = run_to_end("serve", STORE, "--allow-http=false", "--allow-grpc=false")
    assert code == 2 and "http.enabled" in said and "grpc.enabled" in said


@pytest.mark.parametrize("called", ["by a link", "by its first word"])
def test_tritonserver_is_another_name(tmp_path, called):
    link = tmp_path / "tritonserver"
    link.symlink_to(BINARY)
    command = [link] if called == "by a link" else [BINARY, "tritonserver"]
    done = subprocess.run([*command, STORE, "--check-config", "--grpc-address=127.0.0.1"],
                          env=environment({}), capture_output=True, text=True, timeout=60,
                          check=True)
    assert done.stdout.count('address: "0.0.0.0"') == 2, "HTTP and metrics are open to all"
    assert done.stdout.count('address: "127.0.0.1"') == 1, "what is said, holds"
    version = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=60,
                             check=True)
    assert version.stdout.startswith("gradus ")


def test_a_command_line_of_kserve_starts_it(launch):
    """What has no effect is said once."""
    process, log = launch(
        BINARY, "tritonserver", STORE, *ANY_PORTS, "--http-address=127.0.0.1",
        "--grpc-address=127.0.0.1", "--metrics-address=127.0.0.1", "--allow-grpc=true",
        "--allow-http=true", "--allow-metrics=true", "--strict-readiness=true",
        "--http-thread-count=4", "--backend-config=onnxruntime,default-max-batch-size=4",
        "--backend-config=default-max-batch-size=4", "--exit-on-error=false", "--rate-limit", "off",
        "--disable-auto-complete-config")
    poll("it to listen", 60, lambda: "listening on http://127.0.0.1:" in log())
    said = log()
    for flag in ("--http-thread-count", "--backend-config", "--exit-on-error", "--rate-limit",
                 "--disable-auto-complete-config"):
        assert said.count(f"{flag} has no effect: ") == 1, said
    assert "--strict-readiness" not in said
    process.terminate()
    assert process.wait(EXIT_LIMIT_S) == 0


def test_one_listener_alone(launch):
    process, log = launch(BINARY, "serve", STORE, *ANY_PORTS, "--providers=cpu",
                          "--allow-http=false", "--allow-metrics=false")
    poll("it to start", 60, lambda: "listening for gRPC alone" in log())
    assert "http://" not in log()
    image = {"image": samples.fashion_images()[:1]}
    with GrpcClient(int(GRPC.search(log()).group(1))) as rpc:
        poll("it to be ready", 60, lambda: rpc.call("ServerReady").ready)
        assert rpc.infer(request("fashion", image))[0].model_name == "fashion"
    process.terminate()
    assert process.wait(EXIT_LIMIT_S) == 0


@pytest.mark.skipif(not os.environ.get("GRADUS_LONG"), reason="10 s; GRADUS_LONG=1 runs it")
def test_who_connects_to_grpc_and_says_nothing_is_cut_off(launch):
    _, log = launch(BINARY, "serve", STORE, *ANY_PORTS, "--providers=cpu")
    poll("it to listen", 60, lambda: "listening on" in log())
    port = int(GRPC.search(log()).group(1))
    with socket.create_connection(("127.0.0.1", port)) as silent:
        assert client.closed_by_peer(silent, limit_s=15)


def test_grpc_is_open_again_after_too_many_connections(launch):
    """More than its files allow are refused, and when they are gone the next one is answered."""
    process, log = launch(BINARY, "serve", STORE, *ANY_PORTS, "--providers=cpu", preexec_fn=lambda:
                          resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)))
    poll("it to listen", 60, lambda: "listening on" in log())
    port = int(GRPC.search(log()).group(1))
    crowd = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(300)]
    try:
        poll("the crowd to be refused", 10,
             lambda: "grpc: refusing connections, too many are open" in log())
        with GrpcClient(port) as rpc:
            assert rpc.refused("ServerLive", timeout=10)[0] == grpc.StatusCode.UNAVAILABLE
    finally:
        for connection in crowd:
            connection.close()

    def is_live():
        with GrpcClient(port) as rpc:
            try:
                return rpc.call("ServerLive", timeout=5).live
            except grpc.RpcError as error:
                assert error.code() == grpc.StatusCode.UNAVAILABLE
                return False
    poll("it to answer again", 10, is_live)
    process.terminate()
    assert process.wait(EXIT_LIMIT_S) == 0
