"""Measures how many faults the tests catch: plants faults at random in the package and runs, for each, the tests that
reach it.

A fault is one change of the source: a comparison turned, + and - swapped, a constant off by one, a statement dropped, a
condition negated, a lock or a sync left out, another return value (see mutant_faults.py, and there why no library
plants them). Each runs in a copy of the checkout, at first with the tests that reach the fewest other lines; the first
that fails ends it, and so does a time limit. A test that fails without the fault too does not count.

Three tiers: `fast` is what `pytest` runs; `all` also runs, for what that did not catch, the second tier's tests in the
files of tests that reach the line, and those of the package's folder of tests in files that have no others; `--base`
runs what both did not catch with the tests of another checkout, in the files of the same names. Tests of the first tier
that exceed their time have caught a fault; elsewhere nobody knows what they take. Results are in JSON files below
--work, so that a run that was interrupted goes on. The library that this needs, coverage, is in the extra `test`.

Examples:
  python tools/mutants.py --list
  python tools/mutants.py --seed 1 --faults 120 --jobs 2
  python tools/mutants.py --tier all --before "nice -n 10"
  python tools/mutants.py --tier all --base /tmp/before --base_python /tmp/venv/bin/python
"""

import argparse
import fcntl
import json
import shlex
import sys
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import mutant_copies
import mutant_faults
import mutant_runs
from mutant_faults import Fault

ROOT = Path(__file__).resolve().parent.parent
TIERS = {"fast": ("fast",), "all": ("fast", "second")}


