"""The runner: resuming, invariance of bits, faults."""

import errno
import json
import logging
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bnn_atlas.config.methods.hmc import HMCConfig
from bnn_atlas.config.methods.mclmc import MCLMCConfig
from bnn_atlas.config.parts.posterior import HeteroscedasticLikelihood, MLPConfig
from bnn_atlas.config.parts.priors import StandardNormalPrior
from bnn_atlas.methods.hmc import build_hmc
from bnn_atlas.methods.mclmc_tuning import build_mile
from bnn_atlas.placement import Placement
from bnn_atlas.posterior.density import build_posterior, posterior_data
from bnn_atlas.runner import program
from bnn_atlas.runner import segments as runner
from bnn_atlas.runner.checkpoint import CheckpointError, CheckpointStore, work_folder
from bnn_atlas.runner.signals import Interrupted, stop_signal
from bnn_atlas.runtime import processor

from ..methods.problems import Problem, network, regression
from ..methods.running import assert_same, dying, run, run_to_the_end, shared_programs

pytestmark = pytest.mark.bits

MILE = MCLMCConfig(warmup=600, steps=400, thinning=4, phases=(0.4, 0.3, 0.3), diagonal_preconditioning=True)
HMC = HMCConfig(
    burn_in=20, steps=30, thinning=2, step_size=0.02, trajectory_length=0.2, adapt_step_size=True, checkpoint_every=7
)


@pytest.fixture(scope="module")
def problem():
    return network(chains=5)


@pytest.fixture(scope="module", autouse=True)
def programs():
    with shared_programs():
        yield


@pytest.fixture(scope="module")
def hmc(problem):
    return build_hmc(HMC, problem.posterior, problem.data)


@pytest.fixture(scope="module", params=["mile", "hmc"])
def sampler(request, problem, hmc):
    return (build_mile(MILE, problem.posterior, problem.data), 130) if request.param == "mile" else (hmc, 7)


@pytest.fixture(scope="module")
def quiet(sampler, problem, tmp_path_factory):
    method, every = sampler
    return run(method, problem, tmp_path_factory.mktemp("quiet") / "trace.zarr", checkpoint_every=every)


