"""Builds the compiled gradient: `python -m bnn_atlas.native.build`, with a C++ compiler and jaxlib's headers.

The library is stored next to its sources under a name that contains a hash of the sources, so that an outdated library
is never used.
"""

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

FOLDER = Path(__file__).parent
FLAGS = ("-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-fno-fast-math")
"""Every operation is rounded as written, so that results do not depend on what a compiler contracts or reorders."""
AVX2 = ("-mavx2", "-mfma", "-mno-avx512f", "-DISA=avx2")
AVX512 = (
    *("-mavx2", "-mfma", "-mavx512f", "-mavx512dq", "-mavx512bw", "-mavx512vl"),
    *("-mtune=icelake-server", "-DISA=avx512"),
)
UNITS = {
    "gradient_avx512": ("gradient.cpp", AVX512),
    "gradient_avx2": ("gradient.cpp", AVX2),
    "dispatch": ("dispatch.cpp", ()),
    "exports": ("exports.cpp", ("-O1",)),
}
LINKED = ("-shared", "-static-libstdc++", "-static-libgcc")
PROCESSORS = ("x86_64", "AMD64")
LOST = "narrow dense networks are sampled through XLA, which takes about twice as long and rounds differently"


class BuildError(RuntimeError):
    """Raised if the library cannot be built here."""


def source_digest() -> str:
    """SHA-256 of the sources and the compiler options, which determine the kernel's results."""
    digest = hashlib.sha256(repr((FLAGS, sorted(UNITS.items()), LINKED)).encode())
    for file in sorted([*FOLDER.glob("*.cpp"), *FOLDER.glob("*.h")]):
        digest.update(f"{file.name}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def library() -> Path:
    """Path of the library for these sources and the installed jaxlib, even if the file does not exist yet."""
    key = hashlib.sha256(f"{source_digest()} {version('jaxlib')}".encode()).hexdigest()[:16]
    return FOLDER / f"gradient-{key}.so"


def compiler() -> list[str]:
    """Command of the C++ compiler: CXX, or the first of c++, g++ and clang++ that is installed.

    Raises:
        BuildError: no compiler is installed.
    """
    if asked := shlex.split(os.environ.get("CXX", "")):
        return asked
    for name in ("c++", "g++", "clang++"):
        if shutil.which(name):
            return [name]
    raise BuildError("no C++ compiler (install g++, or name one in CXX)")


def headers() -> Path:
    """Folder of XLA's headers, which come with jaxlib.

    Raises:
        BuildError: jaxlib is not installed.
    """
    spec = find_spec("jaxlib")
    if spec is None or spec.origin is None:
        raise BuildError("it needs the headers of jaxlib, which is not installed")
    return Path(spec.origin).parent / "include"


def build() -> Path:
    """Build the library if it is missing, and remove libraries built from other sources.

    Raises:
        BuildError: the library cannot be built here; the message says why.
    """
    if sys.platform != "linux" or platform.machine() not in PROCESSORS:
        raise BuildError(f"it needs Linux on x86-64, and this is {sys.platform} on {platform.machine()}")
    include = headers()
    target = library()
    if target.is_file():
        return target
    command = compiler()
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:

        def run(*arguments: str) -> None:
            done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
            if done.returncode:
                message = (done.stderr.strip().splitlines() or ["no message"])[0]
                raise BuildError(f"{shlex.join(command)} failed: {message}")

        def compile_unit(name: str) -> str:
            source, flags = UNITS[name]
            made = str(Path(folder) / f"{name}.o")
            run(*FLAGS, *flags, "-isystem", str(include), "-c", str(FOLDER / source), "-o", made)
            return made

        with ThreadPoolExecutor(len(UNITS)) as pool:
            objects = list(pool.map(compile_unit, UNITS))
        made = Path(folder) / target.name
        run(*objects, *LINKED, "-o", str(made))
        made.replace(target)
    for old in FOLDER.glob("gradient-*.so"):
        if old != target:
            old.unlink(missing_ok=True)
    return target


def main() -> None:
    """Build the library, or print one line with the reason and the consequence."""
    try:
        build()
    except (BuildError, OSError, PackageNotFoundError) as error:
        print(f"The compiled gradient could not be built: {error}; {LOST}", file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
