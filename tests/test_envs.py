"""Environment files against the lock file and the project's own requirements."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from bnn_atlas.figures import r_setup

REPOSITORY = Path(__file__).parents[1]
LOCK = (REPOSITORY / "requirements.lock").read_text(encoding="utf-8")
LOCKED = dict(re.findall(r"^([\w.-]+)==(\S+)", LOCK, re.MULTILINE))
RUNS_SNAKEMAKE = {"snakemake", "snakemake-executor-plugin-slurm"}
R_BRIDGE = {"rpy2", "rpy2-rinterface"}


def pip_pins(name: str) -> dict[str, str]:
    """Packages that pip installs into a conda environment, with their versions."""
    environment = yaml.safe_load((REPOSITORY / "envs" / f"{name}.yaml").read_text(encoding="utf-8"))
    (section,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    return dict(entry.split("==") for entry in section)


def direct_requirements() -> set[str]:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {re.split(r"[^\w.-]", requirement)[0] for requirement in project["dependencies"]}


@pytest.mark.parametrize("name", ["python", "r"])
def test_conda_environments_have_the_locked_versions(name: str) -> None:
    pins = pip_pins(name)
    assert pins == {package: LOCKED.get(package) for package in pins}


def test_conda_environments_have_what_the_project_requires() -> None:
    assert direct_requirements() - RUNS_SNAKEMAKE - R_BRIDGE <= pip_pins("python").keys()
    assert direct_requirements() - RUNS_SNAKEMAKE <= pip_pins("r").keys()


def test_lock_names_no_host_and_hashes_everything() -> None:
    assert not re.search(r"://|^-| @ ", LOCK, re.MULTILINE)
    requirements = re.split(r"\n(?=\S)", LOCK.strip())
    assert all("--hash=sha256:" in requirement for requirement in requirements)


def test_lock_has_what_the_project_requires() -> None:
    assert direct_requirements() <= LOCKED.keys()


def test_r_installer_checks_and_installs_what_the_figures_need() -> None:
    script = (REPOSITORY / "envs" / "install_r.sh").read_text(encoding="utf-8")
    assert all(f'"{package}"' in script for package in r_setup.PACKAGES)
    needed = [word for word in r_setup.INSTALL.split() if word.startswith("r-")]
    assert all(re.search(rf"[( ]{package}[) ]", script) for package in needed)
    environment = (REPOSITORY / "envs" / "r.yaml").read_text(encoding="utf-8")
    assert all(f"r-{package}=" in environment for package in r_setup.PACKAGES)
