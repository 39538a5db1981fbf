"""What the hooks use of Snakemake, in the version that is installed."""

import dataclasses
import inspect
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import snakemake
import snakemake.common
import snakemake.rules
import snakemake.sourcecache
from packaging.requirements import Requirement
from packaging.version import Version
from snakemake.benchmark import benchmarked
from snakemake.cli import get_argument_parser
from snakemake.dag import DAG
from snakemake.executors.local import Executor as LocalExecutor
from snakemake.executors.local import run_wrapper
from snakemake.jobs import Job
from snakemake.logging import LoggerManager
from snakemake.parser import Run
from snakemake.persistence import MetadataRecord, PersistenceBase
from snakemake.persistence.file import FilePersistence
from snakemake.scheduling.job_scheduler import JobRateLimiter, JobScheduler
from snakemake.script import PythonScript, ScriptBase
from snakemake.settings.types import DAGSettings, MaxJobsPerTimespan
from snakemake.workflow import Workflow
from snakemake_executor_plugin_slurm import Executor as SlurmExecutor
from snakemake_executor_plugin_slurm.submit_string import get_submit_command
from snakemake_executor_plugin_slurm_jobstep import Executor as JobStep
from snakemake_interface_common.plugin_registry import PluginRegistryBase
from snakemake_interface_executor_plugins.executors.real import RealExecutor
from snakemake_interface_executor_plugins.settings import ExecMode

from bnn_atlas.pipeline.hooks import LOOK_AGAIN, slurm, slurm_job, without_default_limit
from tests.test_envs import project

from .workspace import snakemake as run_snakemake

OPTIONS = {option for action in get_argument_parser()._actions for option in action.option_strings}


def look_again(hook: str, what: str) -> str:
    return f"Snakemake {snakemake.__version__} {what}: look again at bnn_atlas.pipeline.hooks.{hook}"


def test_the_hooks_were_looked_at_for_this_version() -> None:
    assert Version(snakemake.__version__) < Version(LOOK_AGAIN), look_again("*", "is new")
    requirements = [Requirement(text) for text in project()["optional-dependencies"]["workflow"]]
    (allowed,) = [requirement.specifier for requirement in requirements if requirement.name == "snakemake"]
    assert Version(LOOK_AGAIN) not in allowed


def test_command_line_that_the_slurm_check_reads() -> None:
    for option in ("--executor", "-e", "--profile", "--workflow-profile"):
        assert option in OPTIONS, look_again("slurm", f"has no option {option}")
    assert any(slurm.RUNS_NOTHING.fullmatch(option) for option in OPTIONS)
    for option in ("-n", "--dry-run", "--lint", "--list-rules", "--unlock", "--report", "--dag", "--summary"):
        assert option in OPTIONS, look_again("slurm", f"has no option {option}")
        assert slurm.RUNS_NOTHING.fullmatch(option)


def test_command_line_that_the_relay_reads() -> None:
    assert "--mode" in OPTIONS, look_again("sigterm", "has no option --mode")
    assert ExecMode.REMOTE.item_to_choice() == "remote", look_again("sigterm", "calls the mode of a job otherwise")


def test_snakemake_still_keeps_sigterm_to_itself() -> None:
    source = inspect.getsource(JobScheduler)
    assert "signal.signal(signal.SIGTERM" in source, look_again("sigterm", "no longer handles SIGTERM in its scheduler")


def test_limiter_that_is_taken_off_the_scheduler() -> None:
    source = inspect.getsource(JobScheduler)
    assert re.search(r"self\.job_rate_limiter\b\s*=", source), look_again("run", "has no job_rate_limiter")
    assert "if self.job_rate_limiter is None" in source, look_again("run", "may need its job_rate_limiter")
    for name in ("max_jobs", "timespan"):
        assert hasattr(JobRateLimiter, name), look_again("run", f"has no JobRateLimiter.{name}")


def test_the_default_limit_goes() -> None:
    default = get_argument_parser().parse_args([]).max_jobs_per_timespan
    limit = MaxJobsPerTimespan.parse_choice(default) if isinstance(default, str) else default
    scheduler = SimpleNamespace(job_rate_limiter=JobRateLimiter(limit))
    without_default_limit(scheduler)
    assert scheduler.job_rate_limiter is None


@pytest.mark.parametrize("given", ["10/1s", "100/1m"])
def test_a_limit_that_was_given_stays(given: str) -> None:
    limiter = JobRateLimiter(MaxJobsPerTimespan.parse_choice(given))
    scheduler = SimpleNamespace(job_rate_limiter=limiter)
    without_default_limit(scheduler)
    assert scheduler.job_rate_limiter is limiter


