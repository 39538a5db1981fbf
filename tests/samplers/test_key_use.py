"""No random key serves twice, and no density is traced twice, in a run of any method."""

from collections import Counter, defaultdict
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import define_prng_impl

from bnn_atlas import keys, threefry
from bnn_atlas.posterior.density import Posterior

from .harness import build
from .problems import linear
from .running import run
from .small import SMALL


class Recorder:
    """Counts what is asked of every key: random bits, a split, or a child by number."""

    def __init__(self) -> None:
        self.bits: Counter[bytes] = Counter()
        self.splits: Counter[bytes] = Counter()
        self.parents: dict[bytes, set[int]] = defaultdict(set)

    def drawn(self, key: np.ndarray) -> None:
        self.bits[np.asarray(key).tobytes()] += 1

    def split(self, key: np.ndarray) -> None:
        self.splits[np.asarray(key).tobytes()] += 1

    def folded(self, key: np.ndarray, number: np.ndarray) -> None:
        self.parents[np.asarray(key).tobytes()].add(int(number))

    def reused(self) -> dict[str, list[bytes]]:
        """Keys by what is wrong with them; the same child may be asked for again, since it is the same key."""
        jax.effects_barrier()
        bits, splits, parents = set(self.bits), set(self.splits), set(self.parents)
        found = {
            "drew bits twice": [key for key, count in self.bits.items() if count > 1],
            "split twice": [key for key, count in self.splits.items() if count > 1],
            "drew bits and has children": list(bits & (splits | parents)),
            "split and has children by number": list(splits & parents),
        }
        return {fault: keys for fault, keys in found.items() if keys}


RECORDER = Recorder()


def _split(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    jax.debug.callback(lambda key: RECORDER.split(key), key)
    return threefry._split(key, shape)


def _random_bits(key: jax.Array, width: int, shape: tuple[int, ...]) -> jax.Array:
    jax.debug.callback(lambda key: RECORDER.drawn(key), key)
    return threefry._random_bits(key, width, shape)


def _fold_in(key: jax.Array, number: Any) -> jax.Array:
    jax.debug.callback(lambda key, number: RECORDER.folded(key, number), key, jnp.asarray(number))
    return threefry._fold_in(key, number)


RECORDING: Any = define_prng_impl(
    key_shape=(2,),
    seed=threefry._seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="recording",
    tag="rec",
)


@pytest.fixture
def recorder(monkeypatch):
    monkeypatch.setattr(keys, "THREEFRY", RECORDING)
    RECORDER.__init__()
    return RECORDER


@pytest.mark.parametrize("name", SMALL)
def test_keys_serve_once_and_densities_are_traced_once(name, recorder, tmp_path, monkeypatch):
    """Over the start, all phases and many segments of one run."""
    traced = []
    log_likelihood = Posterior.log_likelihood

    def count(posterior, theta, x, y, weights=None):
        traced.append(x.shape)
        return log_likelihood(posterior, theta, x, y, weights)

    monkeypatch.setattr(Posterior, "log_likelihood", count)
    problem = linear(chains=2, features=2).problem
    run(build(SMALL[name], problem), problem, tmp_path / "t.zarr", checkpoint_every=7)
    assert traced
    assert len(traced) == len(set(traced)), f"rows of one shape were traced again: {traced}"
    assert not recorder.reused()
    assert recorder.bits


def test_reused_keys_are_found(recorder, tmp_path):
    problem = linear(chains=2, features=2).problem
    sampler = build(SMALL["hmc"], problem)
    phase = sampler.phases[-1]

    def step(key, index, state, target, settings):
        state, values = phase.step(key, index, state, target, settings)
        noise = jax.random.normal(jax.random.key(1, impl=RECORDING), ())  # the same in every step
        noise += jax.random.normal(jax.random.split(key, 3)[2], ())  # the method splits this key as well
        noise += jax.random.normal(jax.random.fold_in(key, 9), ())  # as would the tenth of a split
        noise += jax.random.normal(key, ())
        return state, {**values, "energy_change": values["energy_change"] + noise}

    run(sampler._replace(phases=(phase._replace(step=step),)), problem, tmp_path / "t.zarr")
    faults = "drew bits twice", "split twice", "drew bits and has children", "split and has children by number"
    assert set(recorder.reused()) == set(faults)
