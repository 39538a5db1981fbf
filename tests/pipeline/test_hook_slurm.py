"""Checks made while the Snakefile is read."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from snakemake_executor_plugin_slurm import Executor
from snakemake_interface_executor_plugins.executors.real import RealExecutor
from snakemake_interface_executor_plugins.settings import SharedFSUsage

from bnn_atlas.pipeline.hooks import slurm_job
from bnn_atlas.pipeline.hooks.slurm import require_slurm, slurm_requested_by, start_once
from bnn_atlas.sources import PACKAGE
from tests.copies import REPOSITORY


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
    assert "sbatch, squeue, sacct, sinfo" in message
    assert "snakemake --cores 2" in message
    require_slurm(["snakemake", *arguments.split()], everywhere)


def test_message_names_what_asked_and_what_is_missing() -> None:
    def only_sbatch(command: str) -> str | None:
        return everywhere(command) if command == "sbatch" else None

    with pytest.raises(SystemExit, match=r"^--profile slurm submits .* but squeue, sacct, sinfo cannot be found here"):
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


@pytest.mark.parametrize("asked", ["--slurm-array-jobs sample", "--slurm-array-jobs=all", ""])
def test_arrays_whose_jobs_are_not_told_before_their_limit_are_refused(folder: Path, asked: str) -> None:
    if not asked:
        (folder / "slurm" / "config.yaml").write_text("executor: slurm\nslurm-array-jobs: all\n")
    with pytest.raises(SystemExit, match="group-components"):
        require_slurm(["snakemake", "--profile", "slurm", *asked.split()], everywhere)


@pytest.mark.parametrize(
    ("model", "listed", "refused"),
    [
        ("a100", "gpu:2(S:0-1)\n(null)", "GPUs without types"),
        ("a100", "gpu:v100:4(S:0-1)", "the types v100"),
        ("a100", "gpu:a100:4,gpu:v100:1", None),
        ("3g.20gb", "gpu:1g.10gb:4,gpu:3g.20gb:2(S:0-1)", None),
        ("a100", "gpu:1g.10gb:4,gpu:a100-pcie:2", "the types 1g.10gb, a100-pcie"),
    ],
)
def test_a_type_of_gpu_that_the_cluster_does_not_list(
    folder: Path, monkeypatch: pytest.MonkeyPatch, model: str, listed: str, refused: str | None
) -> None:
    (folder / "slurm" / "config.yaml").write_text(
        f"executor: slurm\nset-resources:\n  sample: {{ gpu_model: {model} }}\n"
    )
    (folder / "sinfo").write_text(f"#!/bin/sh\necho '{listed}'\n")
    (folder / "sinfo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    with pytest.raises(SystemExit, match=f"gpu_model: {model} .*{refused}") if refused else nullcontext():
        require_slurm(["snakemake", "--profile", "slurm"], everywhere)


def test_profile_of_the_environment() -> None:
    environ = {"SNAKEMAKE_PROFILE": "slurm"}
    assert slurm_requested_by(["--cores", "2"], environ) == "SNAKEMAKE_PROFILE=slurm"
    assert slurm_requested_by(["--profile", "none"], environ) is None
    assert slurm_requested_by(["--executor", "slurm-jobstep"], environ) is None


class Resources(SimpleNamespace):
    """Resources of a job, as Snakemake gives them to executors."""

    def get(self, name: str) -> object:
        return vars(self).get(name)

    def keys(self) -> list[str]:
        return list(vars(self))


def command_of_a_job(monkeypatch: pytest.MonkeyPatch, resources: Resources, *, as_script: bool = False) -> str:
    """The command that the executor gives to `sbatch`, with what Snakemake's own part of it would be."""

    def usual(executor: Executor, job: object) -> str:
        general = executor.additional_general_args()
        return f"{sys.executable} -m snakemake --target-jobs 'one:n=1' {general} --mode 'remote'"

    monkeypatch.setattr(RealExecutor, "format_job_exec", usual)
    monkeypatch.setattr(Executor, "format_job_exec", usual)
    monkeypatch.setattr(Executor, "get_python_executable", lambda executor: sys.executable)
    start_once()
    executor = object.__new__(Executor)
    executor.workflow = SimpleNamespace(
        executor_settings=SimpleNamespace(pass_command_as_script=as_script),
        storage_settings=SimpleNamespace(shared_fs_usage=frozenset(SharedFSUsage)),
    )
    return str(Executor.format_job_exec(executor, SimpleNamespace(threads=3, resources=resources)))


