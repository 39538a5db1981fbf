"""Image and text networks against their formulas: counts, layouts, outputs, gradients, pieces, and what is refused."""

import math

import jax
import numpy as np
import pytest
from jax import numpy as jnp

from bnn_atlas.config.parts.posterior import (
    CategoricalLikelihood,
    CNNLSTMConfig,
    LeNet5Config,
    LeNet5MaxConfig,
    LeNetConfig,
    LeNettiConfig,
    MLPConfig,
    ModelConfig,
    PosteriorConfig,
    ResNetFRNConfig,
    WideResNetFRNConfig,
)
from bnn_atlas.config.parts.priors import NormalPrior
from bnn_atlas.inference.problem import micro_batches, residual_bytes
from bnn_atlas.models import convolution
from bnn_atlas.models.layout import Layout
from bnn_atlas.models.networks import PIECE, Network, ShapeError, build_network
from bnn_atlas.posterior.density import binder, build_posterior, posterior_data

from . import reference

pytestmark = pytest.mark.bits

CIFAR, MNIST = (32, 32, 3), (28, 28, 1)
SMALL_TEXT = CNNLSTMConfig(embedding=5, filters=4, kernel=3, pool=2, cells=3)
ELU_TEXT = CNNLSTMConfig(embedding=5, filters=4, kernel=3, pool=2, cells=3, activation="elu")
SMOOTH_TEXT = CNNLSTMConfig(embedding=5, filters=4, kernel=3, pool=1, cells=3, activation="silu")
WIDE_16, WIDE_28 = WideResNetFRNConfig(depth=16, widen=4), WideResNetFRNConfig(depth=28, widen=10)


@pytest.mark.parametrize(
    ("config", "shape", "outputs", "vocabulary", "count"),
    [
        (LeNetConfig(), CIFAR, 10, 0, 142_646),
        (LeNetConfig(), CIFAR, 100, 0, 150_296),
        (LeNetConfig(), MNIST, 10, 0, 91_946),
        (LeNet5Config(), CIFAR, 10, 0, 83_126),
        (LeNet5Config(), MNIST, 10, 0, 61_706),
        (LeNet5MaxConfig(), MNIST, 10, 0, 44_426),
        (CNNLSTMConfig(pool=1, activation="silu"), (100,), 2, 20_000, 2_700_098),
        (LeNettiConfig(), MNIST, 10, 0, 10 + 900 * 8 + 8 + 2 * 72 + 90),
        (ResNetFRNConfig(), CIFAR, 10, 0, 274_042),
        (ResNetFRNConfig(), CIFAR, 100, 0, 279_892),
        (CNNLSTMConfig(), (100,), 2, 20_000, 2_700_098),
        (MLPConfig(hidden=(256, 256)), MNIST, 10, 0, 269_322),
        (MLPConfig(hidden=(512,)), (784,), 10, 0, 407_050),
        *((MLPConfig(hidden=(50,)), (d,), 2, 0, count) for d, count in {13: 802, 8: 552, 6: 452, 14: 852}.items()),
        *(
            (MLPConfig(hidden=(100, 100)), (d,), 2, 0, count)
            for d, count in {13: 11_702, 8: 11_202, 6: 11_002, 14: 11_802}.items()
        ),
    ],
)
def test_parameter_counts(config: ModelConfig, shape: tuple[int, ...], outputs: int, vocabulary: int, count: int):
    assert build_network(config, shape, outputs, vocabulary).layout.size == count


# Channels of the norms: two per block, the first before the block widens, of 2 or 4 blocks per stack; then the last.
NORMS_16 = (16, *3 * [64], 64, *3 * [128], 128, *3 * [256], 256)
NORMS_28 = (16, *7 * [160], 160, *7 * [320], 320, *7 * [640], 640)


