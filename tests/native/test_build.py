"""Building the compiled gradient, and what happens where that is impossible."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from bnn_atlas.native import build as native

REPOSITORY = Path(__file__).parents[2]
FAKE = """#!/bin/bash
while [ $# -gt 0 ]; do [ "$1" = -o ] && echo made >"$2"; shift; done
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the sources without a library."""
    copy = tmp_path / "native"
    shutil.copytree(native.FOLDER, copy, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    monkeypatch.setattr(native, "FOLDER", copy)
    return copy


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A compiler that writes something into whatever it is asked to make."""
    script = tmp_path / "compile"
    script.write_text(FAKE)
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    monkeypatch.setattr(native.platform, "machine", lambda: "x86_64")


@pytest.mark.usefixtures("compiler")
def test_a_stale_library_is_replaced_and_a_good_one_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "gradient-0123456789abcdef.so").write_text("old")
    made = native.build()
    assert [file.name for file in folder.glob("*.so")] == [made.name]
    made.write_text("kept")
    assert native.build().read_text() == "kept"
    with (folder / "functions.h").open("a") as handle:
        handle.write("// edited\n")
    edited = native.build()
    assert edited != made
    assert not made.exists()
    monkeypatch.setattr(native, "version", lambda package: "99.0")
    assert not native.library().exists(), "a library for another jaxlib is not used"


def test_without_a_compiler_one_line_says_what_is_lost(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(native.platform, "machine", lambda: "x86_64")
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(SystemExit, match="1"):
        native.main()
    (line,) = capsys.readouterr().err.splitlines()
    assert "no C++ compiler" in line
    assert native.LOST in line


@pytest.mark.usefixtures("folder")
def test_a_compiler_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native.platform, "machine", lambda: "x86_64")
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(native.BuildError, match="false failed"):
        native.build()


@pytest.mark.usefixtures("folder")
def test_other_processors_are_left_to_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native.platform, "machine", lambda: "aarch64")
    with pytest.raises(native.BuildError, match="x86-64"):
        native.build()


def test_a_wheel_has_the_library_and_is_for_its_platform(tmp_path: Path) -> None:
    try:
        library = native.build()
    except native.BuildError as error:
        pytest.skip(f"no compiled gradient here: {error}")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-linux_x86_64.whl")
    assert f"bnn_atlas/native/{library.name}" in zipfile.ZipFile(wheel).namelist()


def test_the_set_up_installs_a_compiler_and_builds() -> None:
    setup = (REPOSITORY / "envs" / "setup.sh").read_text(encoding="utf-8")
    assert setup.index("apt_install g++") < setup.index("--editable .")
    assert "python -m bnn_atlas.native.build" in (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    for name in ("python", "python-gpu"):
        deploy = (REPOSITORY / "envs" / f"{name}.post-deploy.sh").read_text(encoding="utf-8")
        assert "python -m bnn_atlas.native.build" in deploy
        assert "cxx-compiler" in (REPOSITORY / "envs" / f"{name}.yaml").read_text(encoding="utf-8")
