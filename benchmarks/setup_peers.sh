#!/usr/bin/env bash
# Make .venv-peers, the environment of the packages that benchmarks/ compares with. Run `make setup` first.
set -euo pipefail
cd "$(dirname "$0")/.."
python=.venv/bin/python
if [ ! -x "$python" ]; then
  echo "set-up of the peers: there is no $python; run \`make setup\` first" >&2
  exit 1
fi
"$python" -m venv --clear .venv-peers
if [ -x .venv/bin/uv ]; then
  install=(.venv/bin/uv pip install --quiet --python .venv-peers/bin/python --compile-bytecode)
else
  install=(.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check)
fi
"${install[@]}" --require-hashes --requirement benchmarks/requirements-peers.lock
.venv-peers/bin/python -c 'import bde' && echo ".venv-peers is ready"
