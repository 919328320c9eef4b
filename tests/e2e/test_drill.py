"""`gradus drill`: a game day on the demo's model costs no request and no right answer."""
import json
import os
import time

import pytest

from server import DEMO_MODELS, run_to_end

FASHION = ("drill", "--model-repository", DEMO_MODELS, "--model", "fashion")
SHORT = ("--hold", 1, "--max-hold", 1, "--cooldown", 1, "--breaker", 1, "--restart-backoff", 0.1)
SHORTER = [0.2 if value == 1 else value for value in SHORT]
FAULTS = ("kill", "error", "hang", "oom", "nan", "gone")
OTHERS = ("segv", "abort", "exit", "spin", "alternate", "slow")
LONG = pytest.mark.skipif(not os.environ.get("GRADUS_LONG"), reason="GRADUS_LONG=1 runs it")
CLASSES = {"kill": ["died"], "error": [None], "hang": ["hung"], "oom": ["out_of_memory"],
           "nan": ["failures"], "gone": ["failures"], "nolib": ["start"], "norestart": ["start"],
           "sticky": ["sticky"], "stop": ["hung"], "error3": ["failures"], "segv": ["died"],
           "abort": ["died"], "exit": ["died"], "spin": ["hung"], "alternate": ["error_rate"],
           "slow": ["slow", "overload"]}
SIX_FAULTS_S = 45  # on a machine of its own, where timers are no later than that:
QUIET_MS = 20
LIMIT_S = 180  # much more than that


def drill(faults, report, overrides=SHORT, tries=3):
    """(exit code, table, the report's entries by fault, standard error, the whole report); again
    where it failed and timers were late: the machine may be to blame."""
    begun = time.monotonic()
    code, out, err = run_to_end(*FASHION, *overrides, "--fault", ",".join(faults), "--json", report,
                                "--rate", 100, limit_s=LIMIT_S)
    whole = json.loads(report.read_text()) if report.exists() else {"faults": []}
    if code != 0 and tries > 1 and whole["faults"] and whole["timer_delay_ms"]["max"] > QUIET_MS:
        return drill(faults, report, overrides, tries - 1)
    whole["took_s"] = time.monotonic() - begun
    return code, out, {entry["fault"]: entry for entry in whole["faults"]}, err, whole


@pytest.fixture(scope="module")
def drilled(tmp_path_factory):
    return drill(FAULTS, tmp_path_factory.mktemp("drill") / "report.json")


def test_a_drill_ends_well(drilled):
    code, table, entries, err, _ = drilled
    assert code == 0, table + err
    assert tuple(entries) == FAULTS
    assert all(f"\n{fault} " in table for fault in FAULTS)


@LONG
def test_six_faults_take_less_than_45_seconds(drilled):
    whole = drilled[4]
    if whole["timer_delay_ms"]["max"] > QUIET_MS and whole["took_s"] > SIX_FAULTS_S:
        pytest.skip(f"the machine was busy: timers were up to {whole['timer_delay_ms']['max']:.0f}"
                    f" ms late, and it took {whole['took_s']:.1f} s")
    assert whole["took_s"] < SIX_FAULTS_S


def test_the_timers_delay_stands_beside_the_results(drilled):
    _, table, _, _, whole = drilled
    late = whole["timer_delay_ms"]
    assert 0 < late["p50"] <= late["p99"] <= late["max"]
    assert f"{late['p50']:.2f} ms (p50)" in table
    assert whole["rate"] == 100 and 0 < whole["cpu_run_ms"] < 100


@pytest.mark.parametrize("fault", FAULTS)
def test_no_request_fails_or_is_answered_wrongly(drilled, fault):
    entry = drilled[2][fault]
    assert entry["trials"] == 1 and entry["sent"] > 30
    assert (entry["failed"], entry["wrong"]) == (0, 0)
    assert sum(entry["answered_by_level"].values()) == entry["sent"]


@pytest.mark.parametrize("fault", sorted(set(FAULTS) - {"error"}))
def test_requests_are_sent_at_the_rate_whatever_the_answers_do(drilled, fault):
    entry = drilled[2][fault]
    late_s = drilled[4]["timer_delay_ms"]["max"] / 1000  # who sends may be late too, on a busy machine
    assert entry["sent"] >= 90 * (entry["back_at_level0_s"] - late_s) - 1


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


