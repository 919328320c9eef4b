"""Models and versions that come and go while others, and they themselves, are asked for."""
import base64
import json
import os
import shutil
import subprocess
import threading
import time

import numpy as np
import pytest

import samples
from server import BINARY, DEMO_MODELS, TEST_MODELS, poll

LONG = "GRADUS_LONG" in os.environ
IMAGES = samples.fashion_images()
LABELS = samples.fashion_labels()
GOOD = [i for i in range(20) if i not in (12, 17)]  # those whose class every variant finds
FILES = DEMO_MODELS / "fashion" / "1"


def add_version(model, number, variant="model.onnx"):
    """As careful people do it: whole, under another name, then renamed."""
    hidden = model / f".{number}"
    hidden.mkdir(parents=True)
    shutil.copy(FILES / variant, hidden / "model.onnx")
    hidden.rename(model / str(number))


def add_broken_version(model, number):
    folder = model / str(number)
    folder.mkdir()
    (folder / "model.onnx").write_bytes((FILES / "model.onnx").read_bytes()[:1000])
    return folder


@pytest.fixture
def root(tmp_path):
    add_version(tmp_path / "models" / "fashion", 1)
    return tmp_path / "models"


def post(server, path, body=None):
    return server.client.post(path, body=b"" if body is None else json.dumps(body).encode())


def load(server, name="fashion", **parameters):
    return post(server, f"/v2/repository/models/{name}/load", {"parameters": parameters})


def unload(server, name="fashion"):
    return post(server, f"/v2/repository/models/{name}/unload")


def index(server):
    return {(one["name"], one.get("version", "")): one["state"]
            for one in post(server, "/v2/repository/index").json}


def infer(server, which=0, version=None):
    return server.client.infer("fashion", {"image": IMAGES[which:which + 1]}, version=version)


def says_the_class(answer, which):
    return answer.status == 200 and np.argmax(next(iter(answer.outputs.values()))) == LABELS[which]


class Load:
    """So many requests a second from a thread, for the newest version or one by name, each answer
    kept."""

    def __init__(self, server, rate, version=None):
        self.server, self.rate, self.version, self.answers = server, rate, version, []
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        started = time.monotonic()
        while not self.over.is_set():
            which = GOOD[len(self.answers) % len(GOOD)]
            self.answers.append((which, infer(self.server, which, self.version)))
            self.over.wait(max(0, started + len(self.answers) / self.rate - time.monotonic()))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def failed(self):
        return [(which, answer.status, answer.body) for which, answer in self.answers
                if not says_the_class(answer, which)][:3]

    def versions(self):
        return [answer.json["model_version"] for _, answer in self.answers]

    def wait_for(self, more):
        wanted = len(self.answers) + more
        poll(f"{more} more answers", 60, lambda: len(self.answers) >= wanted)


def test_versions_change_under_load_and_no_request_fails(start, root):
    server = start(root, "--providers", "cpu", "--model-control-mode", "explicit",
                   "--load-model", "fashion")
    some = 10
    with Load(server, 20) as steady:
        steady.wait_for(some)
        add_version(root / "fashion", 2)
        assert load(server).status == 200
        steady.wait_for(some)
        broken = add_broken_version(root / "fashion", 3)
        refused = load(server)
        assert refused.status == 400 and "model 'fashion' version 3" in refused.error
        steady.wait_for(some)
        shutil.rmtree(broken)
        (root / "fashion" / "gradus.yaml").write_text("default_timeout_ms: 5000\n")
        assert load(server).status == 200
        steady.wait_for(some)
    assert not steady.failed()
    versions = steady.versions()
    assert set(versions) == {"1", "2"} and versions == sorted(versions)
    assert infer(server, version=1).status == 404
    assert index(server) == {("fashion", "2"): "READY"}


def test_two_versions_asked_by_name_answer_through_loads_and_no_request_fails(start, root):
    model = root / "fashion"
    add_version(model, 2, "model.small.onnx")
    (model / "gradus.yaml").write_text("version_policy: all\n")
    server = start(root, "--providers", "cpu", "--model-control-mode", "explicit",
                   "--load-model", "fashion")
    poll("both versions to be loaded", 30, lambda: set(index(server).values()) == {"READY"})
    some = 300 if LONG else 10  # four times; 20 a second
    began = time.monotonic()
    with Load(server, 20, 1) as first, Load(server, 20, 2) as second:
        first.wait_for(some)
        add_version(model, 3)
        assert load(server).status == 200
        assert infer(server).json["model_version"] == "3"
        first.wait_for(some)
        broken = add_broken_version(model, 4)
        refused = load(server)
        assert refused.status == 400 and "model 'fashion' version 4" in refused.error
        first.wait_for(some)
        shutil.rmtree(broken)
        (model / "gradus.yaml").write_text("version_policy: {specific: [1, 2]}\n")
        assert load(server).status == 200
        first.wait_for(some)
    took = time.monotonic() - began
    for version, steady in (("1", first), ("2", second)):
        assert not steady.failed()
        assert set(steady.versions()) == {version}
        assert not LONG or len(steady.answers) > 15 * took
    assert index(server) == {("fashion", "1"): "READY", ("fashion", "2"): "READY"}


