"""An operator's hand on the ladder: pins, levels taken out and put back, and who may do that."""
import json
import os
import signal

import pytest

import client
import samples
from server import DEMO_MODELS, Server, poll, run_to_end

IMAGE = {"image": samples.fashion_images()[:1]}
TOKEN = "k3y-of-the-operator"
CONFIG = """\
default_levels:
  cpu: {keep: always, isolation: process}
  cpu-int8: {keep: always}
  cpu-small: {keep: always}
policy: {hold_ms: 300, hold_cap_ms: 300, probe_every_ms: 50, cooldown_ms: 100, canary_stage_min_ms: 0}
"""
PATH = "/v2/models/fashion/ladder"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    (root / "fashion").mkdir()
    (root / "fashion" / "1").symlink_to(DEMO_MODELS / "fashion" / "1")
    (root / "fashion" / "gradus.yaml").write_text(CONFIG)
    (root / "broken").mkdir()
    odd = os.fsencode(root) + b"/odd\xff"  # no UTF-8
    os.mkdir(odd)
    os.symlink(os.fsencode(DEMO_MODELS / "fashion" / "1"), odd + b"/1")
    return root


def started(models, *arguments):
    server = Server(models, "--providers", "cpu", *arguments)
    try:
        server.wait_loaded("fashion")
        yield server
        server.stop()
    finally:
        server.kill()


@pytest.fixture(scope="module")
def local(models):
    yield from started(models, "--allow-admin-from-loopback")


@pytest.fixture(scope="module")
def token_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("token") / "token"
    path.write_text(TOKEN + "\n")
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def guarded(models, token_file):
    yield from started(models, "--admin-token-file", token_file)


def tell(server, command, **headers):
    body = command if isinstance(command, str) else json.dumps(command)
    return server.client.post(PATH, body.encode(), headers)


def current(server):
    return server.ladder("fashion")["current_level"]


def answered_by(server, level):
    answer = server.client.infer("fashion", IMAGE)
    assert answer.status == 200 and answer.outputs["logits"].argmax() == 9
    return answer.parameters["level"] == level


def metrics(server):
    return client.Client("127.0.0.1", server.metrics_port).get("/metrics").body.decode()


def gradus(server, *words):
    return run_to_end("ladder", "--url", f"http://127.0.0.1:{server.port}", *words)


def test_models_are_listed(local):
    assert local.client.get("/v2/models").json == {"models": ["broken", "fashion"]}


def test_a_pin_moves_the_ladder_until_it_is_taken_back(local):
    answer = tell(local, {"pin": 3, "for": "15m", "reason": "a new driver"})
    assert answer.status == 200, answer.body
    assert answer.json["current_level"] == 3 and answer.json["pin"]["level"] == 3
    assert answer.json["pin"]["reason"] == "a new driver" and answer.json["pin"]["until"]
    assert answer.json["transitions"][-1]["cause"] == "pinned"
    assert answered_by(local, 3)
    assert 'gradus_ladder_pinned_level{model="fashion",version="1"} 3' in metrics(local)
    assert tell(local, {"unpin": True}).json["pin"] is None
    poll("level 1 to have held", 10, lambda: answered_by(local, 1))
    assert "gradus_ladder_pinned_level{" not in metrics(local)
    assert local.log.count("an operator pins level 3 of model 'fashion' for 900 s: a new driver") == 1
    assert "event=command model=fashion peer=127.0.0.1" in local.log


def test_a_pin_ends_by_itself(local):
    assert tell(local, {"pin": 2, "for": "1s"}).json["current_level"] == 2
    poll("the pin to end and level 1 to be back", 10, lambda: answered_by(local, 1))
    assert local.ladder("fashion")["pin"] is None


