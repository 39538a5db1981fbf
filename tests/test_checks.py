"""Checks made while the Snakefile is read."""

from pathlib import Path

import pytest

from bnn_atlas.checks import require_slurm, slurm_requested_by


def nowhere(command: str) -> None:
    return None


def everywhere(command: str) -> str:
    return f"/usr/bin/{command}"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with two profiles, and another in the user's configuration."""
    profiles = {
        "slurm/config.yaml": "__use_yte__: true\nexecutor: slurm\njobs: 3\n",
        "here/profile.v9+.yaml": "cores: 2\nexecutor: 'local' # no cluster\n",
        "plain.yaml": "cores: 2\n",
        "profiles/site/config.yaml": "executor: slurm\n",
        "home/snakemake/cluster/config.v8+.yaml": 'jobs: 3\nexecutor: "slurm"\n',
    }
    for name, text in profiles.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SNAKEMAKE_PROFILE", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        "--cores 12 --profile slurm",
        "--cores 12 --profile=slurm/config.yaml",
        "--profile plain.yaml --profile slurm",
        "--workflow-profile site",
        "--profile cluster --jobs 4",
        "--executor slurm --jobs 4",
        "--executor=slurm",
        "-e slurm",
        "-eslurm",
        "--profile here -e slurm cumulative_lppd",
    ],
)
def test_slurm_without_its_commands_is_one_line(arguments: str) -> None:
    with pytest.raises(SystemExit) as stopped:
        require_slurm(["snakemake", *arguments.split()], nowhere)
    message = str(stopped.value)
    assert "\n" not in message
    assert "sbatch, squeue, sacct" in message
    assert "snakemake --cores 2" in message
    require_slurm(["snakemake", *arguments.split()], everywhere)


def test_message_names_what_asked_and_what_is_missing() -> None:
    def only_sbatch(command: str) -> str | None:
        return everywhere(command) if command == "sbatch" else None

    with pytest.raises(SystemExit, match=r"^--profile slurm submits .* but squeue, sacct cannot be found here"):
        require_slurm(["snakemake", "--profile", "slurm"], only_sbatch)


@pytest.mark.parametrize(
    "arguments",
    [
        "--cores 2",
        "--cores 2 slurm",
        "--cores 2 --profile here",
        "--cores 2 --profile plain.yaml",
        "--cores 2 --profile missing",
        "--profile slurm --profile here",
        "--profile slurm --executor local",
        "--profile slurm -n",
        "--profile slurm -np",
        "--profile slurm --dry-run=all",
        "--profile slurm --lint",
        "--profile slurm --unlock",
        "--executor slurm-jobstep --jobs 1 --mode remote",
    ],
)
def test_silent_where_nothing_is_submitted(arguments: str) -> None:
    require_slurm(["snakemake", *arguments.split()], nowhere)


def test_profile_of_the_environment() -> None:
    environ = {"SNAKEMAKE_PROFILE": "slurm"}
    assert slurm_requested_by(["--cores", "2"], environ) == "SNAKEMAKE_PROFILE=slurm"
    assert slurm_requested_by(["--profile", "none"], environ) is None
    assert slurm_requested_by(["--executor", "slurm-jobstep"], environ) is None
