"""A folder of wheels from which pip installs this project in seconds, without an index.

Each package of the running environment becomes a wheel of its metadata and entry points alone, so pip resolves,
constrains and installs what the project requires as from an index: into an environment of its own, with commands of its
own. What those packages require in turn is left out: it is many times as much, and the running environment has it. The
code of the packages stays where it is: one of the wheels brings a path file that names the running environment's
folders, which Python searches last. Only setuptools, which builds the project, is copied whole.
"""

from __future__ import annotations

import site
import zipfile
from importlib.metadata import Distribution, distributions
from pathlib import Path

from packaging.utils import canonicalize_name

WHOLE = "setuptools"
BRINGS_PATH = "numpy"  # a package that the project needs on every platform
WHEEL = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_wheels(folder: Path, without: str) -> None:
    """Writes a wheel for each package of the running environment but one."""
    folder.mkdir()
    seen = {without, "pip"}
    for package in distributions():
        name = canonicalize_name(package.metadata["Name"])
        if name not in seen:  # the first on the path is the one in force
            seen.add(name)
            _write(folder, name.replace("-", "_"), package)


def _write(folder: Path, name: str, package: Distribution) -> None:
    info = f"{name}-{package.version}.dist-info"
    header = (package.read_text("METADATA") or "").partition("\n\n")[0]  # pip would parse the README many times
    header = "\n".join(line for line in header.splitlines() if not line.startswith("Requires-Dist:"))
    contents = {f"{info}/METADATA": f"{header}\n", f"{info}/WHEEL": WHEEL}
    if entry_points := package.read_text("entry_points.txt"):
        contents[f"{info}/entry_points.txt"] = entry_points
    if name == BRINGS_PATH:
        contents["running_environment.pth"] = "".join(f"{path}\n" for path in site.getsitepackages())
    copied = [file for file in package.files or () if file.parts[0] in (WHOLE, "pkg_resources", "_distutils_hack")]
    with zipfile.ZipFile(folder / f"{name}-{package.version}-py3-none-any.whl", "w") as wheel:
        for path, text in contents.items():
            wheel.writestr(path, text)
        for file in copied if name == WHOLE else ():
            if file.suffix != ".pyc":
                wheel.write(str(file.locate()), str(file))
        wheel.writestr(f"{info}/RECORD", "".join(f"{path},,\n" for path in [*wheel.namelist(), f"{info}/RECORD"]))
