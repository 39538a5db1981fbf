"""Plain formulas of the convolutional and recurrent layers, row by row in NumPy and SciPy, from named arrays."""

from collections.abc import Callable, Mapping

import numpy as np
from scipy.special import expit

Arrays = Mapping[str, np.ndarray]


def relu(a: np.ndarray) -> np.ndarray:
    return np.maximum(a, 0)


def silu(a: np.ndarray) -> np.ndarray:
    return a * expit(a)


def elu(a: np.ndarray) -> np.ndarray:
    return np.where(a > 0, a, np.expm1(a))


def same(size: int, kernel: int, stride: int) -> tuple[int, int]:
    total = max((int(np.ceil(size / stride)) - 1) * stride + kernel - size, 0)
    return total // 2, total - total // 2


def conv(p: Arrays, name: str, x: np.ndarray, stride: int = 1, padding: int | None = None) -> np.ndarray:
    """Convolution of one image [height, width, channels]."""
    weight = p[f"{name}.weight"]
    kernel = weight.shape[-1]
    pads = [same(size, kernel, stride) if padding is None else (padding, padding) for size in x.shape[:2]]
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, [*pads, (0, 0)]), (kernel, kernel), axis=(0, 1))
    result = np.einsum("ijcab,ocab->ijo", windows, weight)[::stride, ::stride]
    return result + p[f"{name}.bias"] if f"{name}.bias" in p else result


def pool(x: np.ndarray, window: int, stride: int) -> np.ndarray:
    high, wide = ((size - window) // stride + 1 for size in x.shape[:2])
    cells = [
        [x[i * stride : i * stride + window, j * stride : j * stride + window].max((0, 1)) for j in range(wide)]
        for i in range(high)
    ]
    return np.array(cells)


def norm(p: Arrays, name: str, x: np.ndarray) -> np.ndarray:
    """Filter response norm of one image [height, width, channels]."""
    unit = x / np.sqrt((x**2).mean((0, 1)) + 1e-6)
    return np.maximum(p[f"{name}.gain"] * unit + p[f"{name}.bias"], p[f"{name}.threshold"])


def dense(p: Arrays, name: str, h: np.ndarray) -> np.ndarray:
    return p[f"{name}.weight"] @ h + p[f"{name}.bias"]


def flat(x: np.ndarray) -> np.ndarray:
    """An image as the dense layers take it, channel by channel."""
    return x.transpose(2, 0, 1).reshape(-1)


def lenet(p: Arrays, x: np.ndarray) -> np.ndarray:
    for index in range(3):
        x = pool(relu(conv(p, f"conv{index}", x)), 3, 2)
    return dense(p, "output", relu(dense(p, "dense", flat(x))))


def means(x: np.ndarray) -> np.ndarray:
    """Means over blocks of 2x2 pixels; a last odd row or column is left out."""
    high, wide = (size // 2 for size in x.shape[:2])
    return np.array([[x[2 * i : 2 * i + 2, 2 * j : 2 * j + 2].mean((0, 1)) for j in range(wide)] for i in range(high)])


def lenet5(p: Arrays, x: np.ndarray, activation: Callable[[np.ndarray], np.ndarray] = relu) -> np.ndarray:
    x = means(activation(conv(p, "conv0", x)))
    h = flat(means(activation(conv(p, "conv1", x, padding=0))))
    for index in range(2):
        h = activation(dense(p, f"dense{index}", h))
    return dense(p, "output", h)


def lenet5_max(p: Arrays, x: np.ndarray, activation: Callable[[np.ndarray], np.ndarray] = relu) -> np.ndarray:
    for index in range(2):
        x = pool(activation(conv(p, f"conv{index}", x, padding=0)), 2, 2)
    h = flat(x)
    for index in range(2):
        h = activation(dense(p, f"dense{index}", h))
    return dense(p, "output", h)


def lenetti(p: Arrays, x: np.ndarray) -> np.ndarray:
    h = flat(expit(conv(p, "conv", x, padding=2)))
    for index in range(3):
        h = expit(dense(p, f"dense{index}", h))
    return dense(p, "output", h)


def resnet(p: Arrays, x: np.ndarray) -> np.ndarray:
    x = silu(norm(p, "stem_norm", conv(p, "stem_conv", x)))
    blocks = list(dict.fromkeys(name.partition(".")[0] for name in p if name.startswith("stack")))
    for block in blocks:
        inner = {name.partition(".")[2]: value for name, value in p.items() if name.startswith(f"{block}.")}
        stride = 2 if "shortcut_conv.weight" in inner else 1
        y = silu(norm(inner, "norm0", conv(inner, "conv0", x, stride)))
        y = norm(inner, "norm1", conv(inner, "conv1", y))
        if stride == 2:
            x = norm(inner, "shortcut_norm", conv(inner, "shortcut_conv", x, 2))
        x = silu(x + y)
    return dense(p, "output", x.mean((0, 1)))


def wide_resnet(p: Arrays, x: np.ndarray) -> np.ndarray:
    x = conv(p, "stem_conv", x)
    blocks = list(dict.fromkeys(name.partition(".")[0] for name in p if name.startswith("stack")))
    for block in blocks:
        inner = {name.partition(".")[2]: value for name, value in p.items() if name.startswith(f"{block}.")}
        stride = 1 if block.startswith("stack0") or block[-1] != "0" else 2
        z = relu(norm(inner, "norm0", x))
        y = conv(inner, "conv1", relu(norm(inner, "norm1", conv(inner, "conv0", z, stride))))
        x = y + (conv(inner, "shortcut", z, stride) if "shortcut.weight" in inner else x)
    return dense(p, "output", relu(norm(p, "norm", x)).mean((0, 1)))


def cnn_lstm(
    p: Arrays, tokens: np.ndarray, size: int = 4, activation: Callable[[np.ndarray], np.ndarray] = relu
) -> np.ndarray:
    words = p["embedding.table"][tokens]
    weight = p["conv.weight"]
    kernel = weight.shape[-1]
    places = range(len(words) - kernel + 1)
    response = np.array([np.einsum("ock,kc->o", weight, words[i : i + kernel]) for i in places])
    response = activation(response + p["conv.bias"])
    steps = [response[i * size : (i + 1) * size].max(0) for i in range(len(response) // size)]
    h = c = np.zeros(len(p["lstm.bias"]) // 4)
    for step in steps:
        i, g, f, o = np.split(p["lstm.weight"] @ np.concatenate([step, h]) + p["lstm.bias"], 4)
        c = expit(f + 1) * c + expit(i) * np.tanh(g)
        h = expit(o) * np.tanh(c)
    return dense(p, "output", h)
