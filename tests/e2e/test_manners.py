"""What a server must not do: report to anybody, die with its log's reader."""
import os
import signal
import subprocess

from server import BINARY, DEMO_MODELS, LISTENING, environment


def test_nothing_is_reported_or_left_behind(start, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    server = start(DEMO_MODELS, "--providers", "cpu", env={"HOME": str(home), "XDG_CACHE_HOME": ""})
    server.wait_loaded("fashion", "langid", "upscale")
    assert list(home.rglob("*")) == []


def test_a_log_that_nobody_reads_does_not_end_the_server():
    reader, writer = os.pipe()
    process = subprocess.Popen(
        [str(BINARY), "serve", "--http-port", "0", "--grpc-port", "0", "--metrics-port", "0",
         "--model-repository", str(DEMO_MODELS)],
        env=environment(None), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=writer)
    os.close(writer)
    said = b""
    while not LISTENING.search(said.decode()):
        said += os.read(reader, 4096)
    os.close(reader)
    process.send_signal(signal.SIGTERM)  # logs what it does
    assert process.wait(timeout=60) == 0


def test_too_few_open_files_are_refused_before_the_start():
    done = subprocess.run(
        ["sh", "-c", 'ulimit -n 16; exec "$@"', "sh", str(BINARY), "serve", "--model-repository",
         str(DEMO_MODELS)],
        env=environment(None), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("the limit of open files (ulimit -n) is 16: must be at least ")
    assert done.stderr.count("\n") == 1
