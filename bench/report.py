"""From measurements to rows and a table. Ratios are taken within a round, where the machine was the
same for both sides; a row shows their median, least and greatest over the rounds."""
from statistics import median

RATE, TIME, RATIO = "requests/s", "us", "ratio"


def derived(raw, echo, http):
    """What one round says of one model at one concurrency: {row's name behind the contender: (value,
    unit)} for each contender."""
    ceiling = 1 / (1 / raw["requests_per_second"] + 1 / echo["requests_per_second"])
    rate = http["requests_per_second"]
    return {
        "raw": {"requests_per_second": (raw["requests_per_second"], RATE),
                "p50_us": (raw["p50_us"], TIME), "p99_us": (raw["p99_us"], TIME),
                "cpu_us": (raw["cpu_us"], TIME)},
        "echo": {"requests_per_second": (echo["requests_per_second"], RATE),
                 "p50_us": (echo["p50_us"], TIME), "p99_us": (echo["p99_us"], TIME),
                 "server_cpu_us": (echo["server_cpu_us"], TIME),
                 "client_cpu_us": (echo["client_cpu_us"], TIME)},
        "http_binary": {"requests_per_second": (rate, RATE),
                        "ratio_to_raw": (rate / raw["requests_per_second"], RATIO),
                        "ratio_to_echo": (rate / echo["requests_per_second"], RATIO),
                        "ratio_to_ceiling": (rate / ceiling, RATIO),
                        "p50_us": (http["p50_us"], TIME), "p99_us": (http["p99_us"], TIME),
                        "server_cpu_us": (http["server_cpu_us"], TIME),
                        "server_cpu_beyond_raw_us": (http["server_cpu_us"] - raw["cpu_us"], TIME),
                        "client_cpu_us": (http["client_cpu_us"], TIME)},
    }


def derived_alone(raw, echo, http):
    """What more one round says at concurrency 1, where requests' times add up."""
    added = http["p50_us"] - raw["p50_us"]
    return {"http_binary": {"p50_added_us": (added, TIME),
                            "p50_added_beyond_echo_us": (added - echo["p50_us"], TIME)}}


def row_of(name, values, unit):
    """A row of one figure over the rounds."""
    return {"name": name, "value": round(median(values), 4), "unit": unit, "min": round(min(values), 4),
            "max": round(max(values), 4), "runs": len(values)}


def rows_of(rounds):
    """`rounds`: {(model, concurrency): [(raw, echo, http) for each round]}."""
    rows = []
    for (model, concurrency), measured in rounds.items():
        sources = (derived, derived_alone) if concurrency == 1 else (derived,)
        for source in sources:
            of_rounds = [source(*one) for one in measured]
            for contender, names in of_rounds[0].items():
                for name, (_, unit) in names.items():
                    values = [one[contender][name][0] for one in of_rounds]
                    rows.append(row_of(f"{contender}/{model}/c{concurrency}/{name}", values, unit))
    return rows


def aligned(lines):
    """Lines of words as lines of text, their columns flush right."""
    widths = [max(map(len, column)) for column in zip(*lines)]
    return ["  ".join(word.rjust(width) for word, width in zip(line, widths)) for line in lines]


def spread(row, digits=0):
    """A row as a person reads it: median (least-greatest)."""
    return f"{row['value']:.{digits}f} ({row['min']:.{digits}f}-{row['max']:.{digits}f})"


HEADINGS = ("model", "at once", "raw/s", "echo/s", "http/s", "to raw", "(min-max)", "to ceiling", "(min-max)",
            "to echo", "p50 us", "p99 us", "CPU us", "CPU-raw")


def table(rows, cells):
    """The rows as a person reads them, a line for each (model, concurrency)."""
    found = {row["name"]: row for row in rows}
    lines = [HEADINGS]
    for model, concurrency in cells:
        def row(name, contender="http_binary", cell=f"{model}/c{concurrency}"):
            return found[f"{contender}/{cell}/{name}"]

        def rate(contender, row=row):
            return f"{row('requests_per_second', contender)['value']:.0f}"

        def ratio(name, row=row):
            one = row(name)
            return f"{one['value']:.3f}", f"{one['min']:.2f}-{one['max']:.2f}"

        lines.append((model, str(concurrency), rate("raw"), rate("echo"), rate("http_binary"),
                      *ratio("ratio_to_raw"), *ratio("ratio_to_ceiling"), ratio("ratio_to_echo")[0],
                      *(f"{row(name)['value']:.0f}"
                        for name in ("p50_us", "p99_us", "server_cpu_us", "server_cpu_beyond_raw_us"))))
    text = aligned(lines)
    for model, concurrency in cells:
        if concurrency == 1:
            added = found[f"http_binary/{model}/c1/p50_added_us"]["value"]
            beyond = found[f"http_binary/{model}/c1/p50_added_beyond_echo_us"]["value"]
            text.append(f"{model}, one at a time: p50 {added:+.0f} us on raw, of which {beyond:+.0f} us are "
                        "beyond the echo's p50")
    return "\n".join(text)
