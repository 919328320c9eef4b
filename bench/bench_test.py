#!/usr/bin/python3
"""Tests of the benchmark's figures: they are what they are called."""
import json
import unittest

import batching
import faults
import headline
import large
import overload
import padding
import ratios
from models.fixed_input import fields, fixed_input
from models.protobuf import bytes_field, number_field
from report import aligned, rows_of, spread, table
from workloads import Copied, BenchError, binary_body, grpc_message, picked, picked_cells


def raw(rate, p50=100.0):
    return {"requests_per_second": rate, "p50_us": p50, "p99_us": p50, "cpu_us": 90.0}


def served(rate, p50=100.0):
    return {"requests_per_second": rate, "p50_us": p50, "p99_us": 2 * p50, "server_cpu_us": 130.0,
            "client_cpu_us": 10.0}


class Report(unittest.TestCase):
    def rows(self):
        rounds = [{"raw": raw(1000), "echo": served(4000, 50.0), "http_binary": served(rate, 170.0),
                   "grpc_echo": served(1000, 60.0), "grpc": served(rate / 2, 190.0)} for rate in (400, 800, 500)]
        other = {"raw": raw(100), "echo": served(50), "http_binary": served(10), "grpc_echo": served(40),
                 "grpc": served(5)}
        rows = rows_of({("m", 1): rounds, ("m", 8): [other]})
        return rows, {row["name"]: row for row in rows}

    def test_ratios_are_medians_of_rounds_with_their_spread(self):
        _, found = self.rows()
        self.assertEqual(found["http_binary/m/c1/ratio_to_raw"],
                         {"name": "http_binary/m/c1/ratio_to_raw", "value": 0.5, "unit": "ratio", "min": 0.4,
                          "max": 0.8, "runs": 3})
        self.assertEqual(found["http_binary/m/c1/ratio_to_echo"]["value"], 0.125)

    def test_ceiling_is_raw_and_echo_one_after_the_other(self):
        _, found = self.rows()
        self.assertAlmostEqual(found["http_binary/m/c1/ratio_to_ceiling"]["value"], 500 / 800)

    def test_grpc_is_compared_with_its_own_echo(self):
        _, found = self.rows()
        self.assertAlmostEqual(found["grpc/m/c1/ratio_to_ceiling"]["value"], 250 / 500)
        self.assertAlmostEqual(found["grpc/m/c1/ratio_to_echo"]["value"], 0.25)
        self.assertAlmostEqual(found["grpc/m/c1/ratio_to_raw"]["value"], 0.25)
        self.assertEqual(found["grpc/m/c1/p50_added_beyond_echo_us"]["value"], 30)

    def test_added_time_is_told_at_concurrency_1_only(self):
        _, found = self.rows()
        self.assertEqual(found["http_binary/m/c1/p50_added_us"]["value"], 70)
        self.assertEqual(found["http_binary/m/c1/p50_added_beyond_echo_us"]["value"], 20)
        self.assertNotIn("http_binary/m/c8/p50_added_us", found)

    def test_cpu_beyond_raw_is_a_difference_in_a_round(self):
        _, found = self.rows()
        self.assertEqual(found["http_binary/m/c8/server_cpu_beyond_raw_us"]["value"], 40)

    def test_table_has_a_line_for_each_cell_and_transport(self):
        rows, _ = self.rows()
        lines = table(rows, [("m", 1), ("m", 8)]).splitlines()
        self.assertEqual([line.split()[:7] for line in lines[1:5]],
                         [["m", "1", "http", "1000", "4000", "500", "0.500"],
                          ["m", "1", "grpc", "1000", "1000", "250", "0.250"],
                          ["m", "8", "http", "100", "50", "10", "0.100"],
                          ["m", "8", "grpc", "100", "40", "5", "0.050"]])
        self.assertIn("m over grpc, one at a time: p50 +90 us on raw, of which +30 us", lines[6])


def named(rows):
    return {row["name"]: row for row in rows}


def of_client(rate, p99=100.0, **more):
    return {"requests_per_second": rate, "p50_us": p99 / 2, "p99_us": p99, "server_cpu_us": 10.0, "client_cpu_us": 5.0,
            "sent": 100, "levels": {"1": 100}, **more}


