"""From measurements to rows and a table. Ratios are taken within a round, where the machine was the
same for both sides; a row shows their median, least and greatest over the rounds."""
from statistics import median

RATE, TIME, RATIO = "requests/s", "us", "ratio"


ECHOES = {"http_binary": "echo", "grpc": "grpc_echo"}  # what the server is called, by its transport, and the echo


def derived(measured):
    """What one round says of one model at one concurrency: {row's name behind the contender: (value,
    unit)} for each contender."""
    raw = measured["raw"]
    rows = {name: {"requests_per_second": (said["requests_per_second"], RATE),
                   **{time: (said[time], TIME)
                      for time in ("p50_us", "p99_us", "cpu_us", "server_cpu_us", "client_cpu_us") if time in said}}
            for name, said in measured.items()}
    for name, echo in ECHOES.items():
        rate, of_raw, of_echo = (measured[side]["requests_per_second"] for side in (name, "raw", echo))
        rows[name] |= {"ratio_to_raw": (rate / of_raw, RATIO),
                       "ratio_to_echo": (rate / of_echo, RATIO),
                       "ratio_to_ceiling": (rate * (1 / of_raw + 1 / of_echo), RATIO),
                       "server_cpu_beyond_raw_us": (measured[name]["server_cpu_us"] - raw["cpu_us"], TIME)}
    return rows


def derived_alone(measured):
    """What more one round says at concurrency 1, where requests' times add up."""
    rows = {}
    for name, echo in ECHOES.items():
        added = measured[name]["p50_us"] - measured["raw"]["p50_us"]
        rows[name] = {"p50_added_us": (added, TIME),
                      "p50_added_beyond_echo_us": (added - measured[echo]["p50_us"], TIME)}
    return rows


def row_of(name, values, unit):
    """A row of one figure over the rounds."""
    return {"name": name, "value": round(median(values), 4), "unit": unit, "min": round(min(values), 4),
            "max": round(max(values), 4), "runs": len(values)}


def rows_of(rounds):
    """`rounds`: {(model, concurrency): [{contender: what it did} for each round]}."""
    rows = []
    for (model, concurrency), measured in rounds.items():
        sources = (derived, derived_alone) if concurrency == 1 else (derived,)
        for source in sources:
            of_rounds = [source(one) for one in measured]
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


HEADINGS = ("model", "at once", "over", "raw/s", "echo/s", "served/s", "to raw", "(min-max)", "to ceiling",
            "(min-max)", "to echo", "p50 us", "p99 us", "CPU us", "CPU-raw")


def table(rows, cells):
    """The rows as a person reads them, a line for each (model, concurrency) and transport."""
    found = {row["name"]: row for row in rows}
    lines, alone = [HEADINGS], []
    for model, concurrency in cells:
        for served, echo in ECHOES.items():
            def row(name, contender=served, cell=f"{model}/c{concurrency}"):
                return found[f"{contender}/{cell}/{name}"]

            def ratio(name, row=row):
                one = row(name)
                return f"{one['value']:.3f}", f"{one['min']:.2f}-{one['max']:.2f}"

            over = served.removesuffix("_binary")
            rates = (f"{row('requests_per_second', each)['value']:.0f}" for each in ("raw", echo, served))
            lines.append((model, str(concurrency), over, *rates, *ratio("ratio_to_raw"), *ratio("ratio_to_ceiling"),
                          ratio("ratio_to_echo")[0],
                          *(f"{row(name)['value']:.0f}"
                            for name in ("p50_us", "p99_us", "server_cpu_us", "server_cpu_beyond_raw_us"))))
            if concurrency == 1:
                alone.append(f"{model} over {over}, one at a time: p50 {row('p50_added_us')['value']:+.0f} us on raw, "
                             f"of which {row('p50_added_beyond_echo_us')['value']:+.0f} us are beyond the echo's p50")
    return "\n".join(aligned(lines) + alone)