def test_a_job_starts_one_snakemake_in_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    words = shlex.split(command_of_a_job(monkeypatch, Resources(gpu=1, nodes=1)))
    assert words == [
        *(sys.executable, "-I", "-S", slurm_job.__file__, "step", "--cpus-per-task=3", "--gpus=1", "--nodes=1"),
        *(sys.executable, slurm_job.__file__, "--target-jobs", "one:n=1", "--mode", "remote"),
    ]


@pytest.mark.parametrize("changes", [{"as_script": True}, {"resources": Resources(mpi="srun")}], ids=str)
def test_jobs_for_which_the_first_snakemake_has_more_to_do(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    words = shlex.split(command_of_a_job(monkeypatch, **{"resources": Resources(), **changes}))
    assert words[:3] == [sys.executable, "-m", "snakemake"]
    assert words[words.index("--executor") + 1] == "slurm-jobstep"


def test_a_step_gets_the_options_of_its_command_only(tmp_path: Path) -> None:
    srun = tmp_path / "srun"
    srun.write_text('#!/bin/sh\necho "$@"\nenv\n')
    srun.chmod(0o755)
    given = {
        "SLURM_JOB_ID": "7",
        "SLURM_CPUS_PER_TASK": "9",
        "SBATCH_GPUS": "2",
        "SRUN_DEBUG": "3",
        "BNN_ATLAS_CACHE": "c",
    }
    command = [sys.executable, "-I", "-S", slurm_job.__file__, "step", "--cpus-per-task=1", "echo", "two words"]
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", **given}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    first, *variables = done.stdout.splitlines()
    assert first == "-n1 --cpu-bind=q --cpus-per-task=1 echo two words"
    assert [name for name in given if f"{name}={given[name]}" in variables] == ["SLURM_JOB_ID", "BNN_ATLAS_CACHE"]


def test_a_job_runs_without_what_only_submitting_needs(folder: Path) -> None:
    (folder / "Snakefile").write_text(
        "import sys\n\nrule one:\n    output: '{n}.txt'\n    script: 'one.py'\n\nonstart:\n    print(sys.argv)\n"
        "print('pandas' in sys.modules, sys.path[0])\n"
    )
    (folder / "one.py").write_text("open(snakemake.output[0], 'w').write(snakemake.wildcards.n)")
    command = [sys.executable, slurm_job.__file__, "--cores", "1", "--target-jobs", "one:n=5", "--allowed-rules", "one"]
    command += ["--force", "--nolock", "--mode", "remote"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (folder / "5.txt").read_text() == "5"
    assert done.stdout.splitlines()[0] == f"False {folder}"


ODD = "so {me} é 'q' \"d\" $HOME `x` \\ back"
PROGRAMS = {
    # Runs the job at once, and keeps what it was called with.
    "sbatch": f"""#!{sys.executable}
import json, os, subprocess, sys
folder = os.environ["STAND_IN"]
number = 100 + len(os.listdir(folder))
script = next(word for word in sys.argv if word.startswith("--wrap=")).removeprefix("--wrap=")
with open(f"{{folder}}/{{number}}.out", "w") as log:
    code = subprocess.run(["/bin/sh", "-c", script], stdout=log, stderr=log).returncode
with open(f"{{folder}}/{{number}}.json", "w") as record:
    json.dump([sys.argv[1:], code], record)
print(number)
""",
    "srun": '#!/bin/sh\nwhile [ "${1#-}" != "$1" ]; do shift; done\nexec "$@"\n',
    "sacct": f"""#!{sys.executable}
import json, os, pathlib
for record in pathlib.Path(os.environ["STAND_IN"]).glob("*.json"):
    print(f"{{record.stem}}|{{'FAILED' if json.loads(record.read_text())[1] else 'COMPLETED'}}")
""",
    **dict.fromkeys(("squeue", "sinfo", "scontrol", "scancel"), "#!/bin/sh\n"),
}
WORKFLOW = """
import sys
from bnn_atlas.pipeline import hooks
hooks.install(sys.argv, kept=())

configfile: "c o.yaml"

rule all:
    input: expand("out/{n}.txt", n=config["names"])
    localrule: True

rule zeros:
    output: "made/{n}.txt"
    localrule: True
    shell: "head -c 3000000 /dev/zero > {output:q}"

rule one:
    input: "made/{n}.txt"
    output: "out/{n}.txt"
    log: "logs/{n}.log"
    resources: mem_mb=lambda wildcards, input: 100 + input.size_mb, runtime=500
    params: text=lambda wildcards: config["text"]
    script: "one.py"

if config.get("grouped"):
    hooks.group_jobs(workflow, {"one": lambda wildcards: "small-ones"})
"""


@dataclass
class StandIn:
    """A workflow in a folder with an odd name, and stand-ins for Slurm's commands that run jobs at once."""

    folder: Path
    records: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Snakemake, with the interpreter and the library in the folder, too."""
        environment = {"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "PYTHONPATH": f"{self.folder}/src"}
        command = [
            f"{self.folder}/venv/bin/python",
            "-m",
            "snakemake",
            "--cores",
            "4",
            "--profile",
            "slurm",
            *arguments,
        ]
        command += ["--slurm-init-seconds-before-status-checks", "1", "--latency-wait", "1"]
        given = {**os.environ, **environment, "STAND_IN": str(self.records)}
        return subprocess.run(command, cwd=self.folder, env=given, capture_output=True, text=True, check=False)

    def submitted(self) -> list[list[str]]:
        """The arguments of each call of `sbatch`."""
        return [json.loads(record.read_text())[0] for record in sorted(self.records.glob("*.json"))]


@pytest.fixture
def stand_in(tmp_path: Path) -> StandIn:
    made = StandIn(tmp_path / ODD, tmp_path / "records")
    for folder in (made.folder / "bin", made.folder / "src", made.records):
        folder.mkdir(parents=True)
    (made.folder / "src" / "bnn_atlas").symlink_to(PACKAGE)
    (made.folder / "venv").symlink_to(sys.prefix)
    shutil.copytree(REPOSITORY / "slurm", made.folder / "slurm")
    for name, text in PROGRAMS.items():
        (made.folder / "bin" / name).write_text(text)
        (made.folder / "bin" / name).chmod(0o755)
    (made.folder / "Snakefile").write_text(WORKFLOW)
    (made.folder / "c o.yaml").write_text("text: ''\nnames: [a, b c]\n")
    (made.folder / "one.py").write_text("open(snakemake.output[0], 'w').write(snakemake.params.text)")
    return made


def test_jobs_in_a_folder_of_any_name_with_options_of_any_kind(stand_in: StandIn) -> None:
    """Options that replace the defaults of the profile leave the signal before the limit."""
    text = 'it\'s $HOME "a" {b} \\'
    done = stand_in.run("--default-resources", "slurm_partition=main", "--config", f"text={text}")
    assert done.returncode == 0, done.stderr
    assert [(stand_in.folder / "out" / f"{name}.txt").read_text() for name in ("a", "b c")] == [text, text]
    for words in stand_in.submitted():
        assert {"--signal=TERM@120", "--nodes=1"} <= set(words)
        assert words[words.index("-p") + 1] == "main"


@pytest.mark.parametrize(("lowered", "minutes"), [((), 720), (("one:runtime=150", "one:group_runtime=240"), 240)])
def test_small_jobs_share_one_that_asks_for_what_they_need(
    stand_in: StandIn, lowered: tuple[str, ...], minutes: int
) -> None:
    """Two at a time on two cores; the sum of their limits, but only so much; memory by the inputs made before."""
    options = ["--set-resources", *lowered] if lowered else []
    done = stand_in.run("--cores", "2", *options, "--config", "grouped=1", "names=[a, b c, d, e]")
    assert done.returncode == 0, done.stderr
    assert len(list((stand_in.folder / "out").iterdir())) == 4
    (words,) = stand_in.submitted()
    asked = {option: words[words.index(option) + 1] for option in ("-t", "--mem")}
    assert asked == {"-t": str(minutes), "--mem": str(2 * 103)}
    assert "--cpus-per-task=2" in words


@pytest.mark.slow
def test_only_jobs_that_were_killed_are_retried(stand_in: StandIn) -> None:
    (stand_in.folder / "one.py").write_text("""
import os, pathlib
from bnn_atlas.logs import logged
with logged(snakemake.log[0]):
    if snakemake.wildcards.n == "fails":
        raise ValueError("a setting that is refused")
    if not pathlib.Path("killed").exists():
        pathlib.Path("killed").touch()
        os.kill(os.getpid(), 9)
    pathlib.Path(snakemake.output[0]).touch()
""")
    done = stand_in.run("--keep-going", "--config", "names=[fails, killed]")
    assert done.returncode == 1
    assert (stand_in.folder / "out" / "killed.txt").exists()
    comments = [words[words.index("--comment") + 1] for words in stand_in.submitted()]
    assert sorted(comments) == ["rule_one_wildcards_fails", *2 * ["rule_one_wildcards_killed"]]
