"""One server for the clients of a file: eight models and two that are refused, every extension on,
and no GPU, which level 0 wants, so that each answer is a degraded one."""
import sys
from pathlib import Path

import numpy as np
import pytest

for folder in ("conformance", "e2e"):
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / folder))

import samples  # noqa: E402
import simple  # noqa: E402
from server import DEMO_MODELS, TEST_MODELS, Server  # noqa: E402

FLAGS = ("--model-control-mode=explicit", "--load-model=*", "--allow-client-shm=true",
         "--allow-admin-from-loopback", "--exit-timeout-secs=0")
KEEP_ALL = "default_levels:\n  cpu: {keep: always}\n"
# What each answer says of who answered it.
ANSWERED_BY = {"level": 1, "level_name": "cpu", "variant": "model.onnx", "degraded": True}


@pytest.fixture(scope="session")
def repository(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    for name, folder in {"fashion": DEMO_MODELS, "langid": DEMO_MODELS,
                         "every_type": TEST_MODELS, "busy": TEST_MODELS}.items():
        version = root / name / "1"
        version.mkdir(parents=True)
        (version / "model.onnx").symlink_to(folder / name / "1" / "model.onnx")
        (root / name / "gradus.yaml").write_text(KEEP_ALL)
    simple.write(root)
    return root


@pytest.fixture(scope="session")
def trace_file(tmp_path_factory):
    return tmp_path_factory.mktemp("traces") / "trace.json"


@pytest.fixture(scope="session")
def gradus(repository, trace_file):
    server = Server(repository, *FLAGS, "--trace-file", trace_file)
    try:
        server.wait_loaded("fashion", "langid", "every_type", "busy", *simple.ARITHMETIC,
                           "simple_identity")
        yield server
        server.stop()
    finally:
        server.kill()


@pytest.fixture(scope="session")
def image():
    """[1, 1, 28, 28] float32, an ankle boot: class 9"""
    return np.ascontiguousarray(samples.fashion_images()[:1])


@pytest.fixture(scope="session")
def sentence():
    """A German sentence."""
    return next(s for s in samples.sentences() if s.language == "de")


def answered_by(parameters):
    """Those of an answer's parameters that ANSWERED_BY has."""
    return {name: parameters.get(name) for name in ANSWERED_BY}
