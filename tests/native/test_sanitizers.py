"""The kernel under the address and undefined-behaviour sanitizers."""

import subprocess
from pathlib import Path

import pytest

from bnn_atlas.native.build import AVX2, AVX512, FOLDER, BuildError, compiler

from .compiled import best

DRIVER = Path(__file__).with_name("driver.cpp")
SANITIZED = (
    "-std=c++17",
    "-O1",
    "-g",
    "-ffp-contract=off",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
)


@pytest.mark.slow
def test_no_access_outside_of_the_arrays_and_nothing_undefined(tmp_path: Path) -> None:
    best()
    try:
        command = compiler()
    except BuildError as error:
        pytest.skip(str(error))
    empty = tmp_path / "empty.cpp"
    empty.write_text("int main() {}\n")
    probe = subprocess.run([*command, *SANITIZED, str(empty), "-o", str(tmp_path / "empty")], check=False)
    if probe.returncode or subprocess.run([tmp_path / "empty"], check=False).returncode:
        pytest.skip(f"{command[0]} has no runtime for the address and undefined-behaviour sanitizers")
    jobs = {"wide": (FOLDER / "gradient.cpp", AVX512), "narrow": (FOLDER / "gradient.cpp", AVX2)}
    jobs |= {"dispatch": (FOLDER / "dispatch.cpp", ()), "driver": (DRIVER, ("-I", str(FOLDER)))}
    built = {name: tmp_path / f"{name}.o" for name in jobs}
    running = [
        subprocess.Popen([*command, *SANITIZED, *flags, "-c", str(source), "-o", str(built[name])])
        for name, (source, flags) in jobs.items()
    ]
    assert [process.wait() for process in running] == [0] * len(running)
    program = tmp_path / "driver"
    subprocess.run([*command, *SANITIZED, *map(str, built.values()), "-o", str(program)], check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[0]) > 500