def test_trace_holds_every_kept_draw(sampler, quiet, problem):
    kept = sampler[0].phases[-1].draws
    assert quiet.read().shape == (5, kept, problem.posterior.layout.size)
    assert {"log_likelihood", "log_prior", "energy_change", "divergent", "step_size"} <= set(quiet.statistics)
    theta = quiet.read()[2, kept // 2]
    density = problem.posterior.evaluate(theta, problem.posterior.arrange(problem.data)).density
    np.testing.assert_allclose(quiet.statistic("log_likelihood")[2, kept // 2], density.log_likelihood, rtol=1e-4)
    np.testing.assert_allclose(quiet.statistic("log_prior")[2, kept // 2], density.log_prior, rtol=1e-4)


def test_chains_do_not_repeat_each_other(quiet):
    last = quiet.read()[:, -1]
    assert len(np.unique(last, axis=0)) == 5


def test_interruption_after_any_segment(sampler, problem, quiet, tmp_path, monkeypatch):
    """The process dies right after its n-th checkpoint, for every n, and goes on."""
    with dying(monkeypatch, lambda *_: True) as saves:
        trace = run_to_the_end(sampler[0], problem, tmp_path / "trace.zarr", checkpoint_every=sampler[1])
    assert len(saves) >= 8
    assert_same(trace, quiet)


def test_interruption_between_draws_and_checkpoint(sampler, problem, quiet, tmp_path, monkeypatch):
    """A segment that is in the trace but not in a checkpoint is written again with the same bytes."""
    with dying(monkeypatch, lambda _, number: number % 3 == 0, unsaved=True):
        trace = run_to_the_end(sampler[0], problem, tmp_path / "trace.zarr", checkpoint_every=sampler[1])
    assert_same(trace, quiet)


@pytest.mark.parametrize("devices", [1, 2])
def test_devices_do_not_change_bits(sampler, problem, quiet, tmp_path, monkeypatch, devices):
    method, every = sampler
    monkeypatch.setattr(program, "Placement", lambda chains, shards: Placement(chains, jax.local_devices()[:devices]))
    assert_same(run(method, problem, tmp_path / "trace.zarr", checkpoint_every=every), quiet)


@pytest.mark.parametrize("block", [[0], [3], [1, 4], [4, 2, 0]])
def test_neighbours_do_not_change_bits(sampler, problem, quiet, tmp_path, block):
    method, every = sampler
    trace = run(method, problem, tmp_path / "trace.zarr", chain_ids=np.array(block), checkpoint_every=every)
    np.testing.assert_array_equal(trace.read(), quiet.read()[block])


def test_segment_length_does_not_change_bits(sampler, problem, quiet, tmp_path):
    trace = run(sampler[0], problem, tmp_path / "trace.zarr", checkpoint_every=10_000)
    np.testing.assert_array_equal(trace.read(), quiet.read())


def test_seed_changes_every_chain(sampler, problem, quiet, tmp_path):
    trace = run(sampler[0], problem, tmp_path / "trace.zarr", seed=4, checkpoint_every=sampler[1])
    assert not np.any(np.all(trace.read()[:, -1] == quiet.read()[:, -1], axis=1))


def abandon(sampler, problem, destination, monkeypatch, saves=4):
    """Leave a partial run behind that has saved a few checkpoints."""
    with dying(monkeypatch, lambda _, number: number == saves), pytest.raises(KeyboardInterrupt):
        run(sampler[0], problem, destination, checkpoint_every=sampler[1])
    return destination.with_name("trace.zarr.partial")


def test_timing_counts_every_phase_and_attempt(sampler, problem, tmp_path, monkeypatch):
    destination, begun = tmp_path / "trace.zarr", time.monotonic()
    abandon(sampler, problem, destination, monkeypatch)
    time.sleep(1.0)  # between the attempts, and so not to be counted
    run(sampler[0], problem, destination, checkpoint_every=sampler[1])
    timing = json.loads(destination.with_name("timing.json").read_text())
    phases = [(phase.name, phase.steps) for phase in sampler[0].phases]
    assert [(entry["name"], entry["steps"]) for entry in timing["phases"]] == phases
    assert all(entry["seconds"] > 0 for entry in timing["phases"])
    assert sum(entry["seconds"] for entry in timing["phases"]) < time.monotonic() - begun - 1.0
    assert (timing["chains"], timing["gradients_per_step"]) == (5, sampler[0].gradients_per_step)
    assert (timing["processor"], timing["cores"]) == (processor(), len(os.sched_getaffinity(0)))


def test_gradients_of_the_warm_up_are_counted_in_all_attempts(hmc, problem, tmp_path, monkeypatch):
    """Against a run that keeps the statistics of every step of its warm-up."""
    warm_up = hmc._replace(phases=(hmc.phases[0]._replace(keep=True),))
    steps = run(warm_up, problem, tmp_path / "warm-up" / "trace.zarr").statistic("gradients")
    assert steps.shape == (5, HMC.burn_in)
    assert np.ptp(steps) > 0
    destination = tmp_path / "trace.zarr"
    abandon((hmc, 7), problem, destination, monkeypatch, saves=2)
    run(hmc, problem, destination, checkpoint_every=7)
    first, last = json.loads(destination.with_name("timing.json").read_text())["phases"]
    assert first["gradients"] == steps.sum()
    assert "gradients" not in last, "the trace has them"


def test_a_checkpoint_that_does_not_know_gradients_is_continued_without_them(hmc, problem, tmp_path, monkeypatch):
    destination = tmp_path / "trace.zarr"
    save = CheckpointStore.save
    with monkeypatch.context() as patch:
        patch.setattr(
            CheckpointStore, "save", lambda self, progress, state: save(self, progress._replace(gradients=()), state)
        )
        abandon((hmc, 7), problem, destination, monkeypatch, saves=2)
    run(hmc, problem, destination, checkpoint_every=7)
    assert not any("gradients" in phase for phase in json.loads((tmp_path / "timing.json").read_text())["phases"])


def test_other_settings_start_afresh(sampler, problem, quiet, tmp_path, monkeypatch, caplog):
    destination = tmp_path / "trace.zarr"
    abandon(sampler, problem, destination, monkeypatch)
    with caplog.at_level(logging.INFO):
        trace = run(sampler[0], problem, destination, checkpoint_every=sampler[1], fingerprint="other")
    assert "begun with other settings" in caplog.text
    assert_same(trace, quiet)


@pytest.mark.parametrize("content", [b"", b'"oth', b"\xff", b"[" * 100_000, None])
def test_a_folder_whose_fingerprint_is_damaged_is_begun_afresh(content, tmp_path, caplog):
    folder = work_folder(tmp_path / "trace.zarr", "one")
    label, left = folder / "fingerprint.json", folder / "draws"
    left.touch()
    assert work_folder(tmp_path / "trace.zarr", "one") == folder
    assert left.exists()
    label.unlink() if content is None else label.write_bytes(content)
    assert work_folder(tmp_path / "trace.zarr", "one") == folder
    assert not left.exists()
    assert json.loads(label.read_text()) == "one"
    assert len(caplog.records) == 1
    assert f"{label} is missing or damaged" in caplog.text


def test_a_damaged_checkpoint_costs_one_segment(sampler, problem, quiet, tmp_path, monkeypatch, caplog):
    destination = tmp_path / "trace.zarr"
    work = abandon(sampler, problem, destination, monkeypatch)
    damaged = bytearray((work / "checkpoint.npz").read_bytes())
    damaged[len(damaged) // 2] ^= 0xFF
    (work / "checkpoint.npz").write_bytes(damaged)
    trace = run(sampler[0], problem, destination, checkpoint_every=sampler[1])
    assert "checkpoint.npz is damaged" in caplog.text
    assert_same(trace, quiet)


def test_a_damaged_checkpoint_at_the_end_of_any_phase(sampler, problem, quiet, tmp_path, monkeypatch):
    """The checkpoint before it may still need the draws that the phase kept."""
    method, every = sampler
    for number in range(1, len(method.phases)):
        destination = tmp_path / str(number) / "trace.zarr"
        at_phase = dying(monkeypatch, lambda progress, _, number=number: progress[:2] == (number, 0))
        with at_phase, pytest.raises(KeyboardInterrupt):
            run(method, problem, destination, checkpoint_every=every)
        (destination.with_name("trace.zarr.partial") / "checkpoint.npz").write_bytes(b"damaged")
        assert_same(run(method, problem, destination, checkpoint_every=every), quiet)


def test_two_damaged_checkpoints_are_an_error_that_loses_nothing(sampler, problem, tmp_path, monkeypatch):
    destination = tmp_path / "trace.zarr"
    work = abandon(sampler, problem, destination, monkeypatch, saves=7)
    for name in ("checkpoint.npz", "checkpoint.previous.npz"):
        (work / name).write_bytes((work / name).read_bytes()[:100])
    before = {path: path.read_bytes() for path in work.rglob("*") if path.is_file()}
    with pytest.raises(CheckpointError, match=r"no checkpoint can be read.*Delete the folder"):
        run(sampler[0], problem, destination, checkpoint_every=sampler[1])
    assert {path: path.read_bytes() for path in work.rglob("*") if path.is_file()} == before
    assert not destination.exists()


def test_a_start_without_density_names_the_chain(sampler, problem, tmp_path):
    starts = problem.starts.copy()
    starts[3, 0] = np.nan
    with pytest.raises(runner.StartError, match="chain 3 cannot start"):
        run(sampler[0], problem._replace(starts=starts), tmp_path / "trace.zarr", checkpoint_every=sampler[1])


@pytest.fixture
def small_disk(tmp_path):
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = (
        os.geteuid() == 0
        and subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder], capture_output=True, check=False
        ).returncode
        == 0
    )
    if not mounted:
        pytest.skip("mounting a small tmpfs needs root")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_full_disk_is_an_error_that_loses_nothing(problem, small_disk, tmp_path):
    config = MCLMCConfig(warmup=600, steps=8000, thinning=1, phases=(0.4, 0.3, 0.3))
    sampler = build_mile(config, problem.posterior, problem.data)
    with pytest.raises(OSError, match=r"No space left on device"):
        run(sampler, problem, small_disk / "trace.zarr", checkpoint_every=1000)
    assert not (small_disk / "trace.zarr").exists()
    rescued: Path = tmp_path / "larger"
    shutil.copytree(small_disk, rescued)
    saved = CheckpointStore(rescued / "trace.zarr.partial").newest
    assert saved.exists()
    finished = run(sampler, problem, rescued / "trace.zarr", checkpoint_every=1000)
    fresh = run(sampler, problem, tmp_path / "fresh.zarr", checkpoint_every=1000)
    assert_same(finished, fresh)


def test_a_checkpoint_that_the_disk_refuses_is_named(hmc, problem, tmp_path, monkeypatch):
    """As of a disk that has no room left for it."""

    def full(*arguments: object, **arrays: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    destination = tmp_path / "trace.zarr"
    with monkeypatch.context() as patch:
        patch.setattr("bnn_atlas.runner.checkpoint.np.savez", full)
        with pytest.raises(
            OSError, match=r"cannot write .*checkpoint\.npz: No space left on device\. .*rerun"
        ) as caught:
            run(hmc, problem, destination, checkpoint_every=7)
    assert caught.value.errno == errno.ENOSPC
    assert run(hmc, problem, destination, checkpoint_every=7).draws == 15


def test_draws_whose_timing_is_missing_are_sampled_again(hmc, problem, tmp_path, caplog):
    caplog.set_level(logging.INFO, "bnn_atlas")
    run(hmc, problem, tmp_path / "trace.zarr", checkpoint_every=7)
    run(hmc, problem, tmp_path / "trace.zarr", checkpoint_every=7)
    assert "complete already" in caplog.text
    (tmp_path / "timing.json").unlink()
    run(hmc, problem, tmp_path / "trace.zarr", checkpoint_every=7)
    assert "timing.json or fit.npz is missing" in caplog.text
    assert (tmp_path / "timing.json").exists()


def test_a_signal_before_the_first_segment_saves_that_segment(hmc, problem, tmp_path, caplog):
    with stop_signal():
        os.kill(os.getpid(), signal.SIGTERM)
        assert "SIGTERM before the first segment" in caplog.text
        assert "`runtime`" in caplog.text
        with pytest.raises(Interrupted) as ended:
            run(hmc, problem, tmp_path / "trace.zarr", checkpoint_every=7)
    assert ended.value.code == 128 + signal.SIGTERM
    saved = CheckpointStore(tmp_path / "trace.zarr.partial").newest
    assert saved.exists()
    assert run(hmc, problem, tmp_path / "trace.zarr", checkpoint_every=7).draws == 15


def test_batched_chains_take_the_same_steps(problem, tmp_path, monkeypatch):
    """The way of a GPU (vmap) against the way of a CPU."""
    config = HMCConfig(burn_in=2, steps=4, step_size=0.01, trajectory_length=0.1)
    sampler = build_hmc(config, problem.posterior, problem.data)
    one_by_one = run(sampler, problem, tmp_path / "one.zarr")
    monkeypatch.setattr(program, "Placement", lambda chains, shards: Placement(chains, batched=True))
    together = run(sampler, problem, tmp_path / "all.zarr")
    np.testing.assert_allclose(together.read(), one_by_one.read(), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(together.statistic("gradients"), one_by_one.statistic("gradients"))


@pytest.mark.slow
def test_double_precision_run(tmp_path):
    with jax.enable_x64(True):
        posterior, prior = build_posterior(
            MLPConfig(hidden=(3,)),
            HeteroscedasticLikelihood(),
            StandardNormalPrior(),
            temperature=1.0,
            shape=(3,),
            dtype=jnp.float64,
        )
        starts = 0.3 * np.random.default_rng(0).normal(size=(2, posterior.layout.size))
        wide = Problem(posterior, posterior_data(*regression(), prior), starts)
        trace = run(build_hmc(HMC, wide.posterior, wide.data), wide, tmp_path / "trace.zarr", checkpoint_every=7)
        assert trace.read().dtype == np.float64
        errors = trace.statistic("energy_change")
        assert (errors != errors.astype(np.float32)).mean() > 0.9, "no statistic is rounded to single precision"
        density = posterior.evaluate(jnp.asarray(trace.read()[1, 3]), posterior.arrange(wide.data)).density
        assert trace.statistic("log_likelihood")[1, 3] == pytest.approx(float(density.log_likelihood), rel=1e-12)
