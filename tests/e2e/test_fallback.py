"""A level that cannot answer, or not in time: the next one does, in the same request."""
import os
import threading
import time

import numpy as np
import pytest

import busy
import samples
from server import DEMO_MODELS, TEST_MODELS, poll

IMAGE = {"image": samples.fashion_images()[:1]}
POSITIVE, NEGATIVE = ({"x": np.array(x, np.float32)} for x in ([1, 2.5], [-1, 2.5]))


@pytest.fixture
def faulty(start, repository):
    """`faulty`: level 1 is log(x), NaN below 0 and a failure by check_outputs; level 2 copies."""
    server = start(repository(faulty=TEST_MODELS / "log_or_copy"), "--providers", "cpu")
    server.wait_loaded("faulty")
    return server


def outcome(server, x, **parameters):
    answer = server.client.infer("faulty", x, binary_output=True, parameters=parameters)
    assert answer.status == 200, answer.body
    return answer.parameters["level"], answer.outputs["y"]


def test_outputs_that_are_not_finite_fall_to_the_next_level_in_the_same_request(faulty):
    level, y = outcome(faulty, POSITIVE)
    assert level == 1
    np.testing.assert_allclose(y, np.log(POSITIVE["x"]), rtol=1e-5)
    level, y = outcome(faulty, NEGATIVE)
    assert level == 2
    np.testing.assert_array_equal(y, NEGATIVE["x"])
    answer = faulty.client.infer("faulty", NEGATIVE)
    assert answer.headers["gradus-level"] == "2"
    levels = faulty.levels("faulty")
    assert levels[1]["failed"] == 2 and levels[2]["failed"] == 0
    assert outcome(faulty, POSITIVE)[0] == 1  # two failures, not three in a row


def test_three_failures_in_a_row_move_the_ladder_down_and_it_says_so(faulty):
    for _ in range(3):
        level, y = outcome(faulty, NEGATIVE)
        assert level == 2
        np.testing.assert_array_equal(y, NEGATIVE["x"])
    ladder = faulty.ladder("faulty")
    assert ladder["current_level"] == 2
    assert ladder["degraded"] is True
    levels = {level["level"]: level for level in ladder["levels"]}
    assert levels[1]["breaker"] == "open" and levels[1]["failed"] == 3
    move = ladder["transitions"][-1]
    assert (move["from"], move["to"]) == (1, 2)
    assert move["cause"] and move["evidence"]
    assert outcome(faulty, POSITIVE)[0] == 2  # the lost level costs the next requests nothing
    after = faulty.levels("faulty")
    assert after[1]["failed"] == 3
    answer = faulty.client.infer("faulty", POSITIVE)
    assert answer.parameters["degraded"] is True


def test_a_request_that_accepts_only_the_failing_level_gets_503(faulty):
    answer = faulty.client.infer("faulty", NEGATIVE, parameters={"max_level": 1})
    assert answer.status == 503
    assert int(answer.headers["Retry-After"]) >= 1
    assert "level 1" in answer.error and "'y'" in answer.error
    assert outcome(faulty, POSITIVE, max_level=1)[0] == 1


def test_an_open_breaker_alone_refuses_nobody(faulty):
    for _ in range(4):
        outcome(faulty, NEGATIVE)
    assert faulty.levels("faulty")[1]["breaker"] == "open"
    level, y = outcome(faulty, POSITIVE, max_level=1)
    assert level == 1
    np.testing.assert_allclose(y, np.log(POSITIVE["x"]), rtol=1e-5)


@pytest.fixture
def server(start, repository):
    found = start(repository(busy=TEST_MODELS / "busy", fashion=DEMO_MODELS / "fashion"),
                  "--providers", "cpu")
    found.wait_loaded("busy", "fashion")
    return found


@pytest.mark.parametrize("headers, parameters, said", [
    ({"gradus-timeout-ms": "300"}, {}, "300000 us"), ({}, {"timeout": 300_000}, "300000 us"),
    ({"gradus-timeout-ms": "300"}, {"timeout": 60_000_000}, "300000 us"),
    ({"gradus-timeout-ms": "60000"}, {"timeout": 300_000}, "300000 us")],
    ids=["header", "parameter", "header-earlier", "parameter-earlier"])
