"""A pool of draws in memory, and models whose predictions are one line of NumPy."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pytest

from bnn_atlas.models.layout import Layout, Parameter
from bnn_atlas.posterior import Predictive


class MemoryPool:
    """Chains x draws x parameters in one array; `chunk` is the number of draws that a batch never crosses."""

    def __init__(
        self,
        draws: np.ndarray,
        statistics: Mapping[str, np.ndarray] | None = None,
        chunk: int = 1000,
        layout=None,
        attributes: Mapping[str, object] | None = None,
    ):
        self.array = draws
        self.values = dict(statistics or {})
        self.chunk = chunk
        self.attributes = dict(attributes or {})
        self.size = size = draws.shape[2]
        self.layout = layout or Layout((Parameter("layer0.weight", (size,), "weight", 0, 1, size),))
        self.largest = 0

    @property
    def chains(self) -> int:
        return self.array.shape[0]

    @property
    def draws(self) -> int:
        return self.array.shape[1]

    @property
    def draws_per_chunk(self) -> int:
        return 1

    @property
    def dtype(self) -> np.dtype:
        return self.array.dtype

    @property
    def statistics(self) -> tuple[str, ...]:
        return tuple(self.values)

    def batches(self, *, max_bytes: int) -> Iterator[tuple[slice, slice, np.ndarray]]:
        per_draw = self.array[0, 0].nbytes
        together = max(1, max_bytes // per_draw)
        step = min(together, self.chunk, self.draws)
        group = max(1, min(self.chains, together // step))
        for chain in range(0, self.chains, group):
            for draw in range(0, self.draws, step):
                chains = slice(chain, min(chain + group, self.chains))
                draws = slice(draw, min(draw + step, self.draws))
                batch = self.array[chains, draws]
                self.largest = max(self.largest, batch.nbytes)
                yield chains, draws, batch

    def read(self, chains: slice, draws: slice, parameters: slice) -> np.ndarray:
        part = self.array[chains, draws][..., parameters]
        self.largest = max(self.largest, part.nbytes)
        return part

    def statistic(self, name: str, chains: slice) -> np.ndarray:
        part = self.values[name][chains]
        self.largest = max(self.largest, part.nbytes)
        return part


def linear(theta: np.ndarray, x: np.ndarray) -> Predictive:
    """N(x w, exp(s)^2) with theta = (w, s); added up term by term, so that no bit depends on the batch."""
    mean = sum(theta[:, i, None] * x[:, i] for i in range(x.shape[1]))
    return Predictive(mean=mean, scale=np.exp(theta[:, -1:]) * np.ones(len(x)))


def softmax_linear(theta: np.ndarray, x: np.ndarray) -> Predictive:
    """Three classes with logits x W, theta = W [d, 3] flat."""
    logits = np.einsum("bdk,nd->bnk", theta.reshape(len(theta), x.shape[1], 3), x)
    shifted = logits - logits.max(axis=2, keepdims=True)
    return Predictive(log_probs=shifted - np.log(np.exp(shifted).sum(axis=2, keepdims=True)))


@pytest.fixture(scope="session")
def memory_pool() -> type[MemoryPool]:
    return MemoryPool


@pytest.fixture(scope="session")
def predict_linear() -> Callable[[np.ndarray, np.ndarray], Predictive]:
    return linear


@pytest.fixture(scope="session")
def predict_softmax() -> Callable[[np.ndarray, np.ndarray], Predictive]:
    return softmax_linear
