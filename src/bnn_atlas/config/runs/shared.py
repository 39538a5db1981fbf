"""Splits and warm starts shared by runs: the settings each depends on, and the address computed from these settings."""

from functools import cache
from typing import Any, NamedTuple

from bnn_atlas.config.data.splits import SplitConfig
from bnn_atlas.config.parts.posterior import PosteriorConfig
from bnn_atlas.config.parts.starts import InitialConfig, WarmStartConfig
from bnn_atlas.config.runs.studies import RunConfig
from bnn_atlas.provenance import fingerprint

KEY_LENGTH = 12
"""Hexadecimal digits of an address: among 10,000 settings, two share an address with a probability below 1e-6."""

OF_TRAINING = ("model", "likelihood", "float64", "gradient_memory_mb", "kernel")
"""Settings of a posterior that affect the optimised networks."""
LATER = ("validation_seed", "rng", "loader", "features", "targets")
"""Later additions to the settings of splits: part of an address only if given, so that older addresses stay valid."""


class SharedSplit(NamedTuple):
    """Settings that determine the splits of a data set, apart from the data and the index of the split."""

    dataset: str
    config: SplitConfig

    @property
    def key(self) -> str:
        """Address of the splits with these settings, whatever number of splits a run uses."""
        return _split_key(self.dataset, self.config)

    def name(self, number: int) -> str:
        """Path of one of these splits, relative to the folder of splits."""
        return f"{self.dataset}-{self.key}/split{number}"


class SharedStart(NamedTuple):
    """Settings that determine the networks from which a block of chains starts, apart from the data.

    Training does not depend on the prior, temperature or method, so runs that differ only in these share their starts.
    """

    split: SharedSplit
    number: int
    """Index of the split."""
    posterior: PosteriorConfig
    """A posterior with this network and likelihood, and the default prior. It also determines the precision and code of
    gradients, and the number of micro-batches over which full-data gradients are accumulated."""
    training: WarmStartConfig | None
    members: range
    seed: int
    initial: InitialConfig | None = None
    """Distribution of untrained networks; None for the layers' own initialisers."""

    @property
    def key(self) -> str:
        """Address of these networks."""
        return _start_key(self)

    @property
    def name(self) -> str:
        """Path of the networks' file, relative to the folder of warm starts."""
        return f"{self.split.dataset}-{self.key}"

    @property
    def settings(self) -> dict[str, Any]:
        """Settings for the job that trains these networks, as plain values."""
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
    # The default kernel is not part of the address, since addresses are older than this setting.
    used = {*OF_TRAINING} - ({"kernel"} if start.posterior.kernel == "auto" else set())
    posterior = start.posterior.model_dump(mode="json", include=used)
    training = start.training.model_dump(mode="json") if start.training else None
    members = [start.members.start, start.members.stop]
    initial = [start.initial.model_dump(mode="json")] if start.initial else []
    parts = [start.split.key, start.number, posterior, training, members, start.seed, *initial]
    return fingerprint(parts)[:KEY_LENGTH]
