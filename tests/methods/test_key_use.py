"""No random key serves twice in a run of any method.

A generator takes notes, by callbacks of the compiled programs; the chains run one after another.
"""

from collections import Counter, defaultdict
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import define_prng_impl

from bnn_atlas import keys
from bnn_atlas.config.methods.registry import METHODS
from bnn_atlas.methods import noise
from bnn_atlas.placement import Placement
from bnn_atlas.runner import program

from .harness import SMALL, build
from .problems import linear
from .running import run


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
        return {fault: reused for fault, reused in found.items() if reused}


RECORDER = Recorder()


def _split(key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    jax.debug.callback(RECORDER.split, key)
    return keys._split(key, shape)


def _random_bits(key: jax.Array, width: int, shape: tuple[int, ...]) -> jax.Array:
    jax.debug.callback(RECORDER.drawn, key)
    return keys._random_bits(key, width, shape)


def _fold_in(key: jax.Array, number: Any) -> jax.Array:
    jax.debug.callback(RECORDER.folded, key, jnp.asarray(number))
    return keys._fold_in(key, number)


RECORDING: Any = define_prng_impl(
    key_shape=(2,),
    seed=keys._seed,
    split=_split,
    random_bits=_random_bits,
    fold_in=_fold_in,
    name="recording",
    tag="rec",
)


def _normals(key: jax.Array, first: jax.Array, second: jax.Array) -> tuple[jax.Array, jax.Array]:
    jax.debug.callback(RECORDER.drawn, key)
    return keys.threefry2x32(key, first, second)


class OneByOne(Placement):
    """Runs the chains one after another."""

    def map(self, function: Any, specs: Any = None) -> Any:
        return Loop(function)


class Loop:
    """What `Placement.map` gives, chain by chain."""

    def __init__(self, function: Any) -> None:
        self.function = jax.jit(function)

    def shapes(self, shared: Any, chained: Any) -> Any:
        """Shapes and types of the results."""
        return jax.eval_shape(self, shared, chained)

    def __call__(self, shared: Any, chained: Any) -> Any:
        chains = range(len(jax.tree.leaves(chained)[0]))
        results = [self.function(shared, jax.tree.map(lambda leaf, n=chain: leaf[n], chained)) for chain in chains]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *results)

    def compile(self, shared: Any, chained: Any) -> None:
        """Nothing to do."""


@pytest.fixture
def recorder(monkeypatch):
    monkeypatch.setattr(keys, "THREEFRY", RECORDING)
    monkeypatch.setattr(noise, "threefry2x32", _normals)
    monkeypatch.setattr(program, "Placement", lambda chains, shards: OneByOne(chains, jax.local_devices()[:1]))
    RECORDER.__init__()
    return RECORDER


SPLIT_AGAIN = {"nuts"}
"""Methods that split a key for a momentum which BlackJAX's kernel, given the same key, then does not draw itself."""


DRAWN_BEFORE = {"compact", "deep ensemble"}
"""Methods whose chains are draws that have been made where they start."""


def test_every_kind_of_method_is_tested():
    """Here and in test_fits: whoever adds a method adds short settings to `harness.SMALL`."""
    assert {config.kind for config in SMALL.values()} == set(METHODS)


@pytest.mark.parametrize("name", SMALL)
def test_keys_serve_once(name, recorder, tmp_path):
    """Over the start, all phases and several segments."""
    problem = linear(chains=2, features=2).problem
    run(build(SMALL[name], problem), problem, tmp_path / "t.zarr", checkpoint_every=7)
    assert bool(recorder.bits) == (name not in DRAWN_BEFORE)
    assert set(recorder.reused()) == ({"split twice"} if name in SPLIT_AGAIN else set())


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
