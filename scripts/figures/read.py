"""What each bench says of itself with --json, as figures.

A figure has a table, a row and a column in it; the values of several runs, sorted, times in seconds; and a target, if there is
one.
"""

import re

# In the order of the document; each with its package.
BENCHES = {"enroll": "trials", "fanout": "trials", "rotate": "trials", "ledger": "trials", "compile": "trials",
           "idle": "trials", "tunnel": "trials", "swap": "tunnel"}


class Strange(Exception):
    """A bench that says something else than it used to must not pass for one without figures."""


def figures(name, told):
    try:
        found = [each for each in READERS[name](told) if each["values"]]
    except (KeyError, IndexError, TypeError, RuntimeError) as why:
        raise Strange(f"`{name}` does not say what it used to: {why!r}") from why
    if not found:
        raise Strange(f"`{name}` measured nothing")
    # Which other programs it was compared with.
    beside = [note.strip() for note in told.get("notes", []) if re.match(r"  [\w -]+: ", note)]
    return {"beside": beside if name == "tunnel" else [], "figures": found}


def figure(what, values, unit="s", target=None, table="", column=""):
    values = sorted(value for value in (values if isinstance(values, list) else [values]) if value is not None)
    return {"table": table, "what": what, "column": column, "unit": unit, "values": values, "target": target}


def aim(target, unit, times=1.0):
    """The number of a target such as `>= 3000/s` or `99 % in <= 1 s`: the one before this unit. Some targets speak of more
    nodes than there were, and are not judged."""
    judged = target and target["met"] is not None
    found = re.search(rf"(<=|>=|<|half within) ([\d.]+) ?{re.escape(unit)}", target["words"]) if judged else None
    return [found[1].replace("half within", "<="), float(found[2]) * times] if found else None


def first_aim(targets, unit, times=1.0):
    return next(filter(None, (aim(target, unit, times) for target in targets)), None)


def noted(pattern, notes, times=1.0):
    return [float(found[1]) * times for found in (re.search(pattern, note or "") for note in notes) if found]


def enroll(told):
    # Of rows with the same name, the last has the most clients.
    for row in {row["what"]: row for row in told["rows"]}.values():
        what, targets = row["what"], row["targets"]
        if what.startswith("freehold-node join"):
            half = noted(r"half within ([\d.]+) ms", [row["note"]], 1e-3)
            yield figure("`freehold-node join`: half within", half, target=first_aim(targets, "ms", 1e-3))
        elif "machines at once" in what:
            yield figure(what, row["seconds"], target=first_aim(targets, "s"))
        else:
            yield figure(f"{what}, {row['clients']} at once", row["per_second"], "/s", first_aim(targets, "/s"))
        if what == "join, a fresh connection each":
            target = first_aim(targets, "ms of the gateway's CPU", 1e-3)
            yield figure("the gateway's processor time for each of these", row["gateway_ms"] / 1e3, target=target)


def fanout(told):
    rows, rest, table = told["rows"], told["rest"], f"{told['nodes']:,} nodes"
    for what in dict.fromkeys(row["what"] for row in rows):
        runs = [row for row in rows if row["what"] == what]
        target = first_aim([row["target"] for row in runs], "s")
        yield figure(f"{what}: verified by half", [row["half"] for row in runs], table=table)
        yield figure(f"{what}: by 99 %", [row["most"] for row in runs], target=target, table=table)
    cut = noted(r"cut off after ([\d.]+) ms", [row["note"] for row in rows], 1e-3)
    yield figure("the revoked node itself is cut off", cut, table=table)
    most, targets = noted(r"took ([\d.]+) MB at most", told["notes"]), told["rest_targets"]
    yield figure("the gateway's memory at rest", rest["resident_mb"], "MB", first_aim(targets, "MB"), table)
    yield figure("the gateway's memory at most", most, "MB", table=table)
    yield figure("the gateway at rest, of a core", rest["gateway_percent"], "%", first_aim(targets, "%"), table)


def rotate(told):
    rows, table = list(told["rows"]), f"{told['nodes']:,} nodes, one of twenty off: done and said so by"
    for cost in told["costs"]:
        # A new root of SVIDs is first tried, and then led to: two rows.
        for row in [rows.pop(0) for _ in range(2 if cost["what"] == "trust publish identity" else 1)]:
            what = cost["what"] + (": an SVID leads to it" if "SVID that leads to it" in row["what"] else "")
            for name, column in [("half", "50 %"), ("most", "99 %"), ("all", "all")]:
                yield figure(what, row[name], table=table, column=column)
        yield figure(what, cost["gateway_cpu_ms_per_node"] / 1e3, table=table, column="gateway's CPU for a node")