def test_no_limit_and_no_scheduler_are_left_alone() -> None:
    scheduler = SimpleNamespace(job_rate_limiter=None)
    without_default_limit(scheduler)
    without_default_limit(None)
    assert scheduler.job_rate_limiter is None


def test_settings_that_hold_the_targets() -> None:
    message = look_again("run", "has no workflow.dag_settings.targets")
    assert "dag_settings" in {field.name for field in dataclasses.fields(Workflow)}, message
    assert "targets" in {field.name for field in dataclasses.fields(DAGSettings)}, message


def test_where_a_plan_can_be_refused() -> None:
    source = inspect.getsource(Workflow.execute)
    assert "self._build_dag()" in source, look_again("run", "makes its plan elsewhere")
    assert hasattr(PersistenceBase, "_params"), look_again("run", "has no _params")


@pytest.mark.parametrize(("arguments", "expected"), [((), "[]"), (("first",), "['first']")])
def test_targets_reach_the_end_of_a_run(tmp_path: Path, arguments: tuple[str, ...], expected: str) -> None:
    (tmp_path / "Snakefile").write_text(
        "from bnn_atlas.pipeline.hooks import requested_targets\n\n"
        "rule first:\n    output: touch('first.txt')\n\n"
        "onsuccess:\n    print('targets', sorted(requested_targets(workflow)))\n"
    )
    assert f"targets {expected}" in run_snakemake(tmp_path, "--quiet", "all", "--", *arguments).stdout


def test_what_prints_messages_in_another_thread() -> None:
    source = inspect.getsource(LoggerManager)
    assert "self.queue_listener" in source, look_again("run", "has no LoggerManager.queue_listener")
    assert "self.queue_listener._thread is not None" in source, look_again("run", "may look at it in another way")


