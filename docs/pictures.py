"""Makes docs/images again: the report of a search, and MLflow's comparison of its trials, as a browser shows them.

    python docs/pictures.py                   runs the quickstart and its confirmation in a temporary folder
    python docs/pictures.py STORAGE/NAME      takes a search that has ended and been confirmed

Needs Chromium (Debian: apt install chromium; `--browser` names another) and Pillow, which matplotlib brings."""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from PIL import Image

IMAGES = Path(__file__).parent / "images"
LARGEST = 300 * 1024  # bytes of a picture
TRIALS = "searchFilter=tags.%60tune_cl.kind%60%20%3D%20'trial'&orderByKey=metrics.%60best_dev_map%60&orderByAsc=false"
PATIENCE = 120  # seconds for the server, and for a page
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("search", nargs="?", type=Path, metavar="STORAGE/NAME")
    parser.add_argument("--browser", default=shutil.which("chromium") or "chromium")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        search = options.search or quickstart(Path(folder))
        storage, name = search.resolve().parent, search.name
        IMAGES.mkdir(exist_ok=True)
        tune_cl("report", name, "--storage", storage)
        picture(options.browser, (storage / name / "report.html").as_uri(), "report.png", (900, 1030))
        server, address = mlflow(storage)
        try:
            picture(options.browser, f"{address}/#/experiments/1/runs?{TRIALS}", "mlflow.png", (1900, 640), 1410)
        finally:
            server.terminate()
            server.wait()


def tune_cl(*arguments: str | Path) -> dict:
    """Runs a command and returns its JSON document."""
    command = [sys.executable, "-m", "tune_cl", *map(str, arguments), "--json"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def quickstart(storage: Path) -> Path:
    tune_cl("run", "quickstart", "--storage", storage)
    tune_cl("confirm", "quickstart", "--storage", storage)
    return storage / "quickstart"


def mlflow(storage: Path) -> tuple[subprocess.Popen[bytes], str]:
    """An MLflow server over the storage's database, and its address once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    store = f"sqlite:///{storage / 'mlflow.db'}"
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(
        [*command, "--backend-store-uri", store], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    address = f"http://127.0.0.1:{port}"
    for _ in range(PATIENCE):
        time.sleep(1)
        try:
            with urllib.request.urlopen(f"{address}/health"):
                return server, address
        except OSError:
            continue
    server.terminate()
    raise SystemExit(f"MLflow did not answer at {address} within {PATIENCE} s")


def picture(browser: str, address: str, name: str, size: tuple[int, int], width: int | None = None) -> None:
    """Saves what the browser shows of a page, its left `width` pixels if given (MLflow's assistant is on the right).

    Refuses a picture that is too large for a README."""
    target = IMAGES / name
    with tempfile.TemporaryDirectory() as profile:
        own = (f"--user-data-dir={profile}", f"--window-size={size[0]},{size[1]}", "--virtual-time-budget=30000")
        command = [browser, *FLAGS, *own, f"--screenshot={target}", address]
        subprocess.run(command, check=True, timeout=PATIENCE, stderr=subprocess.DEVNULL)
    with Image.open(target) as image:
        shown = image.convert("RGB").crop((0, 0, width or size[0], size[1]))
    shown.save(target, optimize=True)
    if target.stat().st_size > LARGEST:
        raise SystemExit(f"{target} has {target.stat().st_size:,} bytes; {LARGEST:,} are the most")


if __name__ == "__main__":
    main()