@pytest.mark.parametrize(
    ("config", "classes", "count", "norms"), [(WIDE_16, 10, 2_745_274, NORMS_16), (WIDE_28, 100, 36_518_932, NORMS_28)]
)
def test_wide_networks_have_the_published_count_and_three_numbers_per_channel_of_the_norms(
    config: ModelConfig, classes: int, count: int, norms: tuple[int, ...]
):
    layout = build_network(config, CIFAR, classes).layout
    assert sum(p.size for p in layout.parameters if ".norm" not in f".{p.name}") == count
    assert layout.size == count + 3 * sum(norms)


def test_layers_are_named_and_numbered_in_the_order_of_the_forward_pass():
    parameters = build_network(ResNetFRNConfig(depth=8), (8, 8, 3), 10).layout.parameters
    layers = list(dict.fromkeys(p.name.rpartition(".")[0] for p in parameters))
    inner = ["conv0", "norm0", "conv1", "norm1"]
    assert layers == [
        "stem_conv", "stem_norm",
        *(f"stack0_block0.{name}" for name in inner),
        *(f"stack{stack}_block0.{name}" for stack in (1, 2) for name in [*inner, "shortcut_conv", "shortcut_norm"]),
        "output",
    ]  # fmt: skip
    assert [p.layer for p in parameters] == [layers.index(p.name.rpartition(".")[0]) for p in parameters]
    assert {(p.name.rpartition(".")[2], p.role) for p in parameters} == {
        (role, role) for role in ("weight", "bias", "gain", "threshold")
    }


def test_fans_count_the_kernel_a_tokens_one_entry_and_all_gates():
    image = build_network(LeNetConfig(), MNIST, 10).layout.parameters
    text = build_network(CNNLSTMConfig(), (100,), 2, 20_000).layout.parameters
    fans = {p.name: (p.shape, p.fan_in, p.fan_out, p.role) for p in (*image, *text)}
    assert fans["conv1.weight"] == ((16, 6, 5, 5), 150, 400, "weight")
    assert fans["conv1.bias"] == ((16,), 16, 16, "bias")
    assert fans["dense.weight"] == ((84, 480), 480, 84, "weight")
    assert fans["embedding.table"] == ((20_000, 128), 1, 128, "weight")
    assert fans["conv.weight"] == ((64, 128, 5), 640, 320, "weight")
    assert fans["lstm.weight"] == ((512, 192), 192, 512, "weight")


def test_initialisation_of_a_residual_network_is_he_normal():
    network = build_network(ResNetFRNConfig(depth=8), (8, 8, 3), 10)
    arrays = network.layout.unflatten(np.asarray(jax.jit(network.initialise)(jax.random.key(0))))
    for p in network.layout.parameters:
        values = arrays[p.name]
        if p.role == "weight":
            assert values.var() * p.fan_in == pytest.approx(2, rel=8 / math.sqrt(p.size))
            assert np.abs(values).max() <= 2 * math.sqrt(2 / p.fan_in) / 0.8796
        else:
            assert np.all(values == (1 if p.role == "gain" else 0))


CASES = {
    "lenet": (LeNetConfig(), (16, 19, 2), 0, reference.lenet),
    "lenet5": (LeNet5Config(), (12, 15, 2), 0, reference.lenet5),
    "lenet5 silu": (
        LeNet5Config(activation="silu"),
        (13, 12, 1),
        0,
        lambda p, x: reference.lenet5(p, x, reference.silu),
    ),
    "lenet5_max": (LeNet5MaxConfig(), (16, 19, 2), 0, reference.lenet5_max),
    "lenet5_max elu": (
        LeNet5MaxConfig(activation="elu"),
        (17, 16, 1),
        0,
        lambda p, x: reference.lenet5_max(p, x, reference.elu),
    ),
    "lenetti": (LeNettiConfig(), (5, 7, 2), 0, reference.lenetti),
    "resnet": (ResNetFRNConfig(depth=8), (7, 8, 3), 0, reference.resnet),
    "wide_resnet": (WideResNetFRNConfig(depth=10, widen=2), (8, 6, 2), 0, reference.wide_resnet),
    "cnn_lstm": (SMALL_TEXT, (12,), 9, lambda p, x: reference.cnn_lstm(p, x, SMALL_TEXT.pool)),
    "elu cnn_lstm": (ELU_TEXT, (12,), 9, lambda p, x: reference.cnn_lstm(p, x, ELU_TEXT.pool, reference.elu)),
    "smooth cnn_lstm": (SMOOTH_TEXT, (12,), 9, lambda p, x: reference.cnn_lstm(p, x, 1, reference.silu)),
}
ROWS = PIECE + 4


