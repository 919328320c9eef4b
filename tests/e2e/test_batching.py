"""Requests that run together give the answers of single ones, and the queue says who waits."""
import threading

import numpy as np
import pytest

import samples
from server import DEMO_MODELS

PROSE = " ".join(sentence.text for sentence in samples.sentences()).encode()
LENGTHS = [round(3 + i * 125 / 63) for i in range(64)]  # 3 to 128 tokens
LANGID = """\
levels:
  - {name: cpu, file: model.onnx, providers: [cpu], keep: always, max_batch_size: 16,
     instances: 1, join: always, max_padding_waste: 0.5}
"""
FASHION = """\
levels:
  - {name: cpu, file: model.onnx, providers: [cpu], keep: always, max_batch_size: 8,
     instances: 1, join: always}
"""


def tokens(i):
    """input_ids and attention_mask of a text of its own for each i, [1, LENGTHS[i]]"""
    ids = np.array([[257, *PROSE[i:i + LENGTHS[i] - 1]]], np.int64)
    return {"input_ids": ids, "attention_mask": np.ones_like(ids)}


@pytest.fixture
def serve(start, tmp_path):
    def started(model, config):
        folder = tmp_path / "models" / model
        folder.mkdir(parents=True)
        (folder / "1").symlink_to(DEMO_MODELS / model / "1")
        (folder / "gradus.yaml").write_text(config)
        server = start(tmp_path / "models", "--providers", "cpu")
        server.wait_loaded(model)
        return server
    return started


def all_at_once(ask, count):
    """ask(i) for each i, each on a thread of its own; the answers in order."""
    answers = [None] * count
    barrier = threading.Barrier(count)

    def run(i):
        barrier.wait(60)
        answers[i] = ask(i)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return answers


def executions(server, model):
    return server.levels(model)[0]["served"]


def test_texts_of_unequal_lengths_run_together_and_get_the_answers_of_single_runs(serve):
    server = serve("langid", LANGID)
    inputs = [tokens(i) for i in range(64)]
    assert {ids["input_ids"].shape[1] for ids in inputs} >= {3, 128}
    alone = [server.client.infer("langid", each, binary_output=True) for each in inputs]
    before = executions(server, "langid")
    together = all_at_once(
        lambda i: server.client.infer("langid", inputs[i], binary_output=True), len(inputs))
    for one, other in zip(alone, together):
        assert (one.status, other.status) == (200, 200), other.body
        np.testing.assert_allclose(other.outputs["logits"], one.outputs["logits"], atol=2e-4)
        assert other.outputs["logits"].argmax() == one.outputs["logits"].argmax()
    assert executions(server, "langid") - before < len(inputs) / 2


def test_pictures_that_run_together_get_the_answers_of_single_runs(serve):
    server = serve("fashion", FASHION)
    images = samples.fashion_images()[:64]

    def ask(i):
        return server.client.infer("fashion", {"image": images[i:i + 1]}, binary_output=True)

    alone = [ask(i) for i in range(len(images))]
    before = executions(server, "fashion")
    together = all_at_once(ask, len(images))
    for one, other in zip(alone, together):
        assert other.status == 200, other.body
        np.testing.assert_array_equal(other.outputs["logits"], one.outputs["logits"])
    assert executions(server, "fashion") - before < len(images)


def test_a_request_larger_than_a_batch_is_run_in_parts(serve):
    server = serve("fashion", FASHION)
    images = samples.fashion_images()[:50]
    answer = server.client.infer("fashion", {"image": images}, binary_output=True)
    assert answer.outputs["logits"].shape == (50, 10)
    right = (answer.outputs["logits"].argmax(axis=1) == samples.fashion_labels()[:50]).mean()
    assert right > 0.85
    singles = [server.client.infer("fashion", {"image": images[i:i + 1]}, binary_output=True)
               for i in (0, 7, 8, 49)]
    for i, single in zip((0, 7, 8, 49), singles):
        np.testing.assert_array_equal(answer.outputs["logits"][i:i + 1], single.outputs["logits"])


@pytest.mark.parametrize("parameters, headers", [
    ({"tier": "batch"}, {}), ({"priority": 3}, {}), ({}, {"gradus-tier": "realtime"})])
def test_tiers_are_taken_in_each_of_their_forms(serve, parameters, headers):
    server = serve("fashion", FASHION)
    answer = server.client.infer("fashion", {"image": samples.fashion_images()[:1]},
                                 parameters=parameters, headers=headers)
    assert answer.status == 200 and answer.outputs["logits"].argmax() == 9


@pytest.mark.parametrize("parameters, headers, said", [
    ({"tier": "urgent"}, {}, "'realtime', 'standard' or 'batch'"),
    ({"tier": 1}, {}, "parameter 'tier'"),
    ({"priority": -1}, {}, "parameter 'priority'"),
    ({}, {"gradus-tier": "urgent"}, "header gradus-tier is 'urgent'")])
def test_unknown_tiers_are_refused_with_the_known_ones(serve, parameters, headers, said):
    server = serve("fashion", FASHION)
    answer = server.client.infer("fashion", {"image": samples.fashion_images()[:1]},
                                 parameters=parameters, headers=headers)
    assert answer.status == 400 and said in answer.error
