"""Settings of synthetic data sets with one input, drawn with a seed."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field

from bnn_atlas.config.language.base import Count, Model, NonNegative, Number, Positive, Seed, Width

Interval = tuple[Number, Number]


class _Generator(Model):
    """Settings common to all kinds."""

    noise: NonNegative
    """Standard deviation of the normal noise on y."""
    seed: Seed = 0
    """Seed of the random numbers."""


class LineGenerator(_Generator):
    """y = slope x + N(0, noise^2) on an even grid from `low` to `high`."""

    kind: Literal["line"]
    low: Number = -3.0
    """First x of the grid."""
    high: Number = 3.0
    """Last x of the grid."""
    slope: Number = 1.0
    """Slope of the line."""

    def _contradictions(self) -> Iterator[str]:
        yield from _backwards("low and high", (self.low, self.high))


class _OnIntervals(_Generator):
    """Kinds whose x lies in given intervals."""

    kind: str
    intervals: Annotated[tuple[Interval, ...], Field(min_length=1)]
    """Intervals of x, from left to right, as for `wave`."""

    def _contradictions(self) -> Iterator[str]:
        for interval in self.intervals:
            yield from _backwards("intervals", interval)
        for left, right in pairwise(self.intervals):
            if left[1] > right[0]:
                yield f"intervals: {list(left)}, {list(right)} must not overlap and must be in ascending order"


class WaveGenerator(_OnIntervals):
    """y = slope x + sin(frequency x) + N(0, noise^2), x uniform on every interval, rows in order of x."""

    kind: Literal["wave"]
    intervals: Annotated[tuple[Interval, ...], Field(min_length=1)]
    """Intervals of x, from left to right; all intervals have the same number of rows, up to one."""
    slope: Number = 0.5
    """Slope of the line around which y oscillates."""
    frequency: Positive = 3.0
    """Frequency of the sine, in radians per unit of x."""


class NetworkGenerator(_OnIntervals):
    """Kinds in which y is a function of x computed by a random network."""

    test: Interval
    """Interval of x for the test rows."""
    hidden: Annotated[tuple[Width, ...], Field(min_length=1, max_length=1000)] = (100, 100, 100)
    """Widths of the hidden layers of f."""
    prior_sd: Positive = 0.1
    """Standard deviation of the parameters of f."""

    def _contradictions(self) -> Iterator[str]:
        yield from super()._contradictions()
        yield from _backwards("test", self.test)


class ClustersGenerator(NetworkGenerator):
    """y = f(x) + N(0, noise^2), where f is a random network; training rows in clusters, test rows over the whole range.

    The network has ReLU activations and `hidden` layers, takes [z, z^2] for z = x / unit, and draws every weight and
    bias from N(0, prior_sd^2). Training inputs are uniform on the intervals, and test inputs form an even grid over
    `test`.
    """

    kind: Literal["clusters"]
    unit: Positive = 1.0
    """f is a function of x / unit."""


class BNNHMCGenerator(NetworkGenerator):
    """The synthetic regression of Izmailov et al. (2021), as in their notebook: y = f(x) + N(0, noise^2).

    f is a network of [x, x^2] with ReLU activations and `hidden` layers. Its weights and biases are JAX's draws from
    N(0, prior_sd^2) with the key `seed`. Training inputs form an even grid on each interval, and test inputs an even
    grid over `test`; test targets are f(x) itself, without noise.
    """

    kind: Literal["bnn_hmc"]
    noise_seed: Seed = 0
    """Key of the noise."""


class SinusoidsGenerator(_OnIntervals):
    """The toy regression of Uppal et al. (2023): y = x + 0.8 sin(2 pi x) + 0.8 sin(4 pi x) + N(0, noise^2).

    Training and test inputs each form an even grid on every interval; test targets have no noise. The input is x
    divided by the largest |x| of the intervals. Training rows are in random order, so that the last rows can serve as
    validation rows.
    """

    kind: Literal["sinusoids"]
    train: Annotated[tuple[Count, ...], Field(min_length=1)]
    """Number of training rows on each interval."""
    test: Annotated[tuple[Count, ...], Field(min_length=1)]
    """Number of test rows on each interval."""

    def _contradictions(self) -> Iterator[str]:
        yield from super()._contradictions()
        for name in ("train", "test"):
            if (given := len(getattr(self, name))) != len(self.intervals):
                yield f"{name}: give one number of rows per interval ({len(self.intervals)}, not {given})"


GeneratorConfig = Annotated[
    LineGenerator | WaveGenerator | ClustersGenerator | BNNHMCGenerator | SinusoidsGenerator,
    Field(discriminator="kind"),
]


def _backwards(name: str, interval: Interval) -> Iterator[str]:
    if interval[0] >= interval[1]:
        yield f"{name}: {interval[0]} must be below {interval[1]}"