def case(name: str) -> tuple[Network, np.ndarray, np.ndarray]:
    """A network, random parameters (as wide as the layers' own, and all else away from 0) and rows."""
    config, shape, vocabulary, _ = CASES[name]
    network = build_network(config, shape, 3, vocabulary)
    rng = np.random.default_rng(4)
    scale = network.layout.per_scalar(
        {p.name: 1.4 / math.sqrt(p.fan_in) if p.role == "weight" else 0.3 for p in network.layout.parameters}
    )
    theta = (scale * rng.normal(size=network.layout.size)).astype(np.float32)
    x = rng.integers(0, vocabulary, (ROWS, *shape)) if vocabulary else rng.normal(size=(ROWS, *shape))
    return network, theta, x.astype(np.int32 if vocabulary else np.float32)


@pytest.mark.parametrize("name", CASES)
def test_outputs_are_the_formula(name: str):
    network, theta, x = case(name)
    found = jax.jit(lambda theta, x: network.apply(theta, network.arrange(x)))(theta, x)
    assert found.shape == (3, ROWS)
    arrays = {k: np.asarray(v, np.float64) for k, v in network.layout.unflatten(theta).items()}
    chosen = [0, 1, ROWS - 1]
    expected = np.stack([CASES[name][3](arrays, x[row]) for row in chosen], axis=1)
    np.testing.assert_allclose(found[:, chosen], expected, rtol=2e-4, atol=2e-4 * np.abs(expected).max())


@pytest.mark.parametrize(("kernel", "stride", "padding"), [(5, 1, "SAME"), (3, 2, "SAME"), (1, 2, "SAME"), (3, 1, 2)])
@pytest.mark.parametrize("size", [(6, 8), (7, 9)])
def test_patches_and_the_librarys_convolution_agree_in_value_and_gradient(size, kernel: int, stride: int, padding):
    rng = np.random.default_rng(0)
    weight = jnp.asarray(rng.normal(size=(4, 3, kernel, kernel)), jnp.float32)
    x = jnp.asarray(rng.normal(size=(3, *size, 5)), jnp.float32)
    zeros = tuple(convolution._padding(n, kernel, stride, padding) for n in size)
    wanted = jax.lax.padtype_to_pads(size, (kernel, kernel), (stride, stride), "SAME")
    assert zeros == (tuple(wanted) if padding == "SAME" else ((2, 2), (2, 2)))

    def both(form):
        def loss(weight, x):
            return jnp.sum(jnp.sin(form(weight, x, stride, zeros)))

        return jax.jit(jax.value_and_grad(loss, (0, 1)))(weight, x)

    for found, expected in zip(
        *map(jax.tree.leaves, (both(convolution.by_patches), both(convolution.by_library))), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def test_max_pooling_is_the_librarys():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(2, 9, 12, 5)), jnp.float32)

    def library(x):
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "VALID")

    np.testing.assert_array_equal(convolution.max_pool(x, 3, 2), library(x))
    slopes = [
        jax.grad(lambda x, f=f: jnp.sum(jnp.sin(f(x))))(x) for f in (lambda x: convolution.max_pool(x, 3, 2), library)
    ]
    np.testing.assert_allclose(*slopes, rtol=1e-6)


def posterior_of(name: str, **settings):
    config, shape, vocabulary, _ = CASES[name]
    posterior, prior = build_posterior(
        config, CategoricalLikelihood(), NormalPrior(), temperature=1.0, shape=shape, classes=3, vocabulary=vocabulary,
        **settings,
    )  # fmt: skip
    _, theta, x = case(name)
    data = posterior_data(x, np.arange(ROWS) % 3, prior, vocabulary=vocabulary)
    return posterior, data, theta


