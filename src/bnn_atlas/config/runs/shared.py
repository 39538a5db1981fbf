"""Splits and warm starts that runs share: what each depends on, and the address that follows from it."""

from functools import cache
from typing import Any, NamedTuple

from bnn_atlas.config.data.splits import SplitConfig
from bnn_atlas.config.parts.posterior import PosteriorConfig
from bnn_atlas.config.parts.starts import InitialConfig, WarmStartConfig
from bnn_atlas.config.runs.studies import RunConfig
from bnn_atlas.provenance import fingerprint

KEY_LENGTH = 12
"""Hexadecimal digits of an address: two different settings meet at one with a probability below 1e-6 for 10,000."""

OF_TRAINING = ("model", "likelihood", "float64", "gradient_memory_mb", "kernel")
"""Settings of a posterior on which its optimised networks depend."""
LATER = ("validation_seed", "rng", "loader", "features", "targets")
"""Settings of splits that are part of an address only where they are given, so that other splits keep theirs."""


class SharedSplit(NamedTuple):
    """What the split of a data set depends on, besides the data and the number of the split."""

    dataset: str
    config: SplitConfig

    @property
    def key(self) -> str:
        """Address of the splits of these settings; how many of them a run uses is not part of it."""
        return _split_key(self.dataset, self.config)

    def name(self, number: int) -> str:
        """Name of one of them, below the folder of splits."""
        return f"{self.dataset}-{self.key}/split{number}"


class SharedStart(NamedTuple):
    """What the networks from which a block of chains starts depend on, besides the data.

    The prior, the temperature and the method play no part in training, so runs that differ in them share their starts.
    """

    split: SharedSplit
    number: int
    """Number of the split."""
    posterior: PosteriorConfig
    """A posterior with this network and likelihood; its prior is the default one. It also gives the precision and the
    code with which gradients are computed, and the number of micro-batches over which full-data gradients are
    accumulated."""
    training: WarmStartConfig | None
    members: range
    seed: int
    initial: InitialConfig | None = None
    """How networks that are not trained are drawn; None for the layers' own initialisers."""

    @property
    def key(self) -> str:
        """Address of these networks."""
        return _start_key(self)

    @property
    def name(self) -> str:
        """Name of their file, below the folder of warm starts."""
        return f"{self.split.dataset}-{self.key}"

    @property
    def settings(self) -> dict[str, Any]:
        """What the job that trains them is told, in plain values."""
        return {
            "posterior": self.posterior.model_dump(mode="json"),
            "training": self.training.model_dump(mode="json") if self.training else None,
            "members": list(self.members),
            "seed": self.seed,
            **({"initial": self.initial.model_dump(mode="json")} if self.initial else {}),
        }


def shared_split(run: RunConfig) -> SharedSplit:
    """The splits that a run uses."""
    return SharedSplit(run.dataset, run.split)


def shared_start(run: RunConfig, split: int, block: int) -> SharedStart:
    """The networks from which a block of a run's chains starts on one split."""
    return SharedStart(
        shared_split(run),
        split,
        PosteriorConfig.model_construct(**{name: getattr(run, name) for name in OF_TRAINING}),
        run.warmstart,
        run.chain_ids(block),
        run.seed_of(split),
        run.initial,
    )


@cache
def _split_key(dataset: str, config: SplitConfig) -> str:
    unset = {name for name in LATER if getattr(config, name) == SplitConfig.model_fields[name].default}
    return fingerprint([dataset, config.model_dump(mode="json", exclude={"count"} | unset)])[:KEY_LENGTH]


@cache
def _start_key(start: SharedStart) -> str:
    # The default kernel is not part of the address, which is older than the setting.
    used = {*OF_TRAINING} - ({"kernel"} if start.posterior.kernel == "auto" else set())
    posterior = start.posterior.model_dump(mode="json", include=used)
    training = start.training.model_dump(mode="json") if start.training else None
    members = [start.members.start, start.members.stop]
    initial = [start.initial.model_dump(mode="json")] if start.initial else []
    parts = [start.split.key, start.number, posterior, training, members, start.seed, *initial]
    return fingerprint(parts)[:KEY_LENGTH]