@pytest.mark.parametrize("fault", FAULTS)
def test_the_status_says_the_class(drilled, fault):
    assert drilled[2][fault]["class"] in CLASSES[fault]


@pytest.mark.parametrize("fault", FAULTS)
def test_the_bound_is_one_run_and_a_hangs_limit_beyond_50_and_250_ms(drilled, fault):
    bound, run = drilled[2][fault]["bound_ms"], drilled[4]["cpu_run_ms"]
    limit = bound["p50"] - 50 - run
    assert limit > 999.9 if fault == "hang" else limit == pytest.approx(0, abs=0.01)
    assert bound["max"] == pytest.approx(250 + run + limit, abs=0.01)
    first = drilled[2][fault]["first_answer_ms"]["max"]
    assert bound["trials_within_max"] == (1 if first <= bound["max"] else 0)


def test_restarts_that_fail_are_told_and_survived(tmp_path):
    code, table, entries, err, _ = drill(("nolib", "norestart", "sticky"), tmp_path / "report.json")
    assert code == 0, table + err
    for fault, entry in entries.items():
        assert (entry["failed"], entry["wrong"], entry["transitions_down"]) == (0, 0, 1)
        assert entry["class"] in CLASSES[fault]
    # Five deaths, each with twice the wait of the one before it, and then the crash loop's pause.
    assert entries["norestart"]["back_at_level0_s"] > 1.5 + 1.5


@LONG
def test_a_stopped_worker_and_errors_in_a_row_are_survived(tmp_path):
    code, table, entries, err, whole = drill(("stop", "error3"), tmp_path / "report.json", SHORTER)
    assert code == 0, table + err
    for fault, entry in entries.items():
        assert (entry["failed"], entry["wrong"], entry["transitions_down"]) == (0, 0, 1), fault
        assert entry["class"] in CLASSES[fault]
        assert entry["back_at_level0_s"] >= 0.2 and entry["answered_by_level"]["1"] > 0
    assert tuple(entries) == ("stop", "error3")
    assert entries["stop"]["bound_ms"]["p50"] > 999.9 > entries["error3"]["bound_ms"]["p50"]
    assert entries["stop"]["first_answer_ms"]["max"] >= 900, "the run's limit"


@LONG
def test_other_ways_to_fail_are_survived_too(tmp_path):
    code, table, entries, err, _ = drill(OTHERS, tmp_path / "report.json", SHORTER)
    assert code == 0, table + err
    for fault, entry in entries.items():
        assert (entry["failed"], entry["wrong"], entry["transitions_down"]) == (0, 0, 1), fault
        assert entry["class"] in CLASSES[fault]
        assert entry["back_at_level0_s"] >= 0.2 and entry["answered_by_level"]["1"] > 0
    assert tuple(entries) == OTHERS


def test_a_hang_lasts_until_its_limit(drilled):
    assert drilled[2]["hang"]["first_answer_ms"]["max"] >= 900
    late_ms = drilled[4]["timer_delay_ms"]["max"]  # on a busy machine
    assert drilled[2]["kill"]["first_answer_ms"]["max"] - late_ms < 900


def test_an_unknown_fault_is_a_usage_error_that_names_the_known_ones():
    code, out, err = run_to_end(*FASHION, "--fault", "kill,flood")
    assert (code, out) == (2, "")
    assert "unknown fault 'flood'" in err and "kill, stop, segv" in err


@pytest.mark.parametrize("flags, said", [
    (("--model", "none", "--model-repository", DEMO_MODELS), "unknown model 'none'"),
    (("--model", "fashion"), "--model-repository or --url"),
    ((*FASHION[1:], "--url", "http://127.0.0.1:1"), "--model-repository or --url"),
    ((*FASHION[1:], "--yes"), "--yes go with --url"),
    ((*FASHION[1:], "--provider", "cdua"), "unknown provider 'cdua'"),
    ((*FASHION[1:], "--provider", "webgpu", "--fault", "hang"), "needs level 0 on the fault provider"),
    ((*FASHION[1:], "--trials", "0"), "--trials"),
    ((*FASHION[1:], "--hold", "2", "--max-hold", "1"), "--max-hold")])
def test_faulty_flags_are_usage_errors(flags, said):
    code, _, err = run_to_end("drill", *flags)
    assert code == 2 and said in err