@pytest.mark.slow
@pytest.mark.parametrize(("name", "pieces"), [("lenet", (1,)), ("lenetti", (1, 3)), ("cnn_lstm", (1, 3))])
def test_gradients_of_all_rows_and_of_mini_batches_are_the_slope_of_the_density(name: str, pieces: tuple[int, ...]):
    posterior, data, theta = posterior_of(name)
    assert data.x.dtype == (np.int32 if name == "cnn_lstm" else np.float32)
    targets = [binder(posterior._replace(micro_batches=count))(data) for count in pieces]
    values = [target.evaluate(theta) for target in targets]
    if name != "lenet":
        values.append(targets[0].estimate(theta, jnp.arange(ROWS)[::-1]))
    direction = np.random.default_rng(1).normal(size=theta.size)
    with jax.enable_x64(True):
        double, wide, _ = posterior_of(name, dtype=jnp.float64)

        @jax.jit
        def density(step: jax.Array) -> jax.Array:
            moved = theta.astype(np.float64) + step * direction
            likelihood = double.log_likelihood(moved, double.network.arrange(wide.x), wide.y)
            return likelihood + double.log_prior(moved, wide.prior)

        value, slope = float(density(0.0)), float(density(1e-6) - density(-1e-6)) / 2e-6
    for found in values:
        assert sum(map(float, found.density)) == pytest.approx(value, rel=1e-5)
        assert float(np.asarray(found.gradient, np.float64) @ direction) == pytest.approx(slope, rel=2e-4)
    # More rows than the network takes at once, and not a multiple of those.
    x, y = (jnp.concatenate([leaf] * 7) for leaf in (data.x, data.y))
    likelihood = jax.jit(posterior.log_likelihood_of)(theta, x, y)
    assert float(likelihood) == pytest.approx(7 * float(values[0].density.log_likelihood), rel=1e-5)


def test_repeated_tokens_add_up_in_the_embeddings_gradient():
    posterior, data, theta = posterior_of("cnn_lstm")
    slope = binder(posterior)(data._replace(x=data.x.at[:].set(4))).evaluate(theta).gradient + theta
    table = posterior.layout.unflatten(np.asarray(slope))["embedding.table"]
    np.testing.assert_allclose(np.delete(table, 4, axis=0), 0, atol=1e-6)
    assert np.abs(table[4]).max() > 1e-3


def test_predictions_do_not_depend_on_how_many_rows_are_asked():
    posterior, data, theta = posterior_of("lenetti")
    whole = posterior.predict(theta[None], data.x).log_probs
    np.testing.assert_allclose(whole[:, :7], posterior.predict(theta[None], data.x[:7]).log_probs, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_the_memory_of_a_gradient_stays_within_what_is_counted():
    posterior, data, theta = posterior_of("lenet")
    rows = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((320, *leaf.shape[1:]), leaf.dtype), (data.x, data.y))
    batch = jax.eval_shape(posterior.arrange, data._replace(x=rows[0], y=rows[1]))
    taken = jax.jit(posterior.evaluate).lower(jax.ShapeDtypeStruct(theta.shape, np.float32), batch).compile()
    assert taken.memory_analysis().temp_size_in_bytes < 2 * 320 * residual_bytes(posterior, data)
    assert micro_batches(posterior, data, 1e9) == 1


def test_no_row_changes_anothers_output():
    network, theta, x = case("resnet")
    apply = jax.jit(lambda x: network.apply(theta, network.arrange(x)))
    changed = x.copy()
    changed[3] += 1
    before, after = apply(x), apply(changed)
    assert not np.allclose(before[:, 3], after[:, 3])
    np.testing.assert_array_equal(np.delete(before, 3, axis=1), np.delete(after, 3, axis=1))