class Joined(unittest.TestCase):
    ROUNDS = [{"joined": of_client(rate, 300.0, batch=4.0), "unjoined": of_client(100, 200.0, batch=1.0),
               "adaptive": of_client(99, 150.0)} for rate in (90, 150, 110)]

    def test_batching_ratios_are_of_neighbours_within_a_round(self):
        measured = {"m": self.ROUNDS}
        rows = batching.rows_of(measured)
        ratio = named(rows)["batching/m/c32/ratio"]
        self.assertEqual((ratio["value"], ratio["min"], ratio["max"], ratio["runs"]), (1.1, 0.9, 1.5, 3))
        self.assertEqual(named(rows)["batching/m/c32/p99_ratio"]["value"], 1.5)
        self.assertEqual(named(rows)["batching/m/c32/unjoined/requests_per_second"]["value"], 100)
        heads, line = batching.table(measured, rows).splitlines()
        self.assertIn("1.100 (0.900-1.500)", line)
        self.assertEqual(heads.split()[1:4], ["unjoined/s", "joined/s", "adaptive/s"])
        self.assertEqual(line.split()[1:4], ["100", "110", "99"])

    def test_adaptive_batches_are_compared_with_joined_ones(self):
        rows = batching.rows_of({"m": self.ROUNDS})
        ratio = named(rows)["batching/m/c32/adaptive/ratio_to_joined"]
        self.assertEqual((ratio["value"], ratio["min"], ratio["max"]), (0.9, 0.66, 1.1))
        self.assertEqual(named(rows)["batching/m/c32/adaptive/p99_ratio_to_joined"]["value"], 0.5)
        self.assertIn("0.900 (0.660-1.100)", batching.table({"m": self.ROUNDS}, rows).splitlines()[1])

    def test_only_one_side_adapts_and_only_one_does_not_join(self):
        configs = {side: batching.CONFIG % settings for side, settings in batching.SIDES.items()}
        self.assertEqual([side for side, text in configs.items() if "adaptive_batch: true" in text], ["adaptive"])
        self.assertEqual([side for side, text in configs.items() if "max_batch_size: 1}" in text], ["unjoined"])
        self.assertTrue(all("target_p99_ms: " in text for text in configs.values()))

    def test_padding_tells_rate_p99_and_the_requests_of_a_run_of_both_sides(self):
        measured = {"c8": self.ROUNDS}
        rows = padding.rows_of(measured)
        found = named(rows)
        self.assertEqual(found["padding/langid/c8/ratio"]["value"], 1.1)
        self.assertEqual(found["padding/langid/c8/p99_ratio"]["value"], 1.5)
        self.assertEqual(found["padding/langid/c8/joined/batch"]["value"], 4)
        self.assertEqual(found["padding/langid/c8/unjoined/p99_us"]["value"], 200)
        self.assertEqual(len(padding.table(measured, rows).splitlines()), 4)

    def test_texts_have_every_length_from_3_to_128_and_their_own_words(self):
        self.assertEqual((min(padding.lengths()), max(padding.lengths())), (3, 128))
        self.assertEqual(len(set(padding.lengths())), padding.TEXTS)
        bodies = list(padding.bodies())
        self.assertEqual(len({body for body, _ in bodies}), padding.TEXTS)
        for (body, json_bytes), length in zip(bodies, padding.lengths()):
            self.assertEqual(json.loads(body[:json_bytes])["inputs"][0]["shape"], [1, length])
            self.assertEqual(len(body) - json_bytes, 2 * 8 * length)


class Large(unittest.TestCase):
    MEASURED = {"6MB": [{"http_binary": of_client(100, 200.0), "grpc": of_client(80, p99)} for p99 in (200, 400, 300)]}

    def test_grpc_is_compared_with_http_within_a_round(self):
        rows = large.rows_of(self.MEASURED)
        ratio = named(rows)["large/6MB/grpc/p50_to_http"]
        self.assertEqual((ratio["value"], ratio["min"], ratio["max"]), (1.5, 1, 2))
        self.assertEqual(named(rows)["large/6MB/http_binary/p50_us"]["value"], 100)
        self.assertEqual(named(rows)["large/6MB/grpc/server_cpu_to_http"]["value"], 1)
        self.assertIn("1.50 (1.00-2.00)", large.table(self.MEASURED, rows).splitlines()[2])

    def test_tensors_have_the_bytes_that_they_are_named_after(self):
        self.assertEqual({name: 4 * floats for name, floats in large.FLOATS.items()},
                         {"6MB": 6_000_000, "64MB": 64_000_000})