class Results:
    """Outcomes by fault and tier, in a file that is written after each; several runs can share it."""

    def __init__(self, file: Path):
        self.file = file
        self.known: dict[str, dict[str, dict]] = self._read()

    def _read(self) -> dict[str, dict[str, dict]]:
        return json.loads(self.file.read_text()) if self.file.exists() else {}

    def add(self, key: str, tier: str, outcome: mutant_runs.Outcome) -> None:
        with open(self.file.with_suffix(".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.known = self._read()
            self.known.setdefault(key, {})[tier] = vars(outcome)
            new = self.file.with_suffix(".new")
            new.write_text(json.dumps(self.known, indent=1))
            new.replace(self.file)

    def forget(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.known.pop(key, None)
        self.file.write_text(json.dumps(self.known, indent=1))

    def caught(self, key: str, *tiers: str) -> bool:
        """Whether a test of any of the tiers caught a fault."""
        return any(self.known.get(key, {}).get(tier, {}).get("caught") for tier in tiers)

    def ran(self, key: str, tier: str) -> bool:
        """Whether this run, or one beside it, has a result."""
        self.known = self._read()
        return tier in self.known.get(key, {})


def measure(faults: list[Fault], tiers: tuple[str, ...], make, results: Results, jobs: int) -> None:
    """Runs all faults that no earlier tier caught, in so many copies at a time. make: gives the runner of a copy."""
    runners: SimpleQueue = SimpleQueue()
    for number in range(jobs):
        runners.put(make(number))

    def run(fault: Fault, tier: str) -> None:
        if results.ran(fault.key, tier):
            return
        runner = runners.get()
        try:
            outcome = runner.run(fault, tier)
        finally:
            runners.put(runner)
        results.add(fault.key, tier, outcome)
        print(f"{fault.key:60} {tier:6} {outcome}", file=sys.stderr, flush=True)

    for i, tier in enumerate(tiers):
        open_ones = [fault for fault in faults if not results.caught(fault.key, *tiers[:i])]
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(run, open_ones, [tier] * len(open_ones)))


def table(faults: list[Fault], results: Results, tiers: tuple[str, ...], title: str, group) -> str:
    """Markdown: planted, and caught up to each tier, by a property of the faults."""
    columns = [Counter(map(group, faults))]
    for i in range(len(tiers)):
        columns.append(Counter(group(fault) for fault in faults if results.caught(fault.key, *tiers[: i + 1])))
    rows = [[title, "Planted", *(f"Caught, {tier}" for tier in tiers)], ["---"] * (len(tiers) + 2)]
    rows += [[name, *(column[name] for column in columns)] for name in columns[0]]
    rows.append(["all", *(column.total() for column in columns)])
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in rows)


def survivors(faults: list[Fault], results: Results, tiers: tuple[str, ...], package: Path) -> str:
    """What no tier caught: where, what changed, and how many tests ran of those that reach it."""
    texts = []
    for fault in faults:
        if not results.caught(fault.key, *tiers):
            known = results.known.get(fault.key, {})
            ran = ", ".join(f"{tier} {known[tier]['tests'] if tier in known else 'not run'}" for tier in tiers)
            diff = fault.diff((package / fault.path).read_bytes())
            texts.append(f"{fault.path}:{fault.line} {fault.kind} (tests: {ran})\n{diff}")
    return "\n\n".join(texts)


def report(faults: list[Fault], results: Results, tiers: tuple[str, ...], package: Path) -> str:
    by_part = [fault for some in mutant_faults.by_part(faults).values() for fault in some]
    return "\n\n".join(
        [
            table(by_part, results, tiers, "Package", lambda fault: fault.part or "others"),
            table(faults, results, tiers, "Fault", lambda fault: fault.kind),
            f"Survivors:\n\n{survivors(faults, results, tiers, package)}",
        ]
    )


def options(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="of the faults that are drawn; default 1")
    parser.add_argument("--faults", type=int, default=120, help="how many; default 120")
    parser.add_argument("--tier", choices=TIERS, default="fast", help="of tests; default fast")
    parser.add_argument("--jobs", type=int, default=1, help="copies in which tests run at a time; default 1")
    parser.add_argument("--first", type=int, default=1, help="number of the first copy, for a run beside another one")
    parser.add_argument("--list", action="store_true", help="only print the faults")
    parser.add_argument("--only", default="", help="only faults whose file:line begins so")
    parser.add_argument("--again", action="store_true", help="run what has a result once more: the tests have changed")
    parser.add_argument(
        "--budget", type=float, default=300, help="seconds of tests for a fault and a tier; default 300"
    )
    parser.add_argument("--before", default="", help='words before each command, as "nice -n 10"')
    parser.add_argument("--work", type=Path, default=ROOT / "build/mutants", help="folder of copies and results")
    parser.add_argument("--base", type=Path, help="another checkout, whose tests run what these do not catch")
    parser.add_argument("--base_python", default=sys.executable, help="the interpreter for --base")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> None:
    args = options(words)
    package, before = ROOT / "caffelite", tuple(shlex.split(args.before))
    faults = [f for f in mutant_faults.draw(package, args.faults, args.seed) if f.key.startswith(args.only)]
    if args.list:
        for fault in faults:
            print(f"{fault.path}:{fault.line} {fault.kind}\n{fault.diff((package / fault.path).read_bytes())}")
        return
    work, tiers = args.work.resolve(), TIERS[args.tier]
    work.mkdir(parents=True, exist_ok=True)
    first = mutant_copies.Copy.of(ROOT, work / "0", sys.executable, before)
    reach = mutant_copies.measure(first, args.jobs)
    results = Results(work / f"results-{args.seed}.json")
    if args.again:
        results.forget(fault.key for fault in faults)

    def runner(number: int) -> mutant_runs.Runner:
        copy = mutant_copies.Copy.of(ROOT, work / str(args.first + number), sys.executable, before)
        return mutant_runs.Runner(copy, first, reach, args.budget)

    def base_runner(number: int) -> mutant_runs.Runner:
        copy = mutant_copies.Copy.of(
            args.base.resolve(), work / f"base/{args.first + number}", args.base_python, before
        )
        return mutant_runs.BaseRunner(copy, package, reach, args.budget)

    measure(faults, tiers, runner, results, args.jobs)
    if args.base:
        measure([f for f in faults if not results.caught(f.key, *tiers)], ("base",), base_runner, results, args.jobs)
        tiers = *tiers, "base"
    print(report(faults, results, tiers, package))


if __name__ == "__main__":
    main()
