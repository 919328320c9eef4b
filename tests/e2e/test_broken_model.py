"""A broken model shows its reason and never stops the others; --check-config finds every fault."""
import shutil

import pytest

import samples
from server import DEMO_MODELS, run_to_end

IMAGE = {"image": samples.fashion_images()[:1]}
GOOD = DEMO_MODELS / "fashion"
FAULTY_YAML = """\
default_timeout_ms: 0
default_levels:
  cpu: {threads: 0, colour: red, check_outputs: sometimes}
policy:
  error_rate: 1.5
  hold_ms: soon
"""
FAULTS = [("default_timeout_ms", "0", "86400000"), ("default_levels.cpu.threads", "0", "256"),
          ("default_levels.cpu.colour", "unknown key"),
          ("default_levels.cpu.check_outputs", "sometimes", "finite"),
          ("policy.error_rate", "1.5", "1"), ("policy.hold_ms", "soon", "integer")]


def truncated(root):
    """A model whose only file breaks off in the middle."""
    folder = root / "broken" / "1"
    folder.mkdir(parents=True)
    whole = (GOOD / "1" / "model.onnx").read_bytes()
    (folder / "model.onnx").write_bytes(whole[:len(whole) // 2])
    return "model.onnx"


def garbage(root):
    folder = root / "broken" / "1"
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(b"no model" * 100)
    return "model.onnx"


def faulty_yaml(root):
    shutil.copytree(GOOD, root / "broken")
    (root / "broken" / "gradus.yaml").write_text(FAULTY_YAML)
    return "default_levels.cpu.threads"


def no_yaml(root):
    shutil.copytree(GOOD, root / "broken")
    (root / "broken" / "gradus.yaml").write_text("levels: [}\n")
    return "gradus.yaml"


def no_version(root):
    (root / "broken").mkdir()
    return "version"


def no_file(root):
    (root / "broken" / "1").mkdir(parents=True)
    return "model.onnx"


def another_signature(root):
    """Levels that do not take the same inputs are no ladder."""
    folder = root / "broken" / "1"
    folder.mkdir(parents=True)
    shutil.copy(DEMO_MODELS / "upscale" / "1" / "model.onnx", folder / "model.onnx")
    shutil.copy(GOOD / "1" / "model.small.onnx", folder / "model.small.onnx")


BREAKAGES = [truncated, garbage, faulty_yaml, no_yaml, no_version, no_file]


@pytest.mark.parametrize("break_it", BREAKAGES, ids=lambda f: f.__name__)
def test_the_other_model_serves_and_the_broken_one_says_why(start, tmp_path, break_it):
    reason = break_it(tmp_path)
    (tmp_path / "good").symlink_to(GOOD)
    server = start(tmp_path, "--providers", "cpu")
    answer = server.client.infer("good", IMAGE)
    assert answer.parameters["level"] in (1, 2, 3)
    assert answer.outputs["logits"].argmax() == 9
    if server.client.get("/v2/models/broken/ladder").status == 200:  # its levels failed to load
        server.wait_loaded("broken")
        ladder = server.ladder("broken")
        assert [level["state"] for level in ladder["levels"]] == ["unavailable"]
        assert reason in ladder["levels"][0]["reason"]
    for ask in (lambda: server.client.get("/v2/models/broken/ready"),
                lambda: server.client.get("/v2/models/broken"),
                lambda: server.client.infer("broken", IMAGE)):
        refused = ask()
        assert refused.status == 503, refused.body
        assert reason in refused.error and "broken" in refused.error
        assert int(refused.headers["Retry-After"]) >= 1
    assert server.client.get("/v2/health/ready").status == 200
    assert reason in server.log


def test_a_level_of_another_signature_is_left_unavailable(start, tmp_path):
    another_signature(tmp_path)
    server = start(tmp_path, "--providers", "cpu")
    server.wait_loaded("broken")
    levels = server.levels("broken")
    states = sorted(level["state"] for level in levels.values())
    assert states == ["ready", "unavailable"], levels
    reason = next(level["reason"] for level in levels.values() if level["state"] == "unavailable")
    assert "logits" in reason or "upscaled" in reason, reason


def test_a_broken_variant_leaves_the_other_levels(start, tmp_path):
    shutil.copytree(GOOD, tmp_path / "half")
    (tmp_path / "half" / "1" / "model.int8.onnx").write_bytes(b"no model")
    server = start(tmp_path, "--providers", "cpu")
    server.wait_loaded("half")
    levels = server.levels("half")
    assert {n: level["state"] for n, level in levels.items()} == {
        1: "ready", 2: "unavailable", 3: "ready"}
    assert levels[2]["reason"]
    assert server.ladder("half")["degraded"] is False
    answer = server.client.infer("half", IMAGE, parameters={"min_level": 2})
    assert answer.parameters["level"] == 3
    refused = server.client.infer("half", IMAGE, parameters={"min_level": 2, "max_level": 2})
    assert refused.status == 503 and refused.headers["Retry-After"]


def check_config(*arguments, env=None):
    return run_to_end("serve", *arguments, "--check-config", env=env)


def test_check_config_prints_effective_values_that_load_again(tmp_path):
    (tmp_path / "models").mkdir()
    shutil.copytree(GOOD, tmp_path / "models" / "fashion")
    (tmp_path / "models" / "fashion" / "gradus.yaml").write_text(
        "default_levels:\n  cpu-int8: {target_p99_ms: 123}\npolicy: {hold_ms: 4567}\n")
    code, printed, said = check_config("--model-repository", tmp_path / "models", "--http-port",
                                       "18123", "--providers", "cpu")
    assert (code, said) == (0, "")
    for part in ("port: 18123", "CPUExecutionProvider", "max_input_size: 67108864",
                 "exit_timeout_ms: 30000", "target_p99_ms: 123", "hold_ms: 4567",
                 "cooldown_ms: 60000", "model fashion, version 1"):
        assert part in printed
    server_part, model_part = printed.split("---\n")
    (tmp_path / "again.yaml").write_text(server_part)
    (tmp_path / "models" / "fashion" / "gradus.yaml").write_text(model_part)
    code, again, said = check_config("--config", tmp_path / "again.yaml")
    assert (code, said) == (0, "")
    assert again == printed


def test_check_config_names_every_fault_of_a_model(tmp_path):
    faulty_yaml(tmp_path)
    (tmp_path / "good").symlink_to(GOOD)
    code, printed, said = check_config("--model-repository", tmp_path)
    assert code == 2
    assert "model good, version 1" in printed
    lines = said.splitlines()
    for fault in FAULTS:
        assert any(all(part in line for part in fault) and "broken/gradus.yaml" in line
                   for line in lines), (fault, said)
    assert len(lines) == len(FAULTS)


def test_every_fault_of_the_servers_file_and_flags_ends_the_start(tmp_path):
    config = tmp_path / "server.yaml"
    config.write_text("http: {port: 99999, max_json_depth: 0}\nexit_timeout_ms: never\nfoo: 1\n"
                      "provider_libraries: {webgpu: relative.so}\n")
    code, _, said = run_to_end("serve", "--config", config, "--model-repository", DEMO_MODELS,
                               "--http-port", "-1")
    assert code == 2
    for part in ("http.port = 99999", "http.max_json_depth = 0", "exit_timeout_ms = never", "foo",
                 "relative.so", "--http-port"):
        assert part in said


@pytest.mark.parametrize("arguments, says", [
    (["serve"], "--model-repository"), (["serve", "--model-repository", "/nonexistent"],
                                        "/nonexistent"),
    (["serve", "--no-such-flag"], "--no-such-flag"), (["dance"], "dance"), ([], "subcommand"),
    (["serve", "--model-repository", DEMO_MODELS, "--log-level", "loud"], "loud"),
    (["serve", "--model-repository", DEMO_MODELS, "--config", "/nonexistent.yaml"],
     "/nonexistent.yaml")], ids=lambda value: "-".join(map(str, value)) if isinstance(
         value, list) else value)
def test_a_wrong_command_line_is_exit_code_2(arguments, says):
    code, out, said = run_to_end(*arguments)
    assert code == 2
    assert says in said + out


def test_help_and_version_are_exit_code_0():
    code, out, _ = run_to_end("serve", "--help")
    assert code == 0
    for flag in ("--model-repository", "--http-address", "--http-port", "--providers", "--config",
                 "--log-level", "--log-format", "--check-config"):
        assert flag in out
    code, out, _ = run_to_end("--version")
    assert code == 0 and "0.1.0" in out
