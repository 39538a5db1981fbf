#!/usr/bin/env bash
# Make a Python environment from a lock file, install this project into it, and install a C++ compiler and R where they
# are missing. With `gpu` the lock is requirements-gpu.lock: the same packages plus JAX for CUDA, which needs NVIDIA's
# driver only.
#
#   envs/setup.sh FOLDER [cpu|gpu] [PYTHON]
#
# PYTHON (or the variable of that name) is the interpreter to use. Without it, python3 is used if its version is
# supported, and otherwise the newest of python3.13, python3.12 and python3.11 that works.
set -euo pipefail
folder=$(realpath --canonicalize-missing "${1:?the folder of the environment}")
device=${2:-cpu}
asked=${3:-${PYTHON:-}}
PATH=${PATH//"$folder/bin:"/} # an environment is not made from the interpreter that it replaces
cd "$(dirname "$0")/.."
# shellcheck source=envs/apt.sh
. envs/apt.sh

die() {
  echo "set-up: $*" >&2
  exit 1
}

case $device in
  cpu) lock=requirements.lock ;;
  gpu) lock=requirements-gpu.lock ;;
  *) die "DEVICE is '$device'; it can be cpu or gpu" ;;
esac

find_python() { # the path of the first candidate that runs (a shim of pyenv may not) and is supported
  local candidate
  for candidate in "$@"; do
    "$candidate" -c 'import sys
if not (3, 11) <= sys.version_info[:2] <= (3, 13):
    sys.exit(1)
print(sys.executable)' 2>/dev/null && return
  done
  return 1
}

install() { # install ARGUMENTS of `pip install`...: with uv where it works, otherwise with pip
  if [ -x "$folder/bin/uv" ]; then
    "$folder/bin/uv" pip install --quiet --python "$folder/bin/python" --compile-bytecode "$@" && return
    echo "== uv failed; trying pip"
  fi
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
}

if [ -n "$asked" ]; then
  python=$(find_python "$asked") || die "PYTHON is '$asked', which does not run or is not Python 3.11, 3.12 or 3.13"
else
  python=$(find_python python3 python3.13 python3.12 python3.11) || die "no Python 3.11, 3.12 or 3.13 found under the" \
    "names python3, python3.13, python3.12, python3.11; install one (Debian 12 or 13, Ubuntu 24.04: apt-get install" \
    "python3 python3-venv) or name one: make setup PYTHON=/path/to/python"
fi
can_make_environments() { "$python" -c 'import ensurepip, venv' 2>/dev/null; }
if ! can_make_environments; then # Debian packages these modules separately
  apt_install "$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')" || true
  can_make_environments || die "$python cannot make virtual environments: apt-get install python3-venv"
fi

echo "== Python environment in $folder, for $device, with $("$python" --version)"
"$python" -m venv --clear "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --requirement envs/uv.txt ||
  echo "== uv could not be installed; continuing with pip"
# ABI mode builds rpy2 without R's headers, so R need not be installed yet.
RPY2_CFFI_MODE=ABI install --require-hashes --requirement "$lock"
command -v c++ g++ clang++ >/dev/null || apt_install g++ || true # for the compiled gradient
install --no-deps --no-build-isolation --editable .
echo "$device" >"$folder/device"
echo "$asked" >"$folder/python"

envs/install_r.sh || true