def test_a_level_is_taken_out_and_put_back(local):
    ladder = tell(local, {"disable": 1, "reason": "its fan is loud"}).json
    level = ladder["levels"][0]
    assert (level["level"], level["state"]) == (1, "disabled")
    assert level["reason"] == "by an operator: its fan is loud"
    assert ladder["current_level"] == 2 and not ladder["degraded"]
    assert ladder["transitions"][-1]["cause"] == "left_out"
    assert answered_by(local, 2)
    assert local.levels("fashion")[1]["running"] == 0
    assert 'gradus_ladder_level_state{model="fashion",version="1",level="1",state="disabled"} 1' \
        in metrics(local)
    assert local.client.infer("fashion", IMAGE, parameters={"max_level": 1}).status == 503
    assert tell(local, {"enable": 1}).status == 200
    poll("level 1 to have held", 10, lambda: answered_by(local, 1))
    assert local.ladder("fashion")["transitions"][-1]["cause"] == "promoted"


def test_a_disabled_levels_worker_may_die_and_come_back(local):
    def worker():
        return local.client.get("/v2/workers").json["workers"][0]
    assert tell(local, {"disable": 1}).status == 200
    dead = worker()["pid"]
    os.kill(dead, signal.SIGKILL)
    poll("another worker to run", 20, lambda: (
        answered_by(local, 2) and worker()["state"] == "running" and worker()["pid"] != dead))
    assert local.levels("fashion")[1]["state"] == "disabled"
    assert "level 1 'cpu' is unavailable" not in local.log, "nobody misses it"
    assert tell(local, {"enable": 1}).status == 200
    poll("level 1 to have held", 20, lambda: answered_by(local, 1))


@pytest.mark.parametrize("command, status, part", [
    ({"pin": 0}, 400, "model 'fashion' has no such level, it has 1, 2, 3"),
    ({"pin": 2, "for": "2y"}, 400, "'2y'; expected 1s to 30d"),
    ({"pin": 2, "unpin": True}, 400, "'pin' and 'unpin' at once"),
    ({"pin": 2, "level": 3}, 400, '{"disable": LEVEL}'),
    ("{pin: 2}", 400, "malformed JSON"),
])
def test_what_cannot_be_is_refused(local, command, status, part):
    answer = tell(local, command)
    assert answer.status == status and part in answer.error
    assert current(local) == 1


def test_the_last_level_stays(local):
    for level in (2, 3):
        assert tell(local, {"disable": level}).status == 200
    answer = tell(local, {"disable": 1})
    assert answer.status == 503 and "is the last one that is left" in answer.error
    answer = tell(local, {"pin": 3})
    assert answer.status == 503 and "level 3 is disabled" in answer.error
    for level in (2, 3):
        assert tell(local, {"enable": level}).status == 200
    assert answered_by(local, 1)


def test_a_browsers_page_is_not_the_operator(local):
    answer = tell(local, {"pin": 2}, Origin="http://evil.example")
    assert answer.status == 403 and current(local) == 1


def test_the_token_is_needed_and_enough(guarded):
    for header in ({}, {"Authorization": f"Bearer {TOKEN}x"}, {"Authorization": TOKEN}):
        answer = tell(guarded, {"pin": 2}, **header)
        assert answer.status == 401 and "--admin-token-file" in answer.error
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert current(guarded) == 1
    assert tell(guarded, {"pin": 2}, Authorization=f"Bearer {TOKEN}").status == 200
    assert answered_by(guarded, 2)
    assert tell(guarded, {"unpin": True}, Authorization=f"Bearer {TOKEN}").status == 200
    assert TOKEN not in guarded.log


def test_without_a_flag_nobody_may(start, models):
    server = start(models, "--providers", "cpu")
    server.wait_loaded("fashion")
    answer = tell(server, {"pin": 2})
    assert answer.status == 403 and "--allow-admin-from-loopback" in answer.error
    assert current(server) == 1
    code, out, err = gradus(server, "fashion", "disable", "1")
    assert (code, out) == (1, "") and err.count("\n") == 1 and "--admin-token-file" in err
    assert gradus(server, "fashion")[0] == 0, "looking is free"


