"""`gradus simulate`: its report, its files, its exit codes."""
import json
import resource
import xml.dom.minidom

import pytest

from server import run_to_end

SCENARIOS = ("flapping", "gpu-loss", "gpu-slow", "load-step")


def simulate(*arguments):
    return run_to_end("simulate", *arguments)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_scenario_ends_well(scenario, tmp_path):
    code, out, err = simulate("--scenario", scenario, "--json", tmp_path / "r.json",
                              "--svg", tmp_path / "t.svg")
    assert (code, err) == (0, ""), err
    report = json.loads((tmp_path / "r.json").read_text())
    assert {"requests", "failed", "missed", "goodput", "effective_accuracy", "transitions",
            "flaps"} <= report.keys()
    assert report["requests"] > 1000 and report["failed"] == 0
    assert report["transitions"] == len(report["moves"])
    # No other level carries that load alone: requests go where there is time, the ladder stays.
    assert (report["moves"] == []) == (scenario == "load-step")
    assert sum(report[key] for key in ("in_time", "missed", "refused", "failed")) == report["requests"]
    assert f"{report['requests']} requests" in out
    picture = xml.dom.minidom.parse(str(tmp_path / "t.svg"))
    assert len(picture.getElementsByTagName("rect")) > 100


def test_a_scenario_and_a_policy_of_ones_own(tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "duration_s: 200\ndeadline_ms: 500\n"
        "levels:\n- {name: gpu, device: gpu, mean_ms: 5, target_p99_ms: 50}\n"
        "- {name: cpu, mean_ms: 20, target_p99_ms: 200}\n"
        "arrivals: {rate: 30}\nfaults: [{what: lost, at_s: 50, for_s: 10}]\n")
    (tmp_path / "policy.yaml").write_text("policy: {hold_ms: 5000, canary_stage_min_ms: 0}\n")
    back = []
    for policy in ((), ("--policy", tmp_path / "policy.yaml")):
        code, _, err = simulate("--trace", tmp_path / "mine.yaml", "--json", tmp_path / "r.json", *policy)
        assert code == 0, err
        report = json.loads((tmp_path / "r.json").read_text())
        assert report["scenario"] == "mine" and report["failed"] == report["missed"] == 0
        back.append(report["moves"][-1]["at_s"])
    assert 90 < back[0] < 150 and 65 < back[1] < 70


def test_rules_are_compared(tmp_path):
    code, out, _ = simulate("--scenario", "gpu-loss", "--compare", "--json", tmp_path / "r.json")
    assert code == 0
    rules = {one["rule"]: one for one in json.loads((tmp_path / "r.json").read_text())["rules"]}
    assert list(rules) == ["none", "published", "hysteresis", "gradus"]
    assert all(f"\n{rule} " in out for rule in rules)
    assert rules["none"]["failed"] > 1000 and rules["gradus"]["failed"] == 0


@pytest.mark.parametrize("arguments, told", [
    ((), "give --scenario NAME (flapping, gpu-loss, gpu-slow, load-step) or --trace FILE"),
    (("--scenario", "flap"), "--scenario flap: no scenario of that name; there are flapping, gpu-loss"),
    (("--scenario", "flapping", "--trace", "x"), "give --scenario NAME"),
    (("--trace", "/nowhere.yaml"), "/nowhere.yaml"),
    (("--scenario", "flapping", "--rule", "best"), "there are none, published, hysteresis, gradus"),
])
def test_a_faulty_command_line_is_told(arguments, told):
    code, out, err = simulate(*arguments)
    assert (code, out) == (2, "") and told in err


def test_bad_files_name_the_key(tmp_path):
    (tmp_path / "s.yaml").write_text("levels: [{name: a, mean: 5}]\narrivals: {rate: many}\n")
    (tmp_path / "p.yaml").write_text("hold_ms: -5\n")
    code, _, err = simulate("--trace", tmp_path / "s.yaml", "--policy", tmp_path / "p.yaml")
    assert code == 2
    for told in ("levels[0].mean: unknown key; did you mean mean_ms?", "arrivals.rate = many",
                 "p.yaml: hold_ms = -5: must be in [1, "):
        assert told in err


def test_a_report_that_cannot_be_written_fails(tmp_path):
    code, _, err = simulate("--scenario", "gpu-slow", "--json", tmp_path / "no" / "r.json")
    assert code == 1 and "r.json cannot be written" in err


def cpu_s_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_a_million_requests_take_seconds(tmp_path):
    (tmp_path / "s.yaml").write_text(
        "duration_s: 1000\nlevels:\n- {name: gpu, device: gpu, mean_ms: 2, target_p99_ms: 50, max_batch_size: 8, "
        "each_more: 0.1}\n- {name: cpu, mean_ms: 5, target_p99_ms: 200}\narrivals: {rate: 1000}\n"
        "faults: [{what: lost, at_s: 300, for_s: 100}]\n")
    begun = cpu_s_of_children()
    code, out, err = simulate("--trace", tmp_path / "s.yaml")
    assert code == 0, err
    assert cpu_s_of_children() - begun < 20  # however busy the machine is
    assert "99" in out
