"""Where chains are computed: one device per core and one chain after another on a CPU, all at once on a GPU."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

Tree = Any


class Placement:
    """Maps a function of one chain over the leading axis of its arguments.

    On CPUs the chains are shared out among the devices and each device takes them one after another in a loop whose
    length the compiler does not know, so a chain's bits depend neither on its neighbours nor on the number of devices.
    On a GPU the chains are batched by `vmap`.
    """

    def __init__(self, chains: int, devices: Sequence[jax.Device] | None = None, batched: bool | None = None) -> None:
        """Place so many chains on `devices` (all by default); `batched` is for tests of the GPU's way on a CPU."""
        devices = list(devices or jax.local_devices())
        self.chains = chains
        self.devices = len(devices)
        self.batched = devices[0].platform != "cpu" if batched is None else batched
        used = 1 if self.batched else min(chains, len(devices))
        self._mesh = Mesh(np.array(devices[:used]), ("chain",))
        per_device = -(-chains // used)
        self._padding = per_device * used - chains
        filled = np.minimum(per_device, np.maximum(0, chains - per_device * np.arange(used)))
        self._counts = self._put(filled.astype(np.int32), pad=False)

    def put(self, tree: Tree) -> Tree:
        """Place arrays [chain, ...] on the devices."""
        return jax.tree.map(self._put, tree)

    def get(self, tree: Tree) -> Tree:
        """Arrays [chain, ...] on the host."""
        return jax.tree.map(lambda leaf: np.asarray(leaf)[: self.chains], tree)

    def share(self, tree: Tree) -> Tree:
        """Place arrays that all chains read on every device."""
        return jax.device_put(tree, NamedSharding(self._mesh, PartitionSpec()))

    def map(self, function: Callable[[Tree, Tree], Tree]) -> Callable[[Tree, Tree], Tree]:
        """Compiled form of (shared, chained) -> function(shared, chained[i]) for every chain i."""
        if self.batched:
            return jax.jit(lambda shared, chained: jax.vmap(partial(function, shared))(chained))

        def local(shared: Tree, chained: Tree, count: jax.Array) -> Tree:
            def body(index: jax.Array, results: Tree) -> Tree:
                one = jax.tree.map(lambda leaf: leaf[index], chained)
                return jax.tree.map(
                    lambda all_, new: jax.lax.dynamic_update_index_in_dim(all_, new, index, 0),
                    results,
                    function(shared, one),
                )

            size = jax.tree.leaves(chained)[0].shape[0]
            shapes = jax.eval_shape(function, shared, jax.tree.map(lambda leaf: leaf[0], chained))
            results = jax.tree.map(lambda s: jnp.zeros((size, *s.shape), s.dtype), shapes)
            return jax.lax.fori_loop(0, count[0], body, results)

        chain, everywhere = PartitionSpec("chain"), PartitionSpec()
        mapped = jax.shard_map(
            local, mesh=self._mesh, in_specs=(everywhere, chain, chain), out_specs=chain, check_vma=False
        )
        compiled = jax.jit(mapped)
        return lambda shared, chained: compiled(shared, chained, self._counts)

    def _put(self, leaf: Any, pad: bool = True) -> jax.Array:
        leaf = np.asarray(leaf)
        if pad and self._padding:
            leaf = np.concatenate([leaf, np.repeat(leaf[:1], self._padding, axis=0)])
        return jax.device_put(leaf, NamedSharding(self._mesh, PartitionSpec("chain")))
