# SPDX-License-Identifier: GPL-2.0-only OR MIT
# The menu. Every target sets up what it needs, on a fresh Debian 12 too, and is quick when that is there already.
# What the set-up prints goes to .make/setup.log.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

# Where rustup puts cargo for a shell that was open before it.
export PATH := $(HOME)/.cargo/bin:$(PATH)
export VIRTUAL_ENV := $(CURDIR)/.venv

PYTHON ?= python3
BIN := .venv/bin
STUDY ?= claypool-2021
MINUTES ?= 30
RUST := $(shell sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)

PACKAGES := ca-certificates clang curl gcc git iperf3 iproute2 iputils-ping libbpf-dev libc6-dev libelf-dev \
            llvm make nftables pkg-config python3-venv tcpdump zlib1g-dev
BENCH_PACKAGES := g++ libns3-dev ns2 time tshark valgrind

# What tests and linters need, beyond what a user does.
DEVELOPMENT := .venv/core.made .venv/dev.made

# Everything the Python module is compiled from.
CORE := $(shell find crates -name '*.rs' -path '*/src/*') $(wildcard crates/*/Cargo.toml crates/*/build.rs crates/*/bpf/*.c \
        algorithms/*.c algorithms/*.h algorithms/*/*.h profiles/*) Cargo.toml Cargo.lock

.PHONY: help setup study picture scoreboard gallery check test torture lint docs bench bench-long bench-analyze bench-graphs bench-kernel bench-emu bench-pep soak hostile clean bench-packages validate validate-modes validate-limits validate-ns2 validate-browser validate-imported validate-bbr3 validate-advise validate-verdicts wheel web web-tables deb deb-pep release lint-forge bench-nightly

help: ## this menu
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 22

setup: .venv/core.made ## packages, Rust, virtual environment, Python module; done by the others when needed

study: .venv/core.made ## the whole claypool-2021 study and its report (STUDY=name for another)
	$(BIN)/perigee run $(STUDY) --out results/$(STUDY)
	$(BIN)/perigee report results/$(STUDY)

picture: .venv/core.made ## the pictures of README and site: the tab's first study, and claypool-2021 beside its publication (two minutes; needs Node)
	$(BIN)/perigee run claypool-2021 --out results/claypool-2021
	$(BIN)/python tools/picture.py results/claypool-2021
	$(BIN)/python tools/moving_picture.py

scoreboard: .venv/core.made ## every study with a publication held against it: page, README, JSON and CSV (seconds where results/ has them)
	$(BIN)/python tools/scoreboard.py

gallery: .venv/core.made ## every congestion control on four links: the study `gallery` and its report (two minutes)
	$(BIN)/perigee run gallery --out results/gallery
	$(BIN)/perigee report results/gallery

# On what was built last: a change of Rust does not rebuild the module first, which takes minutes.
check: ## an answer in 90 s to what was changed since main: formatting and the nearest tests
	@[ -e .venv/dev.made ] || $(MAKE) --no-print-directory $(DEVELOPMENT)
	@$(BIN)/python tools/check.py

test: $(DEVELOPMENT) ## all tests but the long ones; closes with N passed, N failed, N skipped
	$(BIN)/python tools/test.py

torture: .venv/torture.made ## the long tests, then half an hour of trying to break it: random inputs, kills, lies, fuzz targets (MINUTES=30)
	$(BIN)/python tools/torture.py --minutes $(MINUTES)

lint: $(DEVELOPMENT) ## formatting, clippy, rustdoc, ruff, mypy, C warnings, file lengths, links
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --quiet
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m mypy.stubtest perigee._core
	$(BIN)/python tools/lint.py
	$(BIN)/python tools/architecture.py --check

lint-forge: ## workflows of the forge, by actionlint (needs it, or Go to fetch it)
	@command -v actionlint >/dev/null || GOBIN=$(CURDIR)/.make/bin go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
	PATH="$(CURDIR)/.make/bin:$$PATH" actionlint

docs: .venv/docs.made ## documentation site in target/docs, its links checked; opens from the folder (half a minute)
	$(BIN)/python tools/docs.py

bench: .venv/release.made bench-packages ## speed, memory and instructions per packet, beside ns-2 and ns-3 (ten minutes)
	$(PYTHON) benches/run.py

bench-nightly: .venv/core.made ## instructions beside those on record; 3 % more fail (PUSH=REMOTE appends them on the branch `benchmarks`)
	benches/nightly.sh $(PUSH)

bench-long: .venv/release.made bench-packages ## as bench, with the 1 GB download that takes ns-3 ten minutes and more
	$(PYTHON) benches/run.py --long

bench-analyze: .venv/release.made bench-packages ## speed of perigee analyze on a large capture, beside tshark (five minutes)
	$(PYTHON) benches/analyze.py

bench-graphs: $(DEVELOPMENT) ## graphs of 10 million samples in Chromium: first drawn, and zoomed (a minute)
	@tools/packages.sh chromium chromium-driver
	$(BIN)/python benches/graphs.py

bench-kernel: .venv/core.made ## what congestion controls cost in the kernel, beside its own, as root (five minutes)
	$(PYTHON) benches/kernel.py

bench-emu: .make/rust ## what an emulated link carries and how late it is, beside veth and tbf, as root (ten minutes)
	$(PYTHON) benches/emulator.py

# The feature: valgrind has no vDSO, and the kernel's list, which is read without it, says otherwise.
bench-pep: .venv/core.made ## the proxy beside HAProxy: speed, memory, and what each loses, as root (three minutes)
	@tools/packages.sh haproxy || true
	cargo build --release --quiet -p perigee-pep --features rustix/use-libc-auxv
	$(BIN)/python benches/pep.py

soak: .venv/core.made ## half an hour of mixed load for the proxy, as root: memory flat, no socket left (MINUTES=30)
	cargo build --release --quiet -p perigee-pep
	$(BIN)/python benches/pep_soak.py --minutes $(MINUTES)

hostile: .venv/core.made ## half an hour of a hostile operator of the proxy, as root: nothing lost (MINUTES=30)
	cargo build --release --quiet -p perigee-pep
	$(BIN)/python benches/pep_hostile.py --minutes $(MINUTES)

validate: .venv/core.made ## the simulator beside this kernel, into docs/models/validation.md, validation-transfers.md, validation-switches.md and validation-quic.md (as root; two hours, goes on after Ctrl-C)
	$(BIN)/python validation/kernel/cells.py
	$(BIN)/python validation/kernel/short.py
	$(BIN)/python validation/switches/switches.py
	$(BIN)/python validation/quic/sockets.py

validate-modes: .venv/core.made ## cells near a bistable point beside this kernel, with their neighbours, into docs/models/validation-modes.md (as root; ten minutes)
	$(BIN)/python validation/modes/modes.py

validate-ns2: .venv/core.made ## the simulator beside ns-2 on a short cell, and its preset on scripted transfers, into docs/models/validation-ns2.md (ten minutes; skipped without ns-2)
	$(BIN)/python validation/ns2/compare.py
	$(BIN)/python validation/ns2/transfers.py

validate-limits: .venv/core.made ## what captures and results say limited a flow, beside what was planted, into docs/models/validation-limits.md (as root; nine minutes)
	$(BIN)/python validation/limits/limits.py

validate-browser: $(DEVELOPMENT) ## page loads beside Chromium's, into docs/models/validation-browser.md (as root; five minutes; skipped without Chromium)
	$(BIN)/python validation/browser/loads.py

validate-imported: .venv/core.made ## congestion control modules of Linux 6.1, imported, beside this project's files, into docs/models/validation-imported.md (20 minutes on a busy machine; loads as root; skipped without Debian's package)
	$(BIN)/python validation/imported/modules.py

validate-bbr3: .venv/core.made ## the 22 cases of the draft of BBRv3, over 25 paths, and what misses them (ten minutes)
	$(BIN)/python validation/bbr3/grid.py

validate-advise: .venv/core.made ## advice beside the best of its menu, on 20 drawn paths, into docs/models/validation-advise.md (as root; two hours on an idle machine, goes on after Ctrl-C; PATHS=1-5)
	@tools/packages.sh irtt || true
	$(BIN)/python validation/advise/advise.py $(if $(PATHS),--paths $(PATHS))

validate-verdicts: .venv/core.made ## verdicts of whole and quick evaluations, and of twins, into docs/models/validation-verdicts.md (hours of a core, goes on after Ctrl-C)
	$(BIN)/perigee cc standing --whole --out results/standing-whole
	$(BIN)/python tools/verdicts.py sizes
	$(BIN)/python tools/verdicts.py whole --seeds 3
	$(BIN)/python tools/verdicts.py near --seeds 40

wheel: .venv/core.made ## source distribution and, built from it, a wheel, in dist/ (CONTRIBUTING names other targets)
	tools/wheels.sh

web: target/web/index.html ## the laboratory in a browser tab: one page, target/web/index.html (six minutes of processor time the first time)

target/web/index.html: target/web/perigee.wasm python/perigee/laboratory/page.py python/perigee/data/look.css $(shell find web python/perigee/laboratory/static -type f)
	$(PYTHON) python/perigee/laboratory/page.py $< $@

# Everything the module is compiled from. The script installs Debian's Rust.
target/web/perigee.wasm: tools/web.sh web/perigee.js $(CORE) $(shell find studies -name '*.toml' -o -name '*.csv') | .make
	tools/web.sh

web-tables: $(DEVELOPMENT) web ## every table of the module beside the native one: shipped and 500 random studies (needs Node)
	$(BIN)/python tools/web_tables.py

deb: wheel deb-pep ## Debian packages in dist/: the command, and the proxy
	$(BIN)/python tools/deb.py --wheel "$$(ls -t dist/perigee_lab-*.whl | head -n 1)" --out dist

deb-pep: .make/rust ## Debian package of the proxy alone, a static program, in dist/ (a few minutes)
	@tools/packages.sh binutils musl-tools
	program=$$(tools/static.sh); $(PYTHON) tools/deb.py --proxy "$$program" --out dist

release: $(DEVELOPMENT) ## all of a release that this machine can build, in dist/, each tried in a fresh environment; as root (PARTS="tab wheel proxy deb-pep deb aarch64 image")
	$(BIN)/python tools/release.py build $(PARTS)

clean: ## everything that was built; results/ stays
	rm -rf target dist .venv .make benches/peers/build fuzz/target
	find python tests -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
	rm -f python/perigee/_core*.so

# libFuzzer is C++; atheris is there for some versions of Python only, and left out where it is not.
.venv/torture.made: $(DEVELOPMENT)
	@tools/packages.sh g++
	$(BIN)/pip install --quiet --disable-pip-version-check --only-binary :all: 'atheris>=2.3' || true
	@touch $@

.venv/docs.made: .venv/core.made
	@tools/step.sh 'Sphinx, about a minute' tools/python.sh $(PYTHON) docs
	@touch $@

.venv/dev.made: pyproject.toml tools/python.sh | .venv/core.made
	@tools/step.sh 'Tools of tests and linters, about a minute' tools/python.sh $(PYTHON) tests
	@touch $@

bench-packages:
	@tools/packages.sh $(BENCH_PACKAGES)

# What is set up leaves a stamp where it is, so that the second call does nothing and a removed .venv is made again.
.make:
	@mkdir -p $@

.make/rust: tools/ground.sh tools/packages.sh tools/rust.sh Makefile | .make
	@tools/step.sh '[1/2] Debian packages beside Rust, about a minute' tools/ground.sh $(RUST) $(PACKAGES)
	@touch $@

# Cargo's profile `local`; the proxy's program with it.
.venv/core.made: .make/rust pyproject.toml tools/build.sh tools/python.sh $(CORE)
	@tools/step.sh '[2/2] Rust workspace beside Python libraries, 2 to 3 minutes' tools/build.sh local $(PYTHON)
	@touch $@

# Cargo's profile `release`, as in a wheel, in the place of the other one.
.venv/release.made: .make/rust pyproject.toml tools/build.sh tools/python.sh $(CORE)
	@tools/step.sh 'Rust workspace as it is released, about 4 minutes' tools/build.sh release $(PYTHON)
	@touch .venv/core.made $@
