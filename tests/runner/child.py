"""A sampling job in a separate process, to be killed by tests: `python -m tests.runner.child DESTINATION`."""

import sys
from pathlib import Path

from bnn_atlas.runtime import configure

configure(int(sys.argv[2]) if len(sys.argv) > 2 else 2)

from bnn_atlas.config.methods.mclmc import MCLMCConfig
from bnn_atlas.methods.mclmc_tuning import build_mile
from bnn_atlas.runner import segments as runner

from ..methods.problems import network
from ..methods.running import run

CONFIG = MCLMCConfig(warmup=60000, steps=60000, thinning=10, step_size_init=0.01, phases=(0.4, 0.3, 0.3))
CHECKPOINT_EVERY = 500


def main() -> None:
    problem = network(chains=4)
    sampler = build_mile(CONFIG, problem.posterior, problem.data)
    phase = runner._Run._phase

    def announce(self: object, number: int, *arguments: object) -> object:
        print("phase", number, flush=True)
        return phase(self, number, *arguments)

    runner._Run._phase = announce
    run(sampler, problem, Path(sys.argv[1]), checkpoint_every=CHECKPOINT_EVERY)
    print("complete", flush=True)


if __name__ == "__main__":
    main()
