"""`gradus drill` with level 0 on a real provider: WebGPU, on a Vulkan driver that emulates a GPU."""
import json
import os

import pytest

from server import DEMO_MODELS, SOFTWARE_GPU, WITH_SOFTWARE_GPU, run_to_end

pytestmark = pytest.mark.skipif(not os.environ.get("GRADUS_LONG"),
                                reason="shaders are compiled for minutes: ./dev test --long")
SHORT = ("--hold", 1, "--max-hold", 1, "--cooldown", 1, "--breaker", 1, "--restart-backoff", 0.1)
# The target sets a hung run's limit, ten times it; an emulated run takes some tens of milliseconds.
# Each size of batch would be compiled for each of the workers.
CONFIG = "default_levels: {gpu: {allow_software_gpu: true, target_p99_ms: 600, max_batch_size: 1}}\n"
CLASSES = {"kill": "died", "stop": "hung", "nolib": "start", "norestart": "died"}
LIMIT_S = 300  # shaders are compiled again for each worker, on a busy machine


@pytest.fixture(scope="module")
def drilled(tmp_path_factory):
    """(exit code, the report's entries by fault, all that was printed)."""
    assert SOFTWARE_GPU.exists(), f"{SOFTWARE_GPU} is missing: run ./dev setup"
    root = tmp_path_factory.mktemp("drill")
    (root / "models" / "fashion").mkdir(parents=True)
    (root / "models" / "fashion" / "1").symlink_to(DEMO_MODELS / "fashion" / "1")
    (root / "models" / "fashion" / "gradus.yaml").write_text(CONFIG)
    report = root / "report.json"
    code, out, err = run_to_end(
        "drill", "--model-repository", root / "models", "--model", "fashion", "--provider", "webgpu",
        "--fault", ",".join(CLASSES), *SHORT, "--json", report, env=WITH_SOFTWARE_GPU,
        limit_s=LIMIT_S)
    entries = json.loads(report.read_text())["faults"] if report.exists() else []
    return code, {entry["fault"]: entry for entry in entries}, out + err


def test_a_drill_on_webgpu_ends_well(drilled):
    code, entries, said = drilled
    assert code == 0, said
    assert list(entries) == list(CLASSES)


@pytest.mark.parametrize("fault", CLASSES)
def test_the_loss_of_its_worker_costs_no_request(drilled, fault):
    entry = drilled[1][fault]
    assert (entry["failed"], entry["wrong"], entry["transitions_down"]) == (0, 0, 1)
    assert entry["class"] == CLASSES[fault]
    assert entry["answered_by_level"]["0"] > 0 and entry["answered_by_level"]["1"] > 0
    assert entry["back_at_level0_s"] >= 1, "that is the hold"
