"""Our loops over gradients, bare and of a sampler inside the runner; `runtime.configure` comes before the import."""

import tempfile
import time
from pathlib import Path

import jax
import numpy as np

from bnn_atlas.config.methods.hmc import HMCConfig
from bnn_atlas.config.methods.mclmc import MCLMCConfig
from bnn_atlas.methods.contract import Method
from bnn_atlas.methods.hmc import build_hmc
from bnn_atlas.methods.mclmc_tuning import build_mile
from bnn_atlas.placement import Placement
from bnn_atlas.posterior.density import PosteriorData, binder, data_specs
from bnn_atlas.runner import segments
from problems import Problem
from work import STEP_SIZE, Loop, Work, length


def slope(problem: Problem) -> float:
    """Length of the gradient where the first chain starts."""
    place = Placement(1, shards=problem.posterior.shards)
    bind, specs = binder(problem.posterior), data_specs(problem.data)
    gradient = place.map(lambda data, theta: bind(data).evaluate(theta).gradient, specs)
    return length([gradient(place.share(problem.data, specs), place.put(problem.starts[:1]))])


def bare(problem: Problem, work: Work) -> Loop:
    """Gradients alone, each at a position that depends on the gradient before it."""
    posterior = problem.posterior
    steps = work.steps(1)

    def climb(data: PosteriorData, theta: jax.Array) -> jax.Array:
        batch = posterior.arrange(data)

        def step(_: jax.Array, theta: jax.Array) -> jax.Array:
            return theta + 1e-7 * posterior.evaluate(theta, batch).gradient

        return jax.lax.fori_loop(0, steps, step, theta)

    place = Placement(work.chains)
    climbing = place.map(climb)
    data, starts = place.share(problem.data), place.put(problem.starts)

    def timed(calls: int) -> float:
        begun = time.perf_counter()
        for _ in range(calls):
            jax.block_until_ready(climbing(data, starts))
        return time.perf_counter() - begun

    return Loop(work.chains * steps, slope(problem), timed)


def inside_runner(problem: Problem, work: Work, method: str, folder: Path | None) -> Loop:
    """A sampler in the runner, with everything that it does; a call is a segment, and the first is not counted."""
    per_step = 2 if method == "mclmc" else work.leapfrog_steps
    steps = work.steps(per_step)
    ends: list[float] = []

    class Ends(segments.ProgressReport):
        """Notes when each segment has been written."""

        def advance(self, phase: str, steps: int) -> None:
            ends.append(time.perf_counter())

    def timed(calls: int) -> float:
        ends.clear()
        segments.ProgressReport = Ends  # type: ignore[misc]
        sampler = build(work, method, (calls + 1) * steps, steps, problem)
        with tempfile.TemporaryDirectory(dir=folder) as place:
            block = segments.Block(
                problem.starts, np.arange(work.chains), 0, Path(place) / "trace.zarr", "benchmark", {}
            )
            segments.run_block(sampler, problem.posterior, problem.data, block, steps)
        return ends[-1] - ends[0]

    return Loop(work.chains * steps * per_step, slope(problem), timed)


def build(work: Work, method: str, steps: int, segment: int, problem: Problem) -> Method:
    """The last phase alone, at settings that are not tuned."""
    if method == "hmc":
        leapfrog = work.leapfrog_steps
        return build_hmc(
            HMCConfig(
                burn_in=0, steps=steps, step_size=STEP_SIZE, trajectory_length=(leapfrog - 0.5) * STEP_SIZE, jitter=0.0
            ),
            problem.posterior,
            problem.data,
        )
    thinning = 10 if segment % 10 == 0 else 1
    settings = MCLMCConfig(warmup=100, steps=steps, thinning=thinning, step_size_init=STEP_SIZE)
    sampler = build_mile(settings, problem.posterior, problem.data)
    return sampler._replace(phases=sampler.phases[-1:])