@pytest.mark.parametrize(
    ("config", "shape", "vocabulary", "text"),
    [
        (LeNetConfig(), (13,), 0, r"'lenet' needs images .*15x15.* of shape \(13,\)"),
        (LeNetConfig(), (14, 28, 1), 0, r"15x15.*\(14, 28, 1\)"),
        (LeNet5Config(), (11, 28, 1), 0, r"12x12.*\(11, 28, 1\)"),
        (LeNet5MaxConfig(), (15, 28, 1), 0, r"16x16.*\(15, 28, 1\)"),
        (ResNetFRNConfig(), (3, 3, 3), 0, "'resnet_frn' needs images .*4x4"),
        (LeNettiConfig(), (100,), 500, r"'lenetti' .*tokens of a vocabulary of 500 of shape \(100,\)"),
        (CNNLSTMConfig(), (28, 28, 1), 0, "'cnn_lstm' needs tokens"),
        (CNNLSTMConfig(), (7,), 500, "at least 8"),
        (CNNLSTMConfig(), (100,), 0, "of a vocabulary"),
        (MLPConfig(hidden=()), (100,), 500, "'mlp' needs tables"),
        (MLPConfig(hidden=()), (0,), 0, "'mlp' needs tables"),
    ],
)
def test_rows_of_another_kind_are_refused(config: ModelConfig, shape: tuple[int, ...], vocabulary: int, text: str):
    with pytest.raises(ShapeError, match=text):
        build_network(config, shape, 2, vocabulary)


@pytest.mark.parametrize("token", [-1, 9])
def test_tokens_outside_the_vocabulary_are_refused(token: int):
    _, data, _ = posterior_of("cnn_lstm")
    x = np.asarray(data.x).copy()
    x[2, 3] = token
    _, prior = build_posterior(
        SMALL_TEXT, CategoricalLikelihood(), NormalPrior(), temperature=1.0, shape=(12,), classes=3, vocabulary=9
    )
    with pytest.raises(ValueError, match=r"must be 0 to 8 .the vocabulary is 9"):
        posterior_data(x, np.arange(ROWS) % 3, prior, vocabulary=9)


@pytest.mark.slow
def test_a_token_beyond_the_vocabulary_gives_nan_and_no_neighbours_word():
    network, theta, x = case("cnn_lstm")
    x[2, 3] = 9
    out = np.asarray(network.apply(theta, network.arrange(x)))
    assert np.isnan(out[:, 2]).all()
    assert np.isfinite(np.delete(out, 2, axis=1)).all()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"kind": "resnet_frn", "depth": 18}, "8, 14, 20"),
        ({"kind": "wide_resnet_frn", "depth": 20, "widen": 4}, "10, 16, 22"),
        ({"kind": "cnn_lstm", "activation": "silu"}, "use relu or elu, or set model.pool: 1"),
        ({"kind": "lenet5_max", "activation": "silu"}, "'relu', 'sigmoid', 'tanh' or 'elu'"),
        ({"kind": "vgg"}, "lenet"),
    ],
)
def test_settings_that_make_no_network_are_refused(settings: dict, text: str):
    with pytest.raises(ValueError, match=text):
        PosteriorConfig(model=settings, likelihood={"kind": "categorical"})


def test_labels_name_the_settings():
    models = [
        LeNetConfig(), LeNet5Config(), LeNet5MaxConfig(), LeNettiConfig(), ResNetFRNConfig(), WIDE_16, CNNLSTMConfig(),
        SMOOTH_TEXT, MLPConfig(hidden=(50,)), MLPConfig(hidden=(7, 10), activation="elu"),
    ]  # fmt: skip
    assert [model.label for model in models] == [
        "lenet", "lenet5 relu", "lenet5_max relu", "lenetti sigmoid", "resnet20 frn silu", "wrn-16-4 frn relu",
        "cnn_lstm 128-64-128", "cnn_lstm 5-4-3 silu", "mlp 50 relu", "mlp 7x10 elu",
    ]  # fmt: skip


def test_the_address_of_what_starts_from_a_relu_network_is_older_than_the_choice():
    assert "activation" not in CNNLSTMConfig().model_dump()
    assert SMOOTH_TEXT.model_dump()["activation"] == "silu"


def test_a_layout_of_images_survives_the_trace_header():
    layout = build_network(LeNetConfig(), MNIST, 10).layout
    assert Layout.from_dict(layout.to_dict()) == layout
