"""Triton's own gRPC client, unchanged, from PyPI into build/deps; one of the long tests."""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import samples
from server import ROOT

pytestmark = pytest.mark.skipif(not os.environ.get("GRADUS_LONG"),
                                reason="fetches packages; GRADUS_LONG=1 runs it")
PACKAGES = ["tritonclient==2.73.0", "grpcio==1.85.3", "protobuf==7.36.2", "numpy==2.4.6",
            "python-rapidjson==1.25"]
FOLDER = ROOT / "build" / "deps" / "tritonclient-2.73.0"


def fetched():
    """The packages' folder; skips the test when they cannot be had."""
    if not FOLDER.is_dir():
        part = FOLDER.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        done = subprocess.run(
            [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary", ":all:",
             "--target", part, *PACKAGES], capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            pytest.skip(f"pip cannot fetch {PACKAGES[0]}: {done.stderr.strip()[-300:]}")
        part.rename(FOLDER)
    return FOLDER


def test_it_works_as_its_users_expect(demo, tmp_path):
    packages = fetched()
    np.save(tmp_path / "image.npy", samples.fashion_images()[:1])
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("triton_grpc.py"), str(demo.grpc_port), tmp_path],
        env={**os.environ, "PYTHONPATH": str(packages), "no_proxy": "127.0.0.1"},
        capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "all is as it is with Triton\n"