def ledger(told):
    runs = {}
    for row in told["rows"]:
        runs.setdefault((row["what"], row["unit"]), []).append(row)
    for (what, unit), rows in runs.items():
        target = first_aim([row["target"] for row in rows], unit)
        yield figure(what, [row["value"] for row in rows], unit, target, f"{told['nodes']:,} machines")


def compile_(told):
    for row in (row for row in told["rows"] if row["nodes"] == told["rows"][-1]["nodes"]):
        table = f"{row['nodes']:,} nodes, {row['services']:,} services, {row['users']:,} users"
        both, of = (row["check_ms"] + row["compile_ms"]) / 1e3, {each["words"].split(" <=")[0]: each for each in row["targets"]}
        target = aim(of.get("check + compile"), "s")
        yield figure(f"check and compile, in teams of {row['team']}", both, target=target, table=table)
        yield figure(f"plan, in teams of {row['team']}", row["plan_ms"] / 1e3, target=aim(of.get("plan"), "s"), table=table)


def idle(told):
    for row in told["rows"]:
        what, target = row["what"], row["target"]
        scaled = noted(r"\(([\d.]+) MB if scaled\)", [target["words"]]) if target else []
        yield figure(f"{what}: resident", row["resident_mb"], "MB", None if scaled else aim(target, "MB"))
        yield figure("the same, scaled up to 10,000", scaled, "MB", aim(target, "MB"))
        yield figure(f"{what}: its own memory", row["private_mb"], "MB")
        yield figure(f"{what}: of a core", row["percent_of_a_core"], "%", aim(target, "%"))
    yield figure("the gateway's memory for a connection", told["bytes_per_connection"] / 1024, "KiB")


# Part, streams and value of a row: its column, its unit, and what makes it that unit.
CARRIED = {
    ("bulk", 1, "Gbit/s"): ("bulk, 1 stream", "Gbit/s", 1.0),
    ("bulk", 100, "Gbit/s"): ("bulk, 100 streams", "Gbit/s", 1.0),
    ("bulk", 1, "CPU s per GiB"): ("CPU per GiB, 1 stream", "s", 1.0),
    ("bulk", 100, "CPU s per GiB"): ("CPU per GiB, 100 streams", "s", 1.0),
    ("round trip", 1, "us p50"): ("64 bytes and back, p50", "s", 1e-6),
    ("new connections", 16, "per s"): ("new connections", "/s", 1.0),
    ("new connections", 16, "CPU us each"): ("CPU of each of them", "s", 1e-6),
}


def tunnel(told):
    for (part, streams, name), (column, unit, times) in CARRIED.items():
        for row in (row for row in told["rows"] if (row["part"], row["streams"]) == (part, streams)):
            value = row["values"].get(name)
            yield figure(row["way"], value and value * times, unit, table="what is carried", column=column)
    for row in told["rows"]:
        part, way, streams, values, target = row["part"], row["way"], row["streams"], row["values"], row.get("target")
        if part == "bulk" and target:
            what, times = f"{way}, {streams} at once", row["ratios"]["Gbit/s"]
            yield figure(what, times, "x", aim(target, "x"), "bulk, times that of the bare forwarder of the same transport")
        if part == "round trip" and streams == 1 and target:
            what, added = f"{way}: p50 of 64 bytes and back", values["us p50 added"]
            yield figure(what, added and added / 1e6, "s", aim(target, "us", 1e-6), "over plain TCP")
        for end in ("near", "far") if part == "at rest" else ():
            what = f"{way}, the {end} end, {streams:,} streams"
            yield figure(what, values[f"KiB {end}"], "KiB", aim(target, "KiB"), "memory of a stream at rest")
        if part == "cuts":
            for of, seen, judged in [("from swap to last end at the service", "by the service", target),
                                     ("to last end at the callers", "by the callers", None)]:
                cut = values[f"ms {of}"]
                what = f"{way}: the last end is seen {seen}"
                yield figure(what, cut and cut / 1e3, "s", aim(judged, "ms", 1e-3), f"cuts of {streams:,} streams")


def swap(told):
    table = f"{told['rules']:,} rules, {told['streams']:,} open streams, half of which end"
    asked = {"what": "a decision meanwhile", "us_p50": told["decision_us_p50"], "us_worst": told["decision_us_worst"]}
    for row in told["rows"] + [asked]:
        target = ["<=", 1e-3] if row["what"] == "swap" else None
        yield figure(row["what"], row["us_p50"] / 1e6, target=target, table=table)
        yield figure(f"{row['what']}, at worst", row["us_worst"] / 1e6, table=table)


READERS = {"enroll": enroll, "fanout": fanout, "rotate": rotate, "ledger": ledger, "compile": compile_, "idle": idle,
           "tunnel": tunnel, "swap": swap}
