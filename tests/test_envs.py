"""Environment files against the lock files and the project's own requirements; its version; where CI runs."""

import json
import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from bnn_atlas.figures import r_setup

REPOSITORY = Path(__file__).parents[1]
LOCKS = {
    name: (REPOSITORY / f"{name}.lock").read_text(encoding="utf-8") for name in ("requirements", "requirements-gpu")
}
LOCKED, GPU_LOCKED = (dict(re.findall(r"^([\w.-]+)==(\S+)", lock, re.MULTILINE)) for lock in LOCKS.values())
RUNS_SNAKEMAKE = {"snakemake", "snakemake-executor-plugin-slurm"}
R_BRIDGE = {"rpy2", "rpy2-rinterface"}


def pip_pins(name: str) -> dict[str, str]:
    """Packages that pip installs into a conda environment, with their versions."""
    environment = yaml.safe_load((REPOSITORY / "envs" / f"{name}.yaml").read_text(encoding="utf-8"))
    (section,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    return dict(entry.split("==") for entry in section)


def project() -> dict[str, Any]:
    """The section `project` of pyproject.toml."""
    return tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def direct_requirements() -> set[str]:
    """Packages of the library and of the extras `arviz` and `workflow`."""
    extras = project()["optional-dependencies"]
    requirements = project()["dependencies"] + extras["arviz"] + extras["workflow"]
    return {re.split(r"[^\w.-]", requirement)[0] for requirement in requirements}


def what_make_does(*arguments: str) -> str:
    inherited = ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "DEVICE", "PYTHON", "VENV")
    environment = {name: value for name, value in os.environ.items() if name not in inherited}
    command = ["make", "--dry-run", "--no-print-directory", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=True).stdout


