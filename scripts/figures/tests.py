#!/usr/bin/env python3
"""Tries scripts/bench with what benches printed, on a copy of the document."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent))
from figures import read  # noqa: E402

WHERE = ["--date", "2026-12-01", "--machine", "8 cores (a test), Linux 6.12, the ledger on xfs"]


class Bench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.docs = Path(folder.name)
        shutil.copy(ROOT / "docs/bench.md", self.docs)
        shutil.copytree(ROOT / "docs/bench", self.docs / "bench")

    def bench(self, *words):
        command = [sys.executable, ROOT / "scripts/bench", "--docs", self.docs, *words]
        return subprocess.run(command, capture_output=True, text=True)

    def write_down(self, name, file=None):
        return self.bench(name, "--from", file or HERE / "examples" / f"{name}.json", *WHERE)

    def page(self):
        return (self.docs / "bench.md").read_text()

    def refused(self, done, why):
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(why, done.stderr)

    def test_the_document_has_the_figures_that_are_kept(self):
        done = self.bench("--redraw")
        self.assertEqual(done.returncode, 0, done.stderr)
        for file in [path.relative_to(self.docs) for path in self.docs.rglob("*") if path.is_file()]:
            kept = (ROOT / "docs" / file).read_text()
            self.assertEqual(kept, (self.docs / file).read_text(), f"docs/{file} is not what `scripts/bench --redraw` writes")

    def test_every_bench_is_written_down_and_drawn(self):
        for name in read.BENCHES:
            done = self.write_down(name)
            self.assertEqual(done.returncode, 0, done.stderr)
            own = self.page().split(f"<!-- figures:{name} -->")[1].split("<!-- end -->")[0]
            self.assertIn("2026-12-01, a release build on 8 cores (a test)", " ".join(own.split()))
            for table in re.findall(r"(?:^\|.*\n)+", own, re.MULTILINE):
                self.assertEqual(len({row.count("|") for row in table.splitlines()}), 1, table)
            xml.etree.ElementTree.parse(self.docs / "bench" / f"{name}.svg")
        self.assertEqual(self.page().count("<!-- figures:"), len(read.BENCHES))

    def test_every_figure_names_its_processor(self):
        for name, runs in json.loads((ROOT / "docs/bench/figures.json").read_text()).items():
            for run in filter(None, runs.values()):
                self.assertRegex(run["machine"], r"^\d+ cores \(.+?\)", f"{name}, {run['date']}")

    def test_what_was_now_becomes_before(self):
        example = (HERE / "examples/enroll.json").read_text()
        for per_second in ["2000.0", "2500.0", "3100.0"]:
            (self.docs / "run.json").write_text(example.replace("2400.5", per_second))
            self.write_down("enroll", self.docs / "run.json")
        self.assertIn("| join, open connections, 64 at once | 3,100/s | 2,500/s | at least 3,000/s |", self.page())

    def test_rows_say_what_was_measured(self):
        # Runs of today are none of its business.
        (self.docs / "bench/figures.json").write_text("{}")
        for name in read.BENCHES:
            self.write_down(name)
        for row in [
            "`freehold-node join`: half within | 30.5 ms |  | at most 25 ms",
            "join, open connections, 64 at once | 2,400/s |  | at least 3,000/s",
            "publish, a manifest each: by 99 % | 2.5 to 2.7 s |  | at most 1 s",
            "the revoked node itself is cut off | 187 ms |  | ",
            "trust publish identity: an SVID leads to it | 4 s | 4.8 s | 4.8 s | 1.1 ms",
            "`freehold publish`, nobody new | 290 to 310 ms |  | at most 2 s",
            "check and compile, in teams of 25 | 280 ms |  | at most 500 ms",
            "plan, in teams of 25 | 900 ms |  | at most 1 s",
            "the same, scaled up to 10,000 | 317 MB |  | at most 300 MB",
            "tunnel, tls: p50 of 64 bytes and back | 78 µs |  | at most 60 µs",
            "swap | 1.3 µs |  | at most 1 ms",
        ]:
            self.assertIn(f"| {row} |", self.page())

    def test_lost_marks_are_noticed_before_anything_is_measured(self):
        for lost in ["<!-- figures:ledger -->", "<!-- end -->"]:
            text = (ROOT / "docs/bench.md").read_text()
            at = text.index(lost, text.index("<!-- figures:ledger"))
            (self.docs / "bench.md").write_text(text[:at] + text[at + len(lost):])
            self.refused(self.bench("ledger"), "lacks the marks `<!-- figures:ledger -->`")

    def test_what_is_not_understood_is_not_written_down(self):
        before, file = self.page(), self.docs / "run.json"
        told = json.loads((HERE / "examples/enroll.json").read_text())
        for text, why in [("not measured", "has no JSON"), ("{}", "does not say what it used to"),
                          (json.dumps({**told, "rows": []}), "measured nothing")]:
            file.write_text(text)
            self.refused(self.write_down("enroll", file), why)
        self.refused(self.bench("enrol"), "there is no bench `enrol`")
        self.refused(self.bench("enroll", "--from", file), "wants one bench, and --date and --machine")
        self.assertEqual(before, self.page())

    def test_every_bench_of_the_manifests_is_known(self):
        known = {(package, name) for name, package in read.BENCHES.items()}
        there = set()
        for manifest in [*ROOT.glob("crates/*/Cargo.toml"), ROOT / "trials/Cargo.toml"]:
            names = re.findall(r'^\[\[bench\]\]\nname = "(\w+)"', manifest.read_text(), re.MULTILINE)
            there |= {(manifest.parent.name, name) for name in names}
        self.assertEqual(known, there)


if __name__ == "__main__":
    unittest.main()