def test_a_token_that_is_no_secret_is_refused(models, tmp_path):
    def fault(text, mode, *more):
        path = tmp_path / "token"
        path.write_text(text)
        path.chmod(mode)
        code, _, err = run_to_end("serve", "--model-repository", models, "--http-port", "0",
                                  "--admin-token-file", path, *more)
        assert code == 2
        return err
    assert "is open to every user; chmod 600 it" in fault(TOKEN, 0o644)
    assert "must hold one line" in fault("\n", 0o600)
    assert "must hold one line" in fault("", 0o600, "--check-config")


def test_a_shell_shows_all_ladders(local):
    code, out, err = gradus(local)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].split() == ["MODEL", "LEVEL", "NOW", "STATE", "BREAKER", "P99/TARGET", "ms",
                                "CANARY", "PIN", "WHY"]
    assert [line.split()[0] for line in lines[1:]] == ["broken", "fashion", "fashion", "fashion"]
    assert "has no version folder" in lines[1]
    assert lines[2].split()[:6] == ["fashion", "1", "cpu", "*", "ready", "closed"]
    assert "/800" in lines[2] and "*" not in lines[3] + lines[4]


def test_a_folder_whose_name_is_no_text_is_no_model(local):
    assert "odd" not in metrics(local), "one odd byte, and Prometheus refuses all of it"
    assert "no name for a model: must be UTF-8" in local.log


def test_a_shell_commands(guarded, token_file):
    key = ("--token-file", token_file)
    code, out, err = gradus(guarded, "fashion", "pin", 3, "--for", "15m", "--reason", "night shift",
                            *key)
    assert (code, err) == (0, "")
    pinned = [line for line in out.splitlines() if line.startswith("fashion  3 cpu-small")][0]
    assert " * " in pinned and " until 20" in pinned and "pinned: night shift" in pinned
    assert answered_by(guarded, 3)
    assert gradus(guarded, "fashion", "unpin", *key)[0] == 0
    code, out, _ = gradus(guarded, "fashion", "disable", 2, *key)
    assert code == 0 and "disabled" in out and "by an operator" in out
    code, out, _ = gradus(guarded, "fashion", "enable", 2, *key)
    assert code == 0 and "disabled" not in out


def test_a_shell_says_what_went_wrong(guarded, token_file):
    key = ("--token-file", token_file)
    for words, code, part in [
            (("fashion", "pin", 2), 1, "Authorization: Bearer TOKEN"),
            (("fashion", "pin", 9, *key), 1, "level = 9: model 'fashion' has no such level"),
            (("fashion", "pin", 2, "--for", "soon", *key), 1, "expected 1s to 30d"),
            (("nothing",), 1, "unknown model 'nothing'"),
            (("broken",), 1, "has no version folder"),
            (("fashion", "lift", 2), 2, "must be pin, unpin, disable or enable"),
            (("fashion", "pin"), 2, "must be followed by the level's number"),
            (("fashion", "pin", "two"), 2, "not 'two'"),
            (("fashion", "unpin", 2), 2, "unpin takes no level"),
            (("fashion", "disable", 2, "--for", "1m"), 2, "--for goes with pin only"),
            (("fashion", "--reason", "x"), 2, "go with a command"),
            (("--token-file", token_file.parent / "none"), 2, "holds no token")]:
        got, out, err = gradus(guarded, *words)
        assert (got, out) == (code, "") and part in err, (words, got, err)
    ladder = guarded.ladder("fashion")
    assert ladder["pin"] is None and "disabled" not in str(ladder["levels"])
    for url, code, part in (("https://host", 2, "must be http://HOST:PORT"),
                            ("http://127.0.0.1:1", 1, "connecting to 127.0.0.1 port 1")):
        got, out, err = run_to_end("ladder", "--url", url)
        assert (got, out) == (code, "") and part in err, (url, got, err)