def test_the_earliest_deadline_given_is_kept(server, headers, parameters, said):
    steps = busy.steps_for(server, 8.0)
    begun = time.monotonic()
    answer = server.client.infer("busy", busy.inputs(steps), headers, parameters=parameters)
    took = time.monotonic() - begun
    assert answer.status == 504
    assert said in answer.error
    assert 0.29 < took < 4
    poll("the server to answer in time again", 10, lambda: server.client.infer(
        "fashion", IMAGE, {"gradus-timeout-ms": "1000"}).status == 200)


def test_a_deadline_that_is_met_is_no_error(server):
    answer = server.client.infer("busy", busy.inputs(10), {"gradus-timeout-ms": "5000"},
                                 parameters={"timeout": 5_000_000})
    assert answer.status == 200


def test_the_models_default_deadline_holds(start, repository, tmp_path):
    folder = tmp_path / "models" / "busy"
    folder.mkdir(parents=True)
    (folder / "1").symlink_to(TEST_MODELS / "busy" / "1")
    (folder / "gradus.yaml").write_text("default_timeout_ms: 250\n")
    server = start(tmp_path / "models", "--providers", "cpu")
    steps = busy.steps_for(server, 8.0)
    begun = time.monotonic()
    answer = server.client.infer("busy", busy.inputs(steps))
    assert answer.status == 504 and "250000 us" in answer.error
    assert time.monotonic() - begun < 4


def test_a_deadline_that_passes_in_the_queue_is_answered_then(server):
    steps = busy.steps_for(server, 1.5)
    blockers = [threading.Thread(target=server.client.infer, args=("busy", busy.inputs(steps)))
                for _ in range(4 * len(os.sched_getaffinity(0)))]
    for thread in blockers:
        thread.start()
    poll("a queue", 10, lambda: server.client.infer(
        "busy", busy.inputs(1), {"gradus-timeout-ms": "100"}).status == 504)
    before = server.levels("busy")[1]
    begun = time.monotonic()
    answer = server.client.infer("busy", busy.inputs(steps), {"gradus-timeout-ms": "200"})
    assert answer.status == 504
    assert time.monotonic() - begun < 2
    for thread in blockers:
        thread.join(60)
    poll("the queue to be empty", 20, lambda: server.client.infer(
        "busy", busy.inputs(1), {"gradus-timeout-ms": "1000"}).status == 200)
    after = server.levels("busy")[1]
    assert after["served"] + after["failed"] - before["served"] - before["failed"] <= 10, \
        "what expired in the queue was not run"


def test_a_full_queue_refuses_at_once(start, repository, tmp_path):
    config = tmp_path / "server.yaml"
    config.write_text("max_queue_size: 2\n")
    server = start(repository(busy=TEST_MODELS / "busy"), "--providers", "cpu", "--config", config)
    steps = busy.steps_for(server, 2.0)
    answers = []

    def ask():
        begun = time.monotonic()
        answer = server.client.infer("busy", busy.inputs(steps), {"gradus-timeout-ms": "60000"})
        answers.append((answer, time.monotonic() - begun))

    threads = [threading.Thread(target=ask) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    refused = [(answer, took) for answer, took in answers if answer.status == 429]
    served = [answer for answer, _ in answers if answer.status == 200]
    assert len(refused) + len(served) == 24 and len(served) >= 3 and refused
    for answer, took in refused:
        assert "full" in answer.error and int(answer.headers["Retry-After"]) >= 1
    assert min(took for _, took in refused) < 1.0
    levels = server.levels("busy")
    assert levels[1]["failed"] == 0 and levels[1]["breaker"] == "closed"


@pytest.mark.parametrize("parameters, says", [
    ({"min_level": 4}, "min_level"), ({"min_level": 3, "max_level": 2}, "min_level"),
    ({"max_level": -1}, "max_level"), ({"min_level": 2 ** 40}, "min_level"),
    ({"min_level": True}, "min_level"), ({"max_level": "3"}, "max_level")],
    ids=lambda value: str(value))
def test_levels_out_of_range_are_the_requests_fault(server, parameters, says):
    answer = server.client.infer("fashion", IMAGE, parameters=parameters)
    assert answer.status == 400
    assert says in answer.error
