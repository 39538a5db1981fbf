"""Fixtures of several files: a small workspace in which everything was made, once for all workers."""

import os
import shutil

import pytest

from bnn_atlas.records import held

from .workspace import small_workspace, snakemake


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A workspace in which everything was made, which no test changes; the first worker that needs it makes it."""
    shared = tmp_path_factory.getbasetemp()
    folder = (shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared) / "finished"
    whole = folder.with_name("finished.whole")
    with held(folder):
        if not whole.exists():
            run = snakemake(small_workspace(folder), "all", "diagnostics")
            assert run.returncode == 0, run.stdout
            whole.touch()
    return folder


@pytest.fixture
def workspace(finished, tmp_path):
    """A copy of the finished workspace, with its times, to change."""
    return shutil.copytree(finished, tmp_path / "workspace", symlinks=True)