class Message(unittest.TestCase):
    def test_a_grpc_request_ends_in_its_tensor(self):
        tiny = ratios.WORKLOADS[0]
        message = grpc_message(tiny)
        self.assertTrue(message.startswith(b"\x0a\x04tiny"))
        self.assertTrue(message.endswith(b"\x3a\x80\x01" + tiny.input_bytes()))  # field 7, 128 bytes


def drilled(fault="kill", **more):
    return {"fault": fault, "trials": 20, "sent": 5000, "failed": 0, "wrong": 0,
            "first_answer_ms": {"p50": 12.5, "max": 41.0},
            "bound_ms": {"p50": 51.0, "max": 251.0, "trials_within_p50": 19, "trials_within_max": 20},
            "longest_answer_ms": 77.7, "transitions_down": 20, "back_at_level0_s": 1.5, "class": "died",
            "answered_by_level": {"0": 4000, "1": 1000}, **more}


def whole(*entries):
    return {"faults": list(entries), "rate": 90.0, "cpu_run_ms": 1.2,
            "timer_delay_ms": {"p50": 0.1, "p99": 0.4, "max": 3.0}}


HEADS = "              first    answer\nfault trials  sent\n"


class Faults(unittest.TestCase):
    def test_every_fault_is_drilled_on_both_models(self):
        self.assertEqual(len(faults.chosen("")), 34)
        self.assertEqual(faults.chosen("16ms/kill,1ms/nan"), [("1ms", "nan"), ("16ms", "kill")])
        self.assertEqual(faults.chosen("oom"), [("1ms", "oom"), ("16ms", "oom")])
        with self.assertRaisesRegex(BenchError, "--only fire: known are"):
            faults.chosen("fire")

    def test_a_line_and_rows_say_what_the_clients_saw(self):
        measured = {"1ms": {"kill": faults.entry_of(whole(drilled()), HEADS + "kill 20 5000\n* the first\n", "", 0)}}
        rows = faults.rows_of(measured)
        self.assertEqual({row["name"]: (row["value"], row["unit"]) for row in rows}, {
            f"faults/1ms/kill/{figure}": said for figure, said in {
                "trials": (20, "trials"), "sent": (5000, "requests"), "failed": (0, "requests"),
                "wrong": (0, "requests"), "first_answer_p50_ms": (12.5, "ms"), "first_answer_max_ms": (41, "ms"),
                "within_p50": (19, "trials"), "within_max": (20, "trials"), "longest_answer_ms": (77.7, "ms"),
                "transitions_down": (20, "moves"), "back_at_level0_s": (1.5, "s"), "rate": (90, "requests/s"),
                "cpu_run_ms": (1.2, "ms")}.items()})
        self.assertEqual(faults.table(measured, rows).splitlines()[1].split(),
                         ["1ms", "kill", "20", "5000", "0", "0", "12.5", "41.0", "19/20", "20/20", "77.7", "20"])
        self.assertEqual(faults.lost(measured), [])

    def test_a_fault_without_a_bound_has_none_to_be_within(self):
        slow = drilled("slow", bound_ms=None, first_answer_ms={"p50": None, "max": None})
        measured = {"1ms": {"slow": faults.entry_of(whole(slow), HEADS, "", 0)}}
        rows = faults.rows_of(measured)
        self.assertNotIn("faults/1ms/slow/within_p50", named(rows))
        self.assertNotIn("faults/1ms/slow/first_answer_max_ms", named(rows))
        self.assertEqual(faults.table(measured, rows).splitlines()[1].split()[6:10], ["-"] * 4)

    def test_a_failure_a_wrong_answer_and_a_broken_promise_are_lost(self):
        entries = {"kill": drilled(failed=1), "nan": drilled("nan", wrong=2), "gone": drilled("gone"), "oom": drilled()}
        drills = HEADS + "gone 20\n  it was slow to move\n* the first\n"
        measured = {"1ms": {fault: faults.entry_of(whole(entry), drills, "", int(fault == "gone"))
                            for fault, entry in entries.items()}}
        self.assertEqual(faults.lost(measured), ["1ms/kill", "1ms/nan", "1ms/gone"])
        self.assertIn("1ms, gone: it was slow to move", faults.table(measured, faults.rows_of(measured)))

    def test_a_drill_that_cannot_begin_is_lost_and_does_not_cost_the_others(self):
        measured = {"1ms": {"kill": faults.entry_of({"faults": []}, "", "level 0 does not come up\n", 1)}}
        rows = faults.rows_of(measured)
        self.assertEqual(faults.lost(measured), ["1ms/kill"])
        self.assertEqual(named(rows)["faults/1ms/kill/trials"]["value"], 0)
        self.assertIn("1ms, kill: not begun: level 0 does not come up", faults.table(measured, rows))

    def test_the_inputs_shape_is_fixed_and_nothing_else_is_touched(self):
        def value_info(name, *dims):
            shape = b"".join(bytes_field(1, dim) for dim in dims)
            return bytes_field(1, name) + bytes_field(2, bytes_field(1, number_field(1, 1) + bytes_field(2, shape)))

        def file(*dims):
            graph = bytes_field(1, b"node") + bytes_field(11, value_info("x", *dims)) + \
                bytes_field(11, value_info("other", open_dim)) + bytes_field(12, value_info("y", open_dim))
            return number_field(1, 8) + b"\x15abcd" + bytes_field(7, graph) + bytes_field(8, number_field(2, 17))

        open_dim = bytes_field(2, "any")
        self.assertEqual(fixed_input(file(open_dim, number_field(1, 3), open_dim), (1, 3, 320)),
                         file(open_dim, number_field(1, 3), number_field(1, 320)))
        self.assertEqual([tag for tag, *_ in fields(file(open_dim))], [1, 2, 7, 8])
        with self.assertRaisesRegex(ValueError, "1 dimensions, not 2"):
            fixed_input(file(open_dim), (1, 3))


