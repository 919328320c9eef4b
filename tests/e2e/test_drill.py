"""`gradus drill`: a game day on the demo's model costs no request and no right answer."""
import json

import pytest

from server import DEMO_MODELS, run_to_end

FASHION = ("drill", "--model-repository", DEMO_MODELS, "--model", "fashion")
SHORT = ("--hold", 1, "--max-hold", 1, "--cooldown", 1, "--breaker", 1, "--restart-backoff", 0.1)
FAULTS = ("kill", "error", "hang", "oom", "nan", "gone")
LIMIT_S = 120  # much more than it takes on a machine of its own


@pytest.fixture(scope="module")
def drilled(tmp_path_factory):
    """(exit code, table, the report's entries by fault, standard error) of six faults."""
    report = tmp_path_factory.mktemp("drill") / "report.json"
    code, out, err = run_to_end(*FASHION, *SHORT, "--fault", ",".join(FAULTS), "--json", report,
                                "--rate", 100, limit_s=LIMIT_S)
    entries = json.loads(report.read_text())["faults"] if report.exists() else []
    return code, out, {entry["fault"]: entry for entry in entries}, err


def test_a_drill_ends_well(drilled):
    code, table, entries, err = drilled
    assert code == 0, table + err
    assert tuple(entries) == FAULTS
    assert all(f"\n{fault} " in table for fault in FAULTS)


@pytest.mark.parametrize("fault", FAULTS)
def test_no_request_fails_or_is_answered_wrongly(drilled, fault):
    entry = drilled[2][fault]
    assert entry["trials"] == 1 and entry["sent"] > 30
    assert (entry["failed"], entry["wrong"]) == (0, 0)
    assert sum(entry["answered_by_level"].values()) == entry["sent"]


@pytest.mark.parametrize("fault", FAULTS)
def test_another_level_answers_and_level_0_comes_back(drilled, fault):
    entry = drilled[2][fault]
    assert entry["answered_by_level"]["0"] > 0
    assert sum(n for level, n in entry["answered_by_level"].items() if level != "0") > 0
    assert 0 <= entry["first_answer_ms"]["p50"] <= entry["first_answer_ms"]["max"]
    assert entry["longest_answer_ms"] > 0
    assert entry["transitions_down"] == (0 if fault == "error" else 1)
    if fault != "error":
        assert entry["back_at_level0_s"] >= 1, "that is the hold"


def test_a_hang_lasts_until_its_limit(drilled):
    assert drilled[2]["hang"]["first_answer_ms"]["max"] >= 900
    assert drilled[2]["kill"]["first_answer_ms"]["max"] < 900


def test_an_unknown_fault_is_a_usage_error_that_names_the_known_ones():
    code, out, err = run_to_end(*FASHION, "--fault", "kill,flood")
    assert (code, out) == (2, "")
    assert "unknown fault 'flood'" in err and "kill, stop, segv" in err


@pytest.mark.parametrize("flags, said", [
    (("--model", "none", "--model-repository", DEMO_MODELS), "no model 'none'"),
    (("--model", "fashion"), "--model-repository"),
    ((*FASHION[1:], "--trials", "0"), "--trials"),
    ((*FASHION[1:], "--hold", "2", "--max-hold", "1"), "--max-hold")])
def test_faulty_flags_are_usage_errors(flags, said):
    code, _, err = run_to_end("drill", *flags)
    assert code == 2 and said in err