def test_version_is_the_same_wherever_it_is_written() -> None:
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text(encoding="utf-8"))
    first = re.search(r"^## (.*)$", (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert first
    assert first[1] == f"{citation['version']} ({citation['date-released']})"
    assert citation["version"] == project()["version"]


def test_ci_runs_on_each_supported_python_and_pins_its_actions() -> None:
    workflow = yaml.safe_load((REPOSITORY / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    (job,) = workflow["jobs"].values()
    assert job["steps"][-1] == {"run": ".ci/run"}
    assert all(re.fullmatch(r"[\w/-]+@v\d+\.\d+\.\d+", step["uses"]) for step in job["steps"] if "uses" in step)
    first, last = re.findall(r"3\.(\d+)", project()["requires-python"])
    assert len(job["strategy"]["matrix"]["image"]) == int(last) - int(first)


def test_container_runs_targets_of_make_and_any_user_can_write_what_they_make() -> None:
    text = (REPOSITORY / "envs" / "Containerfile").read_text(encoding="utf-8")
    (command,) = re.findall(r"^CMD (.*)$", text, re.MULTILINE)
    assert "envs/setup.sh" in what_make_does(*re.findall(r"RUN make (\w+)", text), "VENV=nowhere")
    assert "snakemake --cores" in what_make_does(*json.loads(command)[1:])
    (folders,) = re.findall(r"install --directory --mode 1777 (.*)", text)
    home = re.findall(r" HOME=/atlas/(\w+)", text)
    assert folders.split() == ["results", ".snakemake", *home]


@pytest.mark.parametrize("name", ["python", "r"])
def test_conda_environments_have_the_locked_versions(name: str) -> None:
    pins = pip_pins(name)
    assert pins == {package: LOCKED.get(package) for package in pins}


@pytest.mark.parametrize("name", ["python", "python-gpu", "r"])
def test_conda_environments_pin_all_packages_and_have_a_supported_python(name: str) -> None:
    environment = yaml.safe_load((REPOSITORY / "envs" / f"{name}.yaml").read_text(encoding="utf-8"))
    *packages, section = environment["dependencies"]
    pins = dict(package.partition("=")[::2] for package in packages)
    assert {package for package, version in pins.items() if not version} == {"pip"}
    lowest = re.search(r">=(3\.\d+)", project()["requires-python"])
    assert lowest
    assert pins["python"] == lowest[1], "the version for which the lock is made first"
    assert all(re.fullmatch(r"[\w.\[\]-]+==[\d.]+", entry) for entry in section["pip"])


def test_conda_environment_for_gpus_is_the_other_with_cuda() -> None:
    pins = pip_pins("python-gpu")
    assert pins.pop("jax[cuda12]") == GPU_LOCKED["jax"]
    assert pins == {package: version for package, version in pip_pins("python").items() if package != "jax"}
    scripts = [(REPOSITORY / "envs" / f"{name}.post-deploy.sh").read_text() for name in ("python", "python-gpu")]
    assert scripts[0] == scripts[1]


def test_gpu_lock_is_the_other_with_cuda() -> None:
    assert LOCKED.items() <= GPU_LOCKED.items()
    added = GPU_LOCKED.keys() - LOCKED.keys()
    assert all(re.match(r"jax-cuda12-|nvidia-", package) for package in added)
    for package in ("jax-cuda12-plugin", "jax-cuda12-pjrt"):
        assert GPU_LOCKED[package] == GPU_LOCKED["jax"] == GPU_LOCKED["jaxlib"]


def test_make_sets_up_what_was_asked_for_and_stays_with_it(tmp_path: Path) -> None:
    environment = f"VENV={tmp_path}"
    cpu, gpu = (what_make_does("setup", environment, f"DEVICE={device}") for device in ("cpu", "gpu"))
    assert f"envs/setup.sh {tmp_path} cpu\n" in cpu
    assert f"envs/setup.sh {tmp_path} gpu\n" in gpu
    stamps = [re.findall(r"touch (\S+/set-up-\w+)", output) for output in (cpu, gpu)]
    assert len(stamps[0]) == 1
    assert stamps[0] != stamps[1]
    assert what_make_does("demo", environment).startswith(f"envs/setup.sh {tmp_path} cpu\n")
    (tmp_path / "device").write_text("gpu\n")
    assert what_make_does("demo", environment).startswith(f"envs/setup.sh {tmp_path} gpu\n")
    Path(stamps[1][0]).touch()
    assert "envs/setup.sh" not in what_make_does("demo", environment)


def test_make_keeps_the_interpreter_that_was_asked_for(tmp_path: Path) -> None:
    environment = f"VENV={tmp_path}"
    first = what_make_does("setup", environment, "PYTHON=python3.13")
    assert f"envs/setup.sh {tmp_path} cpu python3.13\n" in first
    (tmp_path / "python").write_text("python3.13\n")
    Path(*re.findall(r"touch (\S+/set-up-\w+)", first)).touch()
    assert "envs/setup.sh" not in what_make_does("demo", environment)
    assert f"envs/setup.sh {tmp_path} cpu python3\n" in what_make_does("demo", environment, "PYTHON=python3")


FOUND = """#!/bin/bash
case $2 in
  *version_info*executable*) [ "{version}" -ge 11 ] && [ "{version}" -le 13 ] && echo "$0" ;;
  *) [ "$1" = --version ] || [ "$2" = "import ensurepip, venv" ] || {{ echo "$0 $*"; exit 7; }} ;;
esac
"""


def chosen_python(folder: Path, interpreters: dict[str, int | None], *asked: str) -> str:
    """What envs/setup.sh says, up to where it would make an environment with the interpreter that it chose.

    `interpreters` are the minor versions of the commands of these names; None is a command that fails, as a shim does.
    """
    commands = folder / "bin"
    commands.mkdir()
    for name in ("python3", "python3.11", "python3.12", "python3.13"):
        version = interpreters.get(name)
        (commands / name).write_text("#!/bin/bash\nexit 127\n" if version is None else FOUND.format(version=version))
        (commands / name).chmod(0o755)
    environment = {"PATH": f"{commands}:/usr/bin:/bin", "HOME": str(folder)}
    command = [REPOSITORY / "envs" / "setup.sh", folder / "environment", "cpu", *asked]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == (7 if "-m venv" in done.stdout else 1)
    return done.stdout.replace(f"{commands}/", "") + done.stderr


@pytest.mark.parametrize(
    ("interpreters", "asked", "expected"),
    [
        ({"python3": 12, "python3.13": 13}, [], "python3 -m venv"),
        ({"python3": 14, "python3.12": 12, "python3.11": 11}, [], "python3.12 -m venv"),
        ({"python3.11": 11}, [], "python3.11 -m venv"),
        ({"python3": 11, "python3.13": 13}, ["python3.13"], "python3.13 -m venv"),
        ({"python3": 14, "python3.11": 10}, [], "no Python 3.11, 3.12 or 3.13 found"),
        ({"python3": 11}, ["python3.13"], "PYTHON is 'python3.13', which does not run"),
    ],
)
def test_set_up_takes_a_supported_interpreter_that_runs(
    tmp_path: Path, interpreters: dict[str, int | None], asked: list[str], expected: str
) -> None:
    assert expected in chosen_python(tmp_path, interpreters, *asked)


def test_set_up_supports_the_versions_of_the_project() -> None:
    script = (REPOSITORY / "envs" / "setup.sh").read_text(encoding="utf-8")
    ((first, last),) = re.findall(r"\(3, (\d+)\) <= sys.version_info\[:2\] <= \(3, (\d+)\)", script)
    assert project()["requires-python"] == f">=3.{first},<3.{int(last) + 1}"


def test_set_up_for_an_unknown_device_is_refused_at_once(tmp_path: Path) -> None:
    command = [REPOSITORY / "envs" / "setup.sh", tmp_path / "environment", "tpu"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "DEVICE is 'tpu'; it can be cpu or gpu" in done.stderr
    assert not (tmp_path / "environment").exists()


def test_conda_environments_have_what_the_project_requires() -> None:
    assert direct_requirements() - RUNS_SNAKEMAKE - R_BRIDGE <= pip_pins("python").keys()
    assert direct_requirements() - RUNS_SNAKEMAKE <= pip_pins("r").keys()


@pytest.mark.parametrize("lock", LOCKS.values(), ids=LOCKS)
def test_lock_names_no_host_and_hashes_everything(lock: str) -> None:
    assert not re.search(r"://|^-| @ ", lock, re.MULTILINE)
    requirements = re.split(r"\n(?=\S)", lock.strip())
    assert all("--hash=sha256:" in requirement for requirement in requirements)


@pytest.mark.parametrize("lock", LOCKS.values(), ids=LOCKS)
def test_lock_has_one_version_of_a_package_for_all_interpreters(lock: str) -> None:
    packages = re.findall(r"^([\w.-]+)==", lock, re.MULTILINE)
    assert len(packages) == len(set(packages))
    assert not re.search(r"python(_full)?_version(?! < '3.15')", lock)  # beyond the interpreters that are supported


def test_lock_has_what_the_project_requires() -> None:
    assert direct_requirements() <= LOCKED.keys()


def test_r_installer_checks_and_installs_what_the_figures_need() -> None:
    script = (REPOSITORY / "envs" / "install_r.sh").read_text(encoding="utf-8")
    assert all(f'"{package}"' in script for package in r_setup.PACKAGES)
    needed = [word for word in r_setup.INSTALL.split() if word.startswith("r-")]
    assert all(re.search(rf"[( ]{package}[) ]", script) for package in needed)
    environment = (REPOSITORY / "envs" / "r.yaml").read_text(encoding="utf-8")
    assert all(f"r-{package}=" in environment for package in r_setup.PACKAGES)
