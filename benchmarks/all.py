"""Runs every comparison with a peer and writes the table of docs/dev/performance.md.

    make bench [DATA=../shared/data] [ARGS="--device cuda"]

With `--device cuda`, those that can use a GPU run, and the results have a table of their own.
Each benchmark is a process of its own, which runs us and the peer alternately. A benchmark that fails, because the two
did not do the same work or the peer is not installed, is named below the table, and the command ends with status 1.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from devices import named, required_device
from pages import put

FOLDER = Path(__file__).parent
PAGE = FOLDER.parent / "docs" / "dev" / "performance.md"
START = {"cpu": "<!-- measured: make bench -->", "cuda": "<!-- measured on a GPU -->"}
END = "<!-- end of measured -->"


@dataclass(frozen=True)
class Benchmark:
    """A script of this folder and its arguments; {data} stands for the folder of data sets."""

    script: str
    arguments: tuple[str, ...] = ()


BENCHMARKS = (
    Benchmark("trainers.py", ("{data}/answers/wikiqa", "--repeats", "2")),
    Benchmark("trainers.py", ("{data}/trec/msmarco-dl", "--only", "BERT", "--repeats", "1")),
    Benchmark("bert_papers.py", ("{data}/answers/wikiqa", "--dev", "20")),
    Benchmark("scoring.py", ("{data}/answers/wikiqa",)),
    Benchmark("trial_start.py"),
    Benchmark("reading.py"),
    Benchmark("candidates.py", ("{data}/trec/nfcorpus", "--repeats", "2")),
    Benchmark("bm25_grid.py", ("{data}/trec/msmarco-dl", "--checked", "4")),
    Benchmark("whole_search.py", ("{data}/answers/wikiqa",)),
)
ON_A_GPU = (
    Benchmark("trainers.py", ("{data}/answers/wikiqa", "--device", "cuda", "--steps", "64")),
    Benchmark("trainers.py", ("{data}/trec/msmarco-dl", "--only", "BERT", "--device", "cuda", "--steps", "64")),
    Benchmark("scoring.py", ("{data}/answers/wikiqa", "--device", "cuda", "--pairs", "20000")),
    Benchmark("gpu.py", ("{data}/answers/wikiqa", "--device", "cuda")),
)


def rows_of(benchmark: Benchmark, data: str) -> tuple[list[dict], str]:
    """The JSON lines a benchmark printed, and why it failed, if it did."""
    arguments = [argument.format(data=data) for argument in benchmark.arguments]
    command = [sys.executable, "-W", "ignore", str(FOLDER / benchmark.script), *arguments, "--json"]
    print(f"{benchmark.script} ...", file=sys.stderr, flush=True)
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(f"  {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    last = done.stderr.strip().splitlines()[-1:] if done.returncode else []
    return rows, f"{benchmark.script}: {(last or ['no message'])[0]}" if done.returncode else ""


def table(rows: list[dict], failures: list[str], device: str) -> str:
    lines = ["| work | we | peer | peer's time | ratio | over the repeats |", "|---|---:|---|---:|---:|---:|"]
    lines += [
        f"| {row['work']} | {row['ours_s']:.3g} s | {row['against']} | {row['peer_s']:.3g} s | {row['ratio']:.2f} | "
        f"{row['low']:.2f} to {row['high']:.2f} |"
        for row in rows
    ]
    gpu = f", {named(required_device(device))}" if device == "cuda" else ""
    cores = len(os.sched_getaffinity(0))
    lines += ["", f"{platform.machine()} ({instructions()}), {cores} cores{gpu}, Python {platform.python_version()}."]
    return "\n".join([*lines, *(f"Failed: {failure}" for failure in failures)])


def instructions() -> str:
    """Those of the processor that matrix products use, as far as Linux tells."""
    told = Path("/proc/cpuinfo")
    flags = set(told.read_text().split()) if told.exists() else set()
    return ", ".join(name for name in ("avx2", "avx512f", "avx512_bf16", "amx_bf16") if name in flags) or "unknown"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", default="../shared/data", help="folder of data sets")
    parser.add_argument("--device", choices=tuple(START), default="cpu")
    parser.add_argument("--only", help="run one script, print its rows, write nothing")
    options = parser.parse_args()
    required_device(options.device)
    chosen = [b for b in (BENCHMARKS if options.device == "cpu" else ON_A_GPU) if options.only in (None, b.script)]
    needed = {argument.format(data=options.data) for b in chosen for argument in b.arguments if "{data}" in argument}
    if missing := sorted(folder for folder in needed if not Path(folder).exists()):
        parser.error(
            f"DATA={options.data} lacks {', '.join(missing)}: WikiQA, MS MARCO and NFCorpus as tune-cl reads them"
        )
    results = [rows_of(benchmark, options.data) for benchmark in chosen]
    rows = [row for of_script, _ in results for row in of_script]
    failures = [failure for _, failure in results if failure]
    measured = table(rows, failures, options.device)
    print(measured)
    if not options.only:
        put(PAGE, f"{START[options.device]}\n", END, measured)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
