"""A server: an identity of each datatype, a slow model with a short queue, a broken one. Another
one that takes no commands and loses workers."""
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "e2e"), str(TESTS / "support")]

import busy  # noqa: E402
import identity  # noqa: E402
from fault_control import Control  # noqa: E402
from grpc_client import GrpcClient  # noqa: E402
from server import BINARY, TEST_MODELS, Server  # noqa: E402

ONE_LEVEL = "levels: [{name: cpu, file: model.onnx, providers: [cpu], instances: 1,"
DEADLY = """\
levels:
  - {name: one, file: model.onnx, providers: [FaultExecutionProvider], device_ids: [0],
     keep: always}
  - {name: other, file: model.onnx, providers: [FaultExecutionProvider], device_ids: [1],
     keep: always}
policy: {hold_ms: 600000, probe_every_ms: 600000, hedge_share: 0}  # no probe takes an order
"""
MAX_INPUT = 1_000_000  # bytes of a request
LEAVE = "Bearer of-the-operator"  # to change settings


@pytest.fixture(scope="session")
def gradus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("conformance")
    models = folder / "models"
    identity.write_models(models)
    for name, source, config in (
            ("busy", "busy", ONE_LEVEL + " target_p99_ms: 10000}]\n"),
            ("nan", "log_or_copy", ONE_LEVEL + " check_outputs: finite}]\n")):
        (models / name).mkdir()
        (models / name / "1").symlink_to(TEST_MODELS / source / "1")
        (models / name / "gradus.yaml").write_text(config)
    (models / "broken" / "1").mkdir(parents=True)
    (models / "broken" / "1" / "model.onnx").write_bytes(b"no model")
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(LEAVE.split()[1])
    (folder / "server.yaml").write_text(
        f"model_repositories: [{models}]\nmodel_control_mode: explicit\nload_models: '*'\n"
        f"trace: {{file: {folder}/trace.json}}\nadmin: {{token_file: {token}}}\n"
        "allow_client_shm: true\nproviders: [cpu]\nmax_queue_size: 1\n"
        f"exit_timeout_ms: 0\nhttp: {{max_input_size: {MAX_INPUT}}}\n"
        f"grpc: {{max_input_size: {MAX_INPUT}}}\n")
    server = Server([], "--config", folder / "server.yaml", wait="listening")
    try:
        server.wait_loaded(*(f"identity_{name.lower()}" for name in identity.DATATYPES))
        server.steps = busy.steps_for(server, 1.0)
        yield server
        server.stop()
    finally:
        server.kill()


@pytest.fixture
def closed(tmp_path):
    """Takes no commands; its model `deadly` loses the workers of its next two runs."""
    model = tmp_path / "models" / "deadly"
    model.mkdir(parents=True)
    (model / "1").symlink_to(TEST_MODELS / "log_or_copy" / "1")
    (model / "gradus.yaml").write_text(DEADLY)
    (tmp_path / "server.yaml").write_text(
        f"provider_libraries: {{FaultExecutionProvider: {BINARY.parent}/libgradus_fault_ep.so}}\n"
        "worker_restart_backoff_ms: 30000\nexit_timeout_ms: 0\n")
    control = Control(tmp_path / "control", create=True, devices=2)
    server = Server(tmp_path / "models", "--config", tmp_path / "server.yaml",
                    env={"GRADUS_FAULT_CONTROL": control.path})
    try:
        server.wait_loaded("deadly")
        control.order("run", "exit", count=2)
        yield server
        server.stop()
    finally:
        server.kill()


@pytest.fixture(scope="session")
def rpc(gradus):
    with GrpcClient(gradus.grpc_port) as found:
        yield found
