"""A worker that is killed again and again costs no request and leaves nothing behind."""
import os
import signal
import threading
import time

import pytest

import samples
from server import BINARY, DEMO_MODELS, poll

KILLS = 1000 if os.environ.get("GRADUS_LONG") else 50
WARM_UP = 10  # kills until every pool and cache has its size
RSS_SLACK_BYTES = 8 << 20  # an arena more or less
RSS_A_KILL_BYTES = 4096    # far below what any leak of buffers or sessions would be
LIBRARY = BINARY.parent / "libgradus_fault_ep.so"
IMAGE = {"image": samples.fashion_images()[:1]}
LADDER = """\
levels:
  - {name: gpu, file: model.onnx, providers: [FaultExecutionProvider], keep: always}
  - {name: cpu, file: model.onnx, providers: [cpu], keep: always}
policy: {hold_ms: 150, hold_cap_ms: 150, probe_every_ms: 150, cooldown_ms: 0, breaker_open_ms: 150,
         canary_stage_min_ms: 0}
"""
SERVER = f"""\
provider_libraries: {{FaultExecutionProvider: {LIBRARY}}}
worker_restart_backoff_ms: 1
worker_crash_loop_deaths: 1000000
"""


@pytest.fixture
def server(start, tmp_path):
    folder = tmp_path / "models" / "fashion"
    folder.mkdir(parents=True)
    (folder / "1").symlink_to(DEMO_MODELS / "fashion" / "1")
    (folder / "gradus.yaml").write_text(LADDER)
    config = tmp_path / "server.yaml"
    config.write_text(SERVER)
    found = start(tmp_path / "models", "--config", config)
    found.wait_loaded("fashion")
    return found


class Load:
    """Asks from one thread until it is told to stop; keeps what is not an answer of a level."""

    def __init__(self, server):
        self.levels = {0: 0, 1: 0}
        self.bad = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(server,))

    def _run(self, server):
        right = server.client.infer("fashion", IMAGE, binary_output=True,
                                    parameters={"min_level": 1}).outputs["logits"].tobytes()
        while not self._stop.is_set():
            answer = server.client.infer("fashion", IMAGE, binary_output=True)
            if answer.status != 200 or answer.outputs["logits"].tobytes() != right:
                self.bad.append(answer.body[:300])
            else:
                self.levels[answer.parameters["level"]] += 1
            time.sleep(0.002)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join(60)


def worker(server):
    """The pid of level 0's worker once it carries the level again; None before."""
    ladder = server.ladder("fashion")
    level = ladder["levels"][0]
    found = level["worker"]
    whole = ladder["current_level"] == 0 and level["state"] == "ready" and found["state"] == "running"
    return found["pid"] if whole else None


def children(server):
    """(alive, zombies) of the server's processes, whichever thread started them."""
    counts = {"alive": 0, "zombie": 0}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as stat:
                state, parent = stat.read().rsplit(")", 1)[1].split()[:2]
        except OSError:
            continue
        if int(parent) == server.pid:
            counts["zombie" if state == "Z" else "alive"] += 1
    return counts["alive"], counts["zombie"]


def held(server):
    """What a lost worker might leave in the server."""
    folder = f"/proc/{server.pid}"
    with open(f"{folder}/maps", encoding="utf-8") as maps:
        mapped = sum("memfd:" in line for line in maps)
    shared = sum("memfd:" in opened(f"{folder}/fd/{fd}") for fd in os.listdir(f"{folder}/fd"))
    return {"mapped": mapped, "shared memory": shared, "files": server.open_files(),
            "threads": len(os.listdir(f"{folder}/task"))}


def opened(link):
    """What a descriptor is of; empty: it has just been closed."""
    try:
        return os.readlink(link)
    except FileNotFoundError:
        return ""


def settled(server):
    """The same once it stays as it is: connections take a moment to close."""
    last = held(server)
    for _ in range(40):
        time.sleep(0.25)
        now = held(server)
        if now == last:
            break
        last = now
    return last


def kill_once(server):
    pid = poll("level 0 to be current in a worker", 60, lambda: worker(server))
    os.kill(pid, signal.SIGKILL)
    poll("the death to be noticed", 60, lambda: worker(server) != pid)


def kill_often(server, times):
    with Load(server) as load:
        for _ in range(times):
            kill_once(server)
        poll("level 0 to be current in a worker", 60, lambda: worker(server))
    assert load.bad == []
    return load


def test_kills_in_a_row_cost_no_request_and_leave_nothing(server):
    kill_often(server, WARM_UP)
    before, rss = settled(server), server.rss_bytes()
    load = kill_often(server, KILLS)
    after, grown = settled(server), server.rss_bytes() - rss
    print(f"{KILLS} kills: {load.levels} answers by level; {before} -> {after}; "
          f"resident memory {rss >> 10} KiB, grown by {grown >> 10} KiB")
    found = server.levels("fashion")[0]["worker"]
    assert found["restarts"] >= KILLS + WARM_UP and found["class"] == "died"
    assert found["abandoned"] == 0
    assert load.levels[0] > 0 and load.levels[1] > 0
    assert children(server) == (1, 0)
    for what, count in after.items():
        assert count <= before[what] + 4, f"{what}: {before} -> {after}"
    assert grown < RSS_SLACK_BYTES + KILLS * RSS_A_KILL_BYTES
