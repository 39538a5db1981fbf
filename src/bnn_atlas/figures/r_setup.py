"""Which figures R draws, from which files, and whether it can do so here; R is not started in this process."""

import importlib.util
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import NamedTuple

RCODE = Path(__file__).parents[3] / "Rcode"
"""Folder of the R functions of this repository; each kind of figure drawn by R has a file here, named after it."""
PACKAGES = ("ggplot2", "patchwork", "ragg", "systemfonts")
INSTALL = "apt-get install --no-install-recommends r-base-core r-cran-ggplot2 r-cran-patchwork r-cran-ragg"


def r_files(name: str, folder: Path = RCODE) -> list[Path]:
    """The R files that a kind needs, as named in lines `#' @include draw.R ...`, and then its own."""
    files: dict[Path, None] = {}
    _add(folder / f"{name}.R", files)
    return list(files)


def _add(file: Path, files: dict[Path, None]) -> None:
    for line in re.findall(r"^#' @include (.+)$", file.read_text(encoding="utf-8"), re.MULTILINE):
        for needed in line.split():
            _add(file.with_name(needed), files)
    files.setdefault(file)


class MissingR(NamedTuple):
    """Why R figures cannot be drawn here, and what to do."""

    reason: str
    install: str = INSTALL

    def __str__(self) -> str:
        """One line."""
        return f"{self.reason}; the R figures need it: {self.install}"


def available() -> MissingR | None:
    """None if R figures can be drawn, else what is missing. Takes about 0.1 s and does not start R in this process."""
    for program in ("R", "Rscript"):
        if shutil.which(program) is None:
            return MissingR(f"there is no {program} on the PATH")
    if importlib.util.find_spec("rpy2") is None:
        return MissingR(
            "the Python package rpy2 is not installed", "RPY2_CFFI_MODE=ABI pip install -r requirements.lock"
        )
    return _missing_packages(str(shutil.which("Rscript")))


@cache
def _missing_packages(rscript: str) -> MissingR | None:
    """Ask R where its packages are, once per process."""
    names = ",".join(f"'{name}'" for name in PACKAGES)
    code = f"cat(basename(find.package(c({names}), quiet = TRUE)))"
    try:
        result = subprocess.run(
            [rscript, "--default-packages=NULL", "-e", code], capture_output=True, text=True, timeout=60, check=True
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired, OSError) as error:
        return MissingR(f"{rscript} does not run ({error})")
    missing = [name for name in PACKAGES if name not in result.stdout.split()]
    return MissingR(f"R has no package {', '.join(missing)}") if missing else None
