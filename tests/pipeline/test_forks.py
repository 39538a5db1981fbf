"""Scripts that run as forks, in a small workflow."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from snakemake.benchmark import BenchmarkRecord

from bnn_atlas.pipeline.forks import measured
from bnn_atlas.sources import PACKAGE

SNAKEFILE = """
rule all:
    input: expand("{name}.txt", name=list("abcdefg")[: config.get("scripts", 7)])

rule one:
    output: "{name}.txt"
    benchmark: "{name}.tsv"
    params: fail=config.get("fail", False)
    threads: 2
    script: "one.py"
"""
SCRIPT = """
import os, sys
from pathlib import Path
if snakemake.params.fail:
    raise SystemExit(3)
lines = [snakemake.wildcards.name, "jax" in sys.modules, os.environ["OMP_NUM_THREADS"], os.getcwd(), os.getpid()]
os.environ["LEFT_BEHIND"] = "yes"
Path(snakemake.output[0]).write_text("\\n".join(map(str, lines)))
"""

# Reading an exit code takes long here, so that one job ends while another is started.
SLOW_EXIT_CODES = """
import sys, threading, time
from multiprocessing import forkserver
from bnn_atlas.pipeline.forks import run_in_fork

read_signed = forkserver.read_signed
def slowly(fd):
    time.sleep(0.05)
    return read_signed(fd)

def jobs():
    for _ in range(10):
        try:
            run_in_fork(sys.argv[1], 1, {}, None)
        except Exception as error:
            print(error)

if __name__ == "__main__":
    forkserver.read_signed = slowly
    threads = [threading.Thread(target=jobs) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    (tmp_path / "one.py").write_text(SCRIPT)
    return tmp_path


def run(folder: Path, *config: str, executor: str = "bnn-atlas") -> subprocess.CompletedProcess[str]:
    settings = ["--config", *config] if config else []
    command = [sys.executable, "-m", "snakemake", "--cores", "2", "--executor", executor, *settings]
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def test_each_script_has_a_process_of_its_own_with_its_packages_imported(folder: Path) -> None:
    done = run(folder)
    assert done.returncode == 0, done.stdout
    a, b = ((folder / f"{name}.txt").read_text().split("\n") for name in "ab")
    assert a[:4] == ["a", "True", "2", str(folder)]
    assert b[:4] == ["b", "True", "2", str(folder)]
    assert a[4] != b[4]
    assert (folder / "a.tsv").read_text().startswith("s\t")


def test_with_the_local_executor_a_script_starts_with_nothing_imported(folder: Path) -> None:
    done = run(folder, executor="local")
    assert done.returncode == 0, done.stdout
    assert (folder / "a.txt").read_text().split("\n")[1] == "False"


def test_a_short_plan_starts_no_server(folder: Path) -> None:
    done = run(folder, "scripts=6")
    assert done.returncode == 0, done.stdout
    assert (folder / "a.txt").read_text().split("\n")[1] == "False"


@pytest.mark.parametrize(
    "options",
    ["", "--mode remote --target-jobs one:name=a --allowed-rules one --force --nolock"],
    ids=["short plan", "job on a cluster"],
)
def test_scripts_take_the_package_of_their_snakefile(folder: Path, options: str) -> None:
    """Clones that share an environment, in which one of them is installed."""
    package = folder / "clone" / "src" / "bnn_atlas"
    shutil.copytree(PACKAGE, package, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "Snakefile").write_text(
        f"import sys\nsys.path.insert(0, {str(package.parent)!r})\n"
        f"from bnn_atlas.pipeline.hooks import search_here\nsearch_here()\n{SNAKEFILE}"
    )
    (folder / "one.py").write_text(
        "import bnn_atlas.sources\nopen(snakemake.output[0], 'w').write(str(bnn_atlas.sources.PACKAGE))\n"
    )
    command = [sys.executable, "-m", "snakemake", "--cores", "2", *options.split(), "--config", "scripts=1"]
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (folder / "a.txt").read_text() == str(package)


def test_a_script_that_fails_fails_its_job(folder: Path) -> None:
    done = run(folder, "fail=True")
    assert done.returncode != 0
    assert "non-zero exit status 3" in done.stdout
    assert not (folder / "a.txt").exists()


def test_a_script_that_has_ended_already_has_a_benchmark_without_samples() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    record = BenchmarkRecord()
    with measured(process.pid, record):
        pass
    assert float(record.to_tsv(extended_fmt=False).split("\t")[0]) >= 0


def test_a_script_that_ends_while_another_starts_keeps_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "jobs.py").write_text(SLOW_EXIT_CODES)
    (tmp_path / "nothing.py").write_text("")
    command = [sys.executable, str(tmp_path / "jobs.py"), str(tmp_path / "nothing.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == ""
