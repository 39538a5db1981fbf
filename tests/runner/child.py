"""A sampling job to be killed by tests: `python -m tests.runner.child DESTINATION THREADS STEPS`.

It says which phase begins, and then waits for a line, or the end, of its input.
"""

import sys
from pathlib import Path

from bnn_atlas.runtime import configure

configure(int(sys.argv[2]))

from bnn_atlas.config.methods.mclmc import MCLMCConfig
from bnn_atlas.methods.mclmc_tuning import build_mile
from bnn_atlas.runner import segments as runner

from ..methods.problems import network
from ..methods.running import run

CHECKPOINT_EVERY = 500


def main() -> None:
    problem, steps = network(chains=4), int(sys.argv[3])
    config = MCLMCConfig(warmup=steps, steps=steps, thinning=10, step_size_init=0.01, phases=(0.4, 0.3, 0.3))
    sampler = build_mile(config, problem.posterior, problem.data)
    phase = runner._Run._phase

    def announce(self: object, number: int, *arguments: object) -> object:
        print("phase", number, flush=True)
        sys.stdin.readline()
        return phase(self, number, *arguments)

    runner._Run._phase = announce
    run(sampler, problem, Path(sys.argv[1]), checkpoint_every=CHECKPOINT_EVERY)
    print("complete", flush=True)


if __name__ == "__main__":
    main()
