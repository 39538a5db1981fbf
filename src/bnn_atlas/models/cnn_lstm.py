"""Convolution and LSTM over embedded words (Izmailov et al. 2021)."""

import jax
from flax import linen as nn
from jax import Array
from jax import numpy as jnp

from bnn_atlas.models.mlp import ACTIVATIONS, FeatureMajorDense, lecun_normal


class CNNLSTM(nn.Module):
    """Embedding, convolution over words, maxima of `pool` positions, activation, LSTM; outputs from its final state.

    Taking the maxima before an increasing activation such as relu or elu changes nothing; silu needs `pool` 1.
    """

    outputs: int
    vocabulary: int
    embedding: int = 128
    filters: int = 64
    kernel: int = 5
    pool: int = 4
    cells: int = 128
    activation: str = "relu"

    @nn.compact
    def __call__(self, tokens: Array) -> Array:
        """Outputs [outputs, rows] for tokens [length, rows]."""
        x = Embedding(self.vocabulary, self.embedding, name="embedding")(tokens)
        x = WordConvolution(self.filters, self.kernel, self.pool, name="conv")(x)
        x = LSTM(self.cells, name="lstm")(ACTIVATIONS[self.activation](x))
        return FeatureMajorDense(self.outputs, name="output")(x)


class Embedding(nn.Module):
    """Row t of a table [vocabulary, width] for each token t, NaN for other tokens; starts truncated-normal."""

    vocabulary: int
    width: int

    @nn.compact
    def __call__(self, tokens: Array) -> Array:
        """Words [length, rows, width] for tokens [length, rows]."""
        table = self.param("table", nn.initializers.truncated_normal(1.0), (self.vocabulary, self.width))
        return table.at[tokens].get(mode="fill", fill_value=jnp.nan)


class WordConvolution(nn.Module):
    """Maxima over `pool` positions p of b[o] + sum_{c, k} W[o, c, k] x[c, p + k], where all words lie inside.

    W [filters, width, kernel]. One matrix product computes every filter part at every word; the parts are then shifted
    and added, which moves fewer numbers than gathering the words under each filter, since filters < width.
    """

    filters: int
    kernel: int
    pool: int

    @nn.compact
    def __call__(self, words: Array) -> Array:
        """Outputs [filters, (length - kernel + 1) / pool rounded down, rows] for words [length, rows, width]."""
        length, rows, width = words.shape
        weight = self.param("weight", lecun_normal, (self.filters, width, self.kernel))
        bias = self.param("bias", nn.initializers.zeros_init(), (self.filters,))
        steps = (length - self.kernel + 1) // self.pool
        pool, kernel = self.pool, self.kernel

        def respond(weight: Array, words: Array) -> Array:
            parts = jnp.einsum("ock,lrc->kolr", weight, words)
            sums = sum(parts[k, :, k : k + steps * pool] for k in range(kernel))
            return jnp.max(jnp.reshape(sums, (self.filters, steps, pool, rows)), axis=2)

        return respond(weight, words) + bias[:, None, None]


class LSTM(nn.Module):
    """Long short-term memory: the state after the last step.

    With a = W [x_t; h] + b in blocks i, g, f, o:

        c <- sigmoid(f + 1) c + sigmoid(i) tanh(g);   h <- sigmoid(o) tanh(c),

    from h = c = 0, for W [4 cells, features + cells]. The added 1 keeps the memory open at the start (Jozefowicz et al.
    2015); it is part of the formula, so that the prior of b can be centred at 0.
    """

    cells: int

    @nn.compact
    def __call__(self, x: Array) -> Array:
        """State h [cells, rows] after x [features, steps, rows]."""
        features, _, rows = x.shape
        weight = self.param("weight", lecun_normal, (4 * self.cells, features + self.cells))
        bias = self.param("bias", nn.initializers.zeros_init(), (4 * self.cells,))
        by_state = weight[:, features:]
        # The contribution of the inputs to all steps, in one product.
        ahead = jnp.einsum("gf,ftr->tgr", weight[:, :features], x)

        def step(state: tuple[Array, Array], inputs: Array) -> tuple[tuple[Array, Array], None]:
            h, c = state
            # The bias is not in `ahead`: XLA would split its gradient, a large sum, among all available cores.
            i, g, f, o = jnp.split(inputs + by_state @ h + bias[:, None], 4)
            c = jax.nn.sigmoid(f + 1) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            return (jax.nn.sigmoid(o) * jnp.tanh(c), c), None

        zeros = jnp.zeros((self.cells, rows), ahead.dtype)
        (h, _), _ = jax.lax.scan(step, (zeros, zeros), ahead)
        return h
