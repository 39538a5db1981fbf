"""A block that its rule ends early, run here or as a job: `python -m tests.runner.stopping DESTINATION ALPHA`."""

import sys
from collections.abc import Callable
from pathlib import Path

if __name__ == "__main__":
    from bnn_atlas.runtime import configure

    configure(2)

import numpy as np

from bnn_atlas.config.methods.hmc import HMCConfig
from bnn_atlas.methods.contract import Method
from bnn_atlas.methods.hmc import build_hmc
from bnn_atlas.runner import segments
from bnn_atlas.runner.stopping import StoppingRule
from bnn_atlas.traces.store import Trace, open_trace

from ..methods.problems import Problem, linear

STEPS, THINNING = 48, 2
PLANNED = STEPS // THINNING
HMC = HMCConfig(burn_in=10, steps=STEPS, thinning=THINNING, step_size=0.05, trajectory_length=0.3)
CHAINS = np.arange(4)


def log_density(theta: np.ndarray) -> np.ndarray:
    """What held-out rows might say of a draw."""
    return -0.3 * ((theta.astype(np.float64) - 0.3) ** 2).sum(axis=-1)


def distant() -> Problem:
    """Chains that start away from the mass, so that draws are better, at four distances."""
    problem = linear(chains=4).problem
    away = np.array([[1.2], [0.9], [1.4], [1.0]], np.float32)
    return problem._replace(starts=problem.starts + away)


def stopped(
    problem: Problem,
    destination: Path,
    alpha: float,
    chains: np.ndarray = CHAINS,
    every: int = 14,
    density: Callable[[np.ndarray], np.ndarray] = log_density,
    method: Method | None = None,
) -> Trace:
    """Sample with the rule into a trace; segments are of every // 2 draws. The method is HMC, built anew by default."""
    rule = StoppingRule(alpha, density, problem.starts[chains], chains)
    block = segments.Block(problem.starts[chains], chains, 3, destination, "test", {"study": "s"})
    method = method or build_hmc(HMC, problem.posterior, problem.data)
    segments.run_block(method, problem.posterior, problem.data, block, every, rule)
    return open_trace(destination)


def when_told(theta: np.ndarray) -> np.ndarray:
    """Say that draws are looked at, and wait for a line, or the end, of the input."""
    print("looked at", theta.shape, flush=True)
    sys.stdin.readline()
    return log_density(theta)


if __name__ == "__main__":
    stopped(distant(), Path(sys.argv[1]), float(sys.argv[2]), every=2, density=when_told)
    print("complete", flush=True)
