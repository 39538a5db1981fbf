#!/usr/bin/env bash
# Make a Python environment from a lock file, with this project in it, and install R where it is missing. With `gpu`
# the lock is requirements-gpu.lock: the same packages and JAX for CUDA, which needs NVIDIA's driver and nothing else.
#
#   envs/setup.sh FOLDER [cpu|gpu]
set -euo pipefail
folder=$(realpath --canonicalize-missing "${1:?the folder of the environment}")
device=${2:-cpu}
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

find_python() {
  local candidate
  for candidate in python3.11 python3; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' >/dev/null 2>&1; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

install() { # install ARGUMENTS of `pip install`...: with uv where it works, else with pip
  if [ -x "$folder/bin/uv" ]; then
    "$folder/bin/uv" pip install --quiet --python "$folder/bin/python" --compile-bytecode "$@" && return
    echo "== uv could not do it; trying pip"
  fi
  "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
}

python=$(find_python) || die "Python 3.11 is needed, and neither python3.11 nor python3 is it;" \
  "on Debian 12: apt-get install python3 python3-venv"
can_make_environments() { "$python" -c 'import ensurepip, venv' 2>/dev/null; }
if ! can_make_environments; then # Debian has these modules in a package of their own
  apt_install python3.11-venv || true
  can_make_environments || die "$python cannot make virtual environments: apt-get install python3-venv"
fi

echo "== Python environment in $folder, for $device"
"$python" -m venv --clear "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes --requirement envs/uv.txt ||
  echo "== uv could not be installed; going on with pip"
# rpy2 is built without R's headers, and so before R is there.
RPY2_CFFI_MODE=ABI install --require-hashes --requirement "$lock"
install --no-deps --no-build-isolation --editable .
echo "$device" >"$folder/device"

envs/install_r.sh || true