def test_two_versions_at_once(start, root):
    add_version(root / "fashion", 2, "model.small.onnx")
    (root / "fashion" / "gradus.yaml").write_text("version_policy: {latest: 2}\n")
    server = start(root, "--providers", "cpu")
    poll("both versions to be loaded", 30, lambda: set(index(server).values()) == {"READY"})
    assert server.client.get("/v2/models/fashion").json["versions"] == ["1", "2"]
    first, second = infer(server, 0, 1), infer(server, 0, 2)
    assert first.json["model_version"] == "1" and second.json["model_version"] == "2"
    assert not np.array_equal(*(next(iter(a.outputs.values())) for a in (first, second)))
    assert infer(server).json["model_version"] == "2"


def test_poll_takes_what_has_come_to_rest(start, root):
    server = start(root, "--providers", "cpu", "--model-control-mode", "poll",
                   "--repository-poll-secs", "1")
    whole = (FILES / "model.onnx").read_bytes()
    version = root / "fashion" / "2"
    version.mkdir()
    with (version / "model.onnx").open("wb") as copy:  # for about three seconds
        for part in np.array_split(np.frombuffer(whole, np.uint8), 15):
            copy.write(part.tobytes())
            copy.flush()
            assert says_the_class(infer(server), 0)
            time.sleep(0.2)
    poll("version 2 to answer", 30, lambda: infer(server).json["model_version"] == "2")
    assert "cannot be loaded" not in server.log and "not served" not in server.log

    add_version(root / "late", 7)
    poll("a new model to answer", 30,
         lambda: server.client.infer("late", {"image": IMAGES[:1]}).status == 200)
    shutil.rmtree(root / "late")
    poll("the model to be gone", 30, lambda: ("late", "7") not in index(server))
    assert server.client.infer("late", {"image": IMAGES[:1]}).status == 404
    assert load(server).status == 503


def test_poll_takes_other_weights_that_lie_beside_the_model(start, root):
    shutil.copytree(TEST_MODELS / "external", root / "external")
    weights = root / "external" / "1" / "weights.bin"
    server = start(root, "--providers", "cpu", "--model-control-mode", "poll",
                   "--repository-poll-secs", "1")

    def answer():
        return server.client.infer("external", {"x": np.float32([3])}).outputs["y"].tolist()

    assert answer() == [6]
    before = weights.stat()
    other = weights.with_name(".other")
    other.write_bytes(np.float32([5]).tobytes())
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.rename(weights)
    poll("the other weights to be taken", 30, lambda: answer() == [15])


def test_a_model_is_loaded_from_what_a_client_sends(start, root):
    server = start(root, "--providers", "cpu", "--model-control-mode", "explicit",
                   "--load-model", "fashion")
    small = base64.b64encode((FILES / "model.small.onnx").read_bytes()).decode()
    before = infer(server).outputs
    assert load(server, **{"file:1/model.onnx": small}).status == 400
    config = json.dumps({"platform": "onnxruntime_onnx"})
    done = load(server, **{"file:1/model.onnx": small, "config": config})
    assert done.status == 200, done.body
    assert not np.array_equal(*(next(iter(o.values())) for o in (before, infer(server).outputs)))
    assert load(server).status == 200
    assert np.array_equal(*(next(iter(o.values())) for o in (before, infer(server).outputs)))


def test_what_a_killed_server_was_sent_is_removed_by_the_next_one(start, root, tmp_path):
    place = tmp_path / "temporary"
    place.mkdir()
    arguments = (root, "--providers", "cpu", "--model-control-mode", "explicit")

    def started():
        return start(*arguments, env={"TMPDIR": str(place)})

    def sent_to(server):
        before = set(place.iterdir())
        model = base64.b64encode((FILES / "model.small.onnx").read_bytes()).decode()
        assert load(server, **{"file:1/model.onnx": model, "config": json.dumps({"platform": "onnxruntime_onnx"})}).status == 200
        folder, = set(place.iterdir()) - before
        return folder

    killed, living = started(), started()
    left, used = sent_to(killed), sent_to(living)
    killed.kill()
    assert left.is_dir()
    started()
    assert list(place.iterdir()) == [used]
    assert (used / "1" / "model.onnx").is_file()
    assert infer(living).status == 200