def test_the_last_lines_come_after_all_messages(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(
        "from bnn_atlas.pipeline.hooks import finish_printing\n\n"
        "rule all:\n    input: expand('{n}.txt', n=range(20))\n\n"
        "rule one:\n    output: touch('{n}.txt')\n\n"
        "onsuccess:\n    finish_printing(workflow)\n    print('farewell', flush=True)\n"
    )
    text = run_snakemake(tmp_path, "--logger", "bnn-atlas").stdout
    assert text.index("farewell\n") > text.index("21 of 21 steps (100%) done")


def test_what_the_estimate_reads() -> None:
    message = look_again("run", "plans otherwise")
    assert all(hasattr(DAG, name) for name in ("needrun_jobs", "needrun", "jobid", "job_dependencies")), message
    assert "self.benchmark" in inspect.getsource(Job), message


def test_what_the_jobs_of_a_plan_wait_for(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(
        "from bnn_atlas.pipeline.hooks import jobs_to_run\n\n"
        "rule two:\n    input: 'one.txt'\n    output: touch('two.txt')\n    threads: 2\n"
        "    benchmark: 'times/two/a.tsv'\n\n"
        "rule one:\n    output: touch('one.txt')\n    threads: 8\n\n"
        "rule check:\n    input: 'two.txt'\n    script: 'check.py'\n\n"
        "onstart:\n    print('plan', sorted(jobs_to_run(workflow, 'times', ['check'])))\n"
    )
    (tmp_path / "check.py").touch()
    said = run_snakemake(tmp_path, "check").stdout
    assert "plan [(0, 'judging', 1, [1]), (1, 'two/a', 2, [2]), (2, None, 2, [])]" in said


def test_what_the_executor_plugin_uses() -> None:
    message = f"Snakemake {snakemake.__version__} is new: look again at snakemake_executor_plugin_bnn_atlas"
    assert list(inspect.signature(PythonScript.execute_script).parameters) == ["self", "fname", "edit"], message
    assert list(inspect.signature(benchmarked).parameters)[:2] == ["pid", "benchmark_record"], message
    made = inspect.getsource(Run.start)
    for name in inspect.signature(ScriptBase).parameters:
        known = name in ("path", "cache_path", "source", "input_", "config", "rulename", "is_local")
        assert known or f"{name}, " in made, message
    assert "run = job_rule.run_func" in inspect.getsource(run_wrapper), message
    assert "            job.rule,\n" in inspect.getsource(LocalExecutor.job_args_and_prepare), message


def test_functions_that_plan() -> None:
    for module in (snakemake.common, snakemake.rules):
        assert callable(module.get_function_params), look_again("run", "has no get_function_params")
    assert callable(snakemake.sourcecache.parse_uri), look_again("run", "has no sourcecache.parse_uri")
    assert "parse_uri(" in inspect.getsource(snakemake.sourcecache.SourceFile.get_cache_path)


def test_locks_that_name_their_holder() -> None:
    message = look_again("locks", "keeps its locks otherwise")
    assert list(inspect.signature(FilePersistence._write_locks).parameters) == ["self", "lock_type", "keys"], message
    assert "yield lock_type, f.strip()" in inspect.getsource(FilePersistence._read_locks), message
    assert "self._lockfile[lock_type] = lockfile" in inspect.getsource(FilePersistence._write_locks), message
    assert "shutil.rmtree(self._lockdir)" in inspect.getsource(FilePersistence._delete_locks), message
    for call in ("self._read_locks()", "self.unlock()"):
        assert call in inspect.getsource(PersistenceBase), message


def test_snakemake_still_removes_the_outputs_of_jobs() -> None:
    message = look_again("results", "prepares or cleans up its jobs otherwise")
    assert "await self.remove_existing_output()" in inspect.getsource(Job.prepare), message
    assert list(inspect.signature(Job.cleanup).parameters) == ["self", "skip_outputs"], message
    assert inspect.getsource(Job.postprocess).rstrip().endswith("await self.cleanup(skip_cleanup_outputs)"), message
    assert "self._unmark_incomplete" in inspect.getsource(PersistenceBase.finished), message
    assert "self._mark_incomplete" in inspect.getsource(PersistenceBase.started), message


def test_records_and_times_of_results() -> None:
    message = look_again("results", "keeps its records or compares times otherwise")
    assert 'self._metadata_path = os.path.join(self.path, "metadata")' in inspect.getsource(FilePersistence), message
    assert "endtime" in MetadataRecord.model_fields, message
    for name in ("_io_read", "_io_write", "_io_delete"):
        assert {"subject", "id"} <= inspect.signature(getattr(FilePersistence, name)).parameters.keys(), message
    needed = inspect.getsource(DAG.update_needrun)
    assert "await job_.output_mintime" in needed, message
    assert "await f.is_newer(output_mintime_)" in needed, message


def test_command_of_a_job_of_slurm() -> None:
    message = look_again("slurm", "or its Slurm plugin composes the command of a job otherwise")
    usual = inspect.getsource(RealExecutor.format_job_exec)
    assert f'self.get_python_executable(),\n                "{slurm.SNAKEMAKE}",' in usual, message
    assert "self.additional_general_args()," in usual, message
    assert "--executor slurm-jobstep --jobs 1" in inspect.getsource(SlurmExecutor.additional_general_args), message
    assert "exec_job = self.format_job_exec(job)" in inspect.getsource(SlurmExecutor.run_job), message
    assert "call = get_submit_command(" in inspect.getsource(SlurmExecutor.run_job), message
    assert inspect.getsource(get_submit_command).count('"sbatch "') == 1, message
    assert "{py_exec} {fname:q}" in inspect.getsource(PythonScript), look_again("run", "starts scripts otherwise")
    # What the executor of the first Snakemake does besides reading the workflow.
    step = inspect.getsource(JobStep.run_job)
    assert f'call = "{" ".join(slurm_job.SRUN)} "' in step, message
    for option in ("get_cpu_setting(job, self.gpu_job)", "get_gpu_setting(job)", "get_node_setting(job)"):
        assert option in step, message
    for name in slurm_job.IDENTITY:
        assert f'"SLURM_{name}"' in step, message


def test_plugin_that_a_job_does_not_import() -> None:
    message = look_again("slurm", "finds its plugins otherwise")
    assert "in pkgutil.iter_modules():" in inspect.getsource(PluginRegistryBase.collect_plugins), message
    assert SlurmExecutor.__module__ == slurm_job.LEFT_OUT, message


def test_touch_records_nothing_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "Snakefile").write_text(
        "from bnn_atlas.pipeline import hooks\n\nhooks.install(['snakemake'], kept=())\n\n"
        "rule two:\n    input: 'one.txt'\n    output: 'two.txt'\n    shell: 'cat {input} > {output}'\n\n"
        "rule one:\n    output: 'one.txt'\n    shell: 'echo 1 > {output}'\n"
    )
    assert run_snakemake(tmp_path).returncode == 0
    (tmp_path / "one.txt").unlink()
    records = tmp_path / ".snakemake" / "metadata"
    for record in records.iterdir():
        record.unlink()
    assert run_snakemake(tmp_path, "--touch", "--forceall").returncode == 0
    assert [json.loads(record.read_text())["rule"] for record in records.iterdir()] == ["two"]
    assert not list((tmp_path / ".snakemake" / "incomplete").iterdir())
