"""What people read of the figures: tables, and a plot with bars of now, before and target."""

from statistics import median
from textwrap import fill
from xml.sax.saxutils import escape


def number(value):
    """To three digits, which is more than two runs have in common."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:,.0f}"


def words(values, unit):
    """One value, or the lowest and the highest; times in the unit that suits them."""
    times = 1.0
    if unit == "s":
        times, unit = (1.0, "s") if median(values) >= 1 else (1e3, "ms") if median(values) >= 1e-3 else (1e6, "µs")
    low, high = number(values[0] * times), number(values[-1] * times)
    return (low if low == high else f"{low} to {high}") + ("" if unit == "/s" else " ") + unit


def aimed(figure):
    sign = {"<=": "at most", ">=": "at least", "<": "under"}
    return f"{sign[figure['target'][0]]} {words([figure['target'][1]], figure['unit'])}" if figure["target"] else ""


def tables(run):
    """The figures by table, row and column, all in the order in which they came."""
    found = {}
    for each in run["figures"] if run else []:
        found.setdefault(each["table"], {}).setdefault(each["what"], {})[each["column"]] = each
    return found


def columns_of(rows):
    return list(dict.fromkeys(column for row in rows.values() for column in row))


def about(run):
    commit, quick = f", commit {run['commit']}" if run["commit"] else "", ", `--quick`" if run["quick"] else ""
    return f"{run['date']}, a release build on {run['machine']}{commit}{quick}"


def between_marks(name, now, before):
    if not now:
        return f"No figures are kept yet: `scripts/bench {name}`.\n"
    lines, old = [fill(f"{about(now)}." + (f" Before: {about(before)}." if before else ""), 128)], tables(before)
    if now["beside"]:
        lines += ["", fill(f"Beside it: {'; '.join(now['beside'])}.", 128)]
    for title, rows in tables(now).items():
        columns = columns_of(rows)
        is_list = columns == [""]
        lines += ["", f"| {title} | {'now | before | target' if is_list else ' | '.join(columns)} |"]
        lines += ["|---" * (4 if is_list else len(columns) + 1) + "|"]
        for what, row in rows.items():
            cells = []
            for column in columns:
                figure, was = row.get(column), old.get(title, {}).get(what, {}).get(column)
                is_now, was = (words(each["values"], each["unit"]) if each else "" for each in (figure, was))
                # With several columns, what was before stands in brackets.
                cells += [is_now, was, aimed(figure)] if is_list else [f"{is_now} ({was})" if was else is_now]
            lines.append(f"| {what} | {' | '.join(cells)} |")
    return "\n".join(lines + ["", f"![The figures of {name} as bars](bench/{name}.svg)", ""])


# A plot brings its own ground, so that it can be read wherever it is shown. What is known by color is known by shape too.
STYLE = """<style>
text { font: 12px system-ui, sans-serif; fill: #1f2328; }
.title { font-weight: 600; }
.small { font-size: 11px; stroke: #ffffff; stroke-width: 3px; paint-order: stroke; }
.ground { fill: #ffffff; } .now { fill: #0969da; } .before { fill: #8c959f; }
.target { stroke: #bc4c00; stroke-width: 2; stroke-dasharray: 3 2; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; } .small { stroke: #0d1117; }
.ground { fill: #0d1117; } .now { fill: #4493f8; } .before { fill: #7d8590; }
.target { stroke: #f0883e; }
}
</style>"""


def text(x, y, said, kind="plain"):
    return f'<text class="{kind}" x="{x:.0f}" y="{y:.0f}">{escape(said.replace("`", ""))}</text>'


def bar(x, y, width, height, kind):
    return f'<rect class="{kind}" x="{x:.0f}" y="{y}" width="{max(width, 1):.1f}" height="{height}"/>'


def target(x, y, height):
    return f'<line class="target" x1="{x:.1f}" x2="{x:.1f}" y1="{y}" y2="{y + height}"/>'


def plot(name, now, before):
    """For each row bars of now and before, and a line at its target. Several columns stand side by side."""
    old, drawn, y, wide = tables(before), [], 72, 820
    for title, rows in tables(now).items():
        columns, olds = columns_of(rows), old.get(title, {})
        left, panel = 30 + 6.2 * max(map(len, rows)), 165
        if columns == [""]:
            panel = 400
        wide = max(wide, left + panel * len(columns) + 20)
        drawn.append(text(16, y, title or "figures", "title"))
        if columns != [""]:
            y += 18
            drawn += [text(left + panel * at, y, column, "small") for at, column in enumerate(columns)]
        y += 10
        for what, row in rows.items():
            drawn.append(text(16, y + 11, what))
            for at, column in enumerate(columns):
                if column in row:
                    peers = [(each[column], olds.get(peer, {}).get(column)) for peer, each in rows.items() if column in each]
                    pair = row[column], olds.get(what, {}).get(column)
                    drawn += bars(*pair, left + panel * at, y, (panel - 100) / reach(pair, peers))
            y += 34 if olds else 24
        y += 26
    key = [bar(16, 34, 14, 12, "now"), text(36, 45, f"now, {now['date']}"), target(386, 30, 20), text(394, 45, "target")]
    key += [bar(190, 36, 14, 8, "before"), text(210, 45, f"before, {before['date']}")] if before else []
    said = f"{len(now['figures'])} figures; the table beside the plot in docs/bench.md has them as numbers."
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {y - 20}" role="img" aria-labelledby="title desc">',
        f'<title id="title">Bench {name}: now, before, target</title>', f'<desc id="desc">{escape(said)}</desc>', STYLE,
        f'<rect class="ground" width="{wide:.0f}" height="{y - 20}" rx="6"/>', text(16, 20, f"bench {name}", "title"),
        *key, *drawn, "</svg>", ""])


def reach(pair, peers):
    """What the longest bar stands for. A column has one scale; a list has one only if its rows can be compared."""
    def ends(figure, was):
        found = [median(each["values"]) for each in (figure, was) if each]
        return found + [figure["target"][1]] if figure["target"] else found
    all_ends = [end for each in peers for end in ends(*each)]
    comparable = len({figure["unit"] for figure, _ in peers}) == 1 and max(all_ends) <= 20 * min(all_ends)
    return max(all_ends if pair[0]["column"] or comparable else ends(*pair)) or 1.0


def bars(figure, was, x, y, scale):
    drawn = [target(x + scale * figure["target"][1], y - 2, 28 if was else 17)] if figure["target"] else []
    said = []
    for each, down, height, kind in [(figure, 0, 13, "now"), (was, 15, 9, "before")]:
        if each:
            width = scale * median(each["values"])
            drawn.insert(0, bar(x, y + down, width, height, kind))
            said.append(text(x + width + 5, y + down + height - 1, words(each["values"], each["unit"]), "small"))
    return drawn + said