def test_a_mounted_model_is_served_under_its_name(start, tmp_path):
    shutil.copytree(FILES, tmp_path / "mounted")
    server = start(tmp_path / "mounted", "--providers", "cpu", env={"MODEL_NAME": "fashion"})
    assert says_the_class(infer(server), 0)
    assert server.client.get("/v2/models").json == {"models": ["fashion"]}


def with_mnt_models(folder):
    """A command that runs another one where `folder` is /mnt/models, which nobody else sees."""
    script = ('mount -t tmpfs none /mnt && ln -s "$0" /mnt/models && '
              'exec setpriv --pdeathsig KILL "$@"')
    return ["unshare", "--map-root-user", "--mount", "sh", "-c", script, str(folder)]


@pytest.mark.parametrize("what", ["a model", "a repository"])
def test_without_a_repository_what_is_mounted_at_mnt_models_is_served(start, root, what):
    through = with_mnt_models(FILES if what == "a model" else root)
    if subprocess.run([*through, "test", "-x", BINARY], capture_output=True).returncode != 0:
        pytest.skip("no mount namespace may be made here, or the program lies in /mnt")
    env = {"MODEL_NAME": "fashion"} if what == "a model" else {}
    server = start([], "--providers", "cpu", "--exit-timeout-secs=0", through=through, env=env)
    assert says_the_class(infer(server), 0)
    assert server.client.get("/v2/models").json == {"models": ["fashion"]}


def test_loads_and_unloads_leak_nothing(start, root):
    (root / "fashion" / "gradus.yaml").write_text(
        "levels:\n"
        "  - {name: apart, file: model.onnx, providers: cpu, isolation: process}\n"
        "  - {name: here, file: model.onnx, providers: cpu, instances: 1, keep: always}\n")
    server = start(root, "--providers", "cpu", "--model-control-mode", "explicit")

    def cycle():
        assert load(server).status == 200
        assert says_the_class(infer(server), 0)
        assert unload(server).status == 200

    def threads():
        return len(os.listdir(f"/proc/{server.pid}/task"))

    def at_rest():
        poll("the model to be gone", 30,
             lambda: index(server) == {("fashion", ""): "UNAVAILABLE"})
        return server.rss_bytes(), server.open_files(), threads()

    for _ in range(8):
        cycle()
    rss, files, tasks = at_rest()
    cycles = 200 if LONG else 12
    for _ in range(cycles):
        cycle()
    poll("as many files and threads as before", 30,
         lambda: server.open_files() <= files and threads() <= tasks)
    grown = at_rest()[0] - rss
    # Each cycle has two sessions of a model of 2.7 MB; the allocator's own steps are some megabytes.
    assert grown < cycles * 50_000 + 16_000_000, f"{grown} bytes more after {cycles} cycles"


def test_nothing_stalls_while_models_come_and_go(start, root):
    add_version(root / "other", 1)
    server = start(root, "--providers", "cpu", "--model-control-mode", "explicit",
                   "--load-model", "fashion", "--load-model", "other")
    over = time.monotonic() + (60 if LONG else 4)
    longest, unexpected = {}, []

    def loop(what, call, expected):
        while time.monotonic() < over:
            begun = time.monotonic()
            answer = call()
            took = time.monotonic() - begun
            longest[what] = max(longest.get(what, 0), took)
            if answer.status not in expected:
                unexpected.append((what, answer.status, answer.body))

    calls = {
        "load and unload": (lambda: (load(server, "other"), unload(server, "other"))[1], {200}),
        "infer": (lambda: infer(server), {200}),
        "index": (lambda: post(server, "/v2/repository/index"), {200}),
        "statistics": (lambda: server.client.get("/v2/models/stats"), {200}),
        "health": (lambda: server.client.get("/v2/health/live"), {200}),
        "infer what comes and goes": (
            lambda: server.client.infer("other", {"image": IMAGES[:1]}), {200, 404, 503}),
    }
    threads = [threading.Thread(target=loop, args=(what, *call)) for what, call in calls.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not unexpected, unexpected[:3]
    assert max(longest.values()) < 2, longest
