"""Where chains are computed: on a CPU, one at a time on each core's device; on a GPU, all at once."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp
from jax.extend.core import jaxpr_as_fun
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.stages import Compiled

from bnn_atlas import runtime
from bnn_atlas.compilation import compiled

Tree = Any

DATA_AXIS = "data"
"""Mesh axis of the devices that share the rows of one chain."""
EVERYWHERE = PartitionSpec()
"""For arrays of which every device has a full copy."""
BY_ROWS = PartitionSpec(DATA_AXIS)
"""For arrays whose leading axis (rows) is divided among the devices of a chain."""


class Placement:
    """Maps a function of one chain over the leading axis of its arguments.

    On CPUs, the chains are divided among the devices, and each device computes one chain at a time in a loop whose
    length the compiler does not know, so a chain's bits depend neither on its neighbours nor on the number of devices.
    On a GPU, the chains are batched by `vmap`. With `shards` above 1, every chain is computed on that many devices at
    once, each with a part of the rows; the function sums over the devices along the mesh axis `data`.
    """

    def __init__(
        self,
        chains: int,
        devices: Sequence[jax.Device] | None = None,
        batched: bool | None = None,
        shards: int = 1,
    ) -> None:
        """Place a number of chains on `devices` (default: all); `batched` lets tests use the code for GPUs on a CPU.

        Raises:
            ValueError: there are fewer devices than shards.
        """
        devices = list(devices or jax.local_devices())
        if shards > len(devices):
            raise ValueError(f"data_shards is {shards}, but this job has {len(devices)} devices: request more devices")
        self.chains = chains
        self.batched = not runtime.on_cpu() if batched is None else batched
        groups = 1 if self.batched else min(chains, len(devices) // shards)
        self.devices = len(devices)
        self._mesh = Mesh(np.array(devices[: groups * shards]).reshape(groups, shards), ("chain", DATA_AXIS))
        per_group = -(-chains // groups)
        self._padding = per_group * groups - chains
        filled = np.minimum(per_group, np.maximum(0, chains - per_group * np.arange(groups)))
        self._counts = self._put(filled.astype(np.int32), pad=False)

    def put(self, tree: Tree) -> Tree:
        """Place arrays [chain, ...] on the devices."""
        return jax.tree.map(self._put, tree)

    def get(self, tree: Tree) -> Tree:
        """Arrays [chain, ...] on the host."""
        return jax.tree.map(lambda leaf: np.asarray(leaf)[: self.chains], tree)

    def shapes(self, tree: Tree) -> Tree:
        """Shapes and shardings that arrays of these global shapes have after `put`, for compiling in advance."""
        sharding = NamedSharding(self._mesh, PartitionSpec("chain"))
        return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), tree)

    def share(self, tree: Tree, specs: Tree = EVERYWHERE) -> Tree:
        """Place arrays that all chains read; `specs` (a prefix of the tree) tells which arrays are divided by rows."""
        return jax.device_put(tree, jax.tree.map(lambda spec: NamedSharding(self._mesh, spec), specs))

    def map(self, function: Callable[[Tree, Tree], Tree], specs: Tree = EVERYWHERE) -> "Mapped":
        """Compiled (shared, chained) -> function(shared, chained[i]) for every chain i; `specs` is for `shared`."""

        def local(shared: Tree, chained: Tree, count: jax.Array) -> Tree:
            if self.batched:
                return jax.vmap(partial(function, shared))(chained)

            example = jax.tree.map(lambda leaf: leaf[0], chained)
            traced, shapes = jax.make_jaxpr(function, return_shape=True)(shared, example)
            form = jax.tree.structure(shapes)

            def body(index: jax.Array, results: Tree) -> Tree:
                one = jax.tree.map(lambda leaf: leaf[index], chained)
                new = jaxpr_as_fun(traced)(*jax.tree.leaves((shared, one)))
                return jax.tree.map(
                    lambda all_, new: jax.lax.dynamic_update_index_in_dim(all_, new, index, 0),
                    results,
                    jax.tree.unflatten(form, new),
                )

            size = jax.tree.leaves(chained)[0].shape[0]
            results = jax.tree.map(lambda s: jnp.zeros((size, *s.shape), s.dtype), shapes)
            return jax.lax.fori_loop(0, count[0], body, results)

        chain = PartitionSpec("chain")
        mapped = jax.shard_map(local, mesh=self._mesh, in_specs=(specs, chain, chain), out_specs=chain, check_vma=False)
        return Mapped(jax.jit(mapped), self._counts)

    def _put(self, leaf: Any, pad: bool = True) -> jax.Array:
        leaf = np.asarray(leaf)
        if pad and self._padding:
            leaf = np.concatenate([leaf, np.repeat(leaf[:1], self._padding, axis=0)])
        return jax.device_put(leaf, NamedSharding(self._mesh, PartitionSpec("chain")))


class Mapped:
    """A function of (arrays that all chains share, arrays of each chain), mapped over the chains."""

    def __init__(self, mapped: Any, counts: jax.Array) -> None:
        self._mapped, self._counts = mapped, counts
        self._compiled: dict[Any, Compiled] = {}

    def __call__(self, shared: Tree, chained: Tree) -> Tree:
        """Results [chain, ...] on the devices; compiles if needed."""
        return self.compile(shared, chained)(shared, chained, self._counts)

    def shapes(self, shared: Tree, chained: Tree) -> Tree:
        """Shapes and types of the results on the devices."""
        return jax.eval_shape(self._mapped, shared, chained, self._counts)

    def compile(self, shared: Tree, chained: Tree) -> Compiled:
        """The program for arguments (or shapes) like these; compiled only once."""
        leaves = jax.tree.leaves((shared, chained))
        kind = tuple((np.shape(leaf), getattr(leaf, "dtype", type(leaf))) for leaf in leaves)
        if kind not in self._compiled:
            self._compiled[kind] = compiled(self._mapped.lower(shared, chained, self._counts))
        return self._compiled[kind]