def tally(offered, in_time):
    return {"offered": offered, "in_time": in_time}


def of_step(offered, in_time, **more):
    return {"rate": offered / 10, "goodput": in_time / offered, "goodput_per_second": in_time / 10, "p99_ms": 150.0,
            "recovery_s": 1, "level_back_s": 40, "saturated": False, "stayed": True, "levels": [1, 1, 3], **more}


class Overload(unittest.TestCase):
    def test_recovery_is_until_a_second_without_a_miss(self):
        seconds = [tally(10, 10), tally(30, 4), tally(10, 9), tally(10, 10), tally(10, 9)]
        self.assertEqual(overload.recovery_s(seconds, 2), 1)
        self.assertEqual(overload.recovery_s(seconds, 3), 0)

    def test_recovery_never_comes_from_misses_or_from_silence(self):
        self.assertIsNone(overload.recovery_s([tally(10, 10), tally(10, 9), tally(0, 0)], 1))

    def test_goodput_is_of_what_is_offered_and_without_a_ladder_of_the_capacity(self):
        measured = {"step": [{"capacity": 100.0, "alone": of_step(3000, good, recovery_s=None),
                              "ladder": of_step(3000, 2700, recovery_s=back)}
                             for good, back in ((800, 2), (900, None), (850, 4))]}
        rows = overload.rows_of(measured)
        found = named(rows)
        self.assertEqual(found["overload/step/ladder/goodput"]["value"], 0.9)
        self.assertEqual(found["overload/step/alone/goodput_to_capacity"]["value"], 0.85)
        self.assertEqual(found["overload/step/ladder/goodput_to_alone"]["value"], round(2700 / 850, 4))
        self.assertEqual(found["overload/step/ladder/recovery_s"]["runs"], 2)
        self.assertNotIn("overload/step/alone/recovery_s", found)
        text = overload.table(measured, rows)
        self.assertIn("3 (2-4), 2 of 3", text)
        self.assertIn("round 1, level second by second: 1 x 2, 3 x 1", text)
        self.assertIn("never", text.splitlines()[1])

    def test_a_slow_gpu_is_judged_against_the_same_without_a_ladder(self):
        measured = {"slow-gpu": [{"rate": 300.0, "cpu_capacity": 90.0,
                                  "alone": of_step(3000, 2000, saturated=True),
                                  "ladder": of_step(3000, 2200, saturated=True, stayed=stayed)}
                                 for stayed in (True, False)]}
        rows = overload.rows_of(measured)
        found = named(rows)
        self.assertEqual(found["overload/slow-gpu/ladder/goodput_to_alone"]["value"], 1.1)
        self.assertEqual(found["overload/slow-gpu/ladder/saturated"]["value"], 1)
        self.assertEqual(found["overload/slow-gpu/ladder/stayed"]["value"], 0.5)
        self.assertEqual(found["overload/slow-gpu/cpu_capacity"]["value"], 90)
        self.assertNotIn("overload/slow-gpu/ladder/recovery_s", found)  # it stays slow: nothing to recover from
        self.assertIn("it stays (1 of 2)", overload.table(measured, rows))


class Headline(unittest.TestCase):
    MEASURED = {"m": [{"naive": of_client(10, 800.0, pss_bytes=200e6),
                       "naive-1": of_client(8, 900.0, pss_bytes=100e6),
                       "int8": of_client(rate, 200.0, pss_bytes=150e6, levels={"2": 60, "3": 40})}
                      for rate in (20, 40, 30)]}

    def test_times_are_how_much_better_and_memory_is_a_share(self):
        found = named(headline.rows_of(self.MEASURED))
        rate = found["headline/m/int8/rate_to_naive"]
        self.assertEqual((rate["value"], rate["min"], rate["max"]), (3, 2, 4))
        self.assertEqual(found["headline/m/int8/p99_of_naive_to_it"]["value"], 4)
        self.assertEqual(found["headline/m/int8/memory_to_naive"]["value"], 0.75)
        self.assertEqual(found["headline/m/int8/rate_to_naive-1"]["value"], 3.75)
        self.assertEqual(found["headline/m/int8/memory_to_naive-1"]["value"], 1.5)
        self.assertNotIn("headline/m/naive/rate_to_naive", found)

    def test_says_which_levels_answered(self):
        self.assertEqual(headline.answered_by(self.MEASURED["m"], "int8"), "2:60% 3:40%")
        text = headline.table(self.MEASURED, headline.rows_of(self.MEASURED))
        self.assertIn("2:60% 3:40%", text.splitlines()[3])
        self.assertIn("75%", text.splitlines()[3])

    def test_a_part_of_the_ladder_keeps_its_numbers(self):
        config = headline.config_of({"model.int8.onnx": None})
        self.assertIn("level: 2, name: cpu-int8, file: model.int8.onnx", config)
        self.assertEqual(config.count("file:"), 1)


class Layout(unittest.TestCase):
    def test_columns_are_flush_right(self):
        self.assertEqual(aligned([("a", "long"), ("more", "b")]), ["   a  long", "more     b"])

    def test_spread_is_median_and_range(self):
        self.assertEqual(spread({"value": 1.25, "min": 1, "max": 2.5}, 1), "1.2 (1.0-2.5)")

    def test_a_body_is_its_json_and_then_the_tensors_in_order(self):
        body, json_bytes = binary_body([("a", (1, 2), "INT64", b"1" * 16), ("b", (1,), "FP32", b"2" * 4)])
        said = json.loads(body[:json_bytes])["inputs"]
        self.assertEqual([(one["name"], one["parameters"]["binary_data_size"]) for one in said],
                         [("a", 16), ("b", 4)])
        self.assertEqual(body[json_bytes:], b"1" * 16 + b"2" * 4)


class Choice(unittest.TestCase):
    def names(self, only):
        return [f"{model}/c{concurrency}" for model, concurrency in ratios.chosen(only)]

    def test_everything_unless_told(self):
        self.assertEqual(len(self.names("")), 13)

    def test_600_kb_are_one_at_a_time_only(self):
        self.assertEqual(self.names("600KB"), ["600KB/c1"])
        self.assertEqual(4 * ratios.FLOATS["600KB"], 600_000)
        shape = (1, ratios.FLOATS["600KB"])
        self.assertEqual(len(Copied("600KB", None, "", shape, 1).input_bytes()), 600_000)

    def test_models_and_cells(self):
        self.assertEqual(self.names("1ms/c8,tiny"), ["tiny/c1", "tiny/c2", "tiny/c8", "tiny/c32", "1ms/c8"])

    def test_cells_are_chosen_by_either_part_or_both(self):
        cells = [("a", "x"), ("a", "y"), ("b", "x"), ("b", "y")]
        self.assertEqual(picked_cells("", cells), cells)
        self.assertEqual(picked_cells("b/y,x", cells), [("a", "x"), ("b", "x"), ("b", "y")])
        self.assertEqual(picked_cells("a", cells), cells[:2])

    def test_refuses_what_it_does_not_know(self):
        with self.assertRaisesRegex(BenchError, "--only 2ms: known are"):
            ratios.chosen("2ms")

    def test_parts_keep_their_order(self):
        self.assertEqual(picked("", ["a", "b"]), ["a", "b"])
        self.assertEqual(picked("c,a", ["a", "b", "c"]), ["a", "c"])
        with self.assertRaisesRegex(BenchError, "--only d: known are a, b"):
            picked("d", ["a", "b"])


if __name__ == "__main__":
    unittest.main()
