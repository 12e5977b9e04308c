# SPDX-License-Identifier: Apache-2.0
# A thin front of meson and ninja. `make help` lists what there is.

export JOBS ?= $(shell nproc)
SOAK_MINUTES ?= 30
MINUTES ?= 30
SEEDS ?= 1000
STEPS ?= 25000
KILLS ?= 100000

# Targets share build folders, and ninja uses all cores by itself.
.NOTPARALLEL:
.PHONY: build setup install test check fuzz model soak kills flood attack faults deb boot demo play bench frameworks gpu-bundle format protocol metrics clean help

build: setup-build ## compile everything into build/ (the default)
	@.ci/configure build gcc
	@.ci/compile build

setup: ## install the Debian packages that are missing, for every target here
	@.ci/setup

setup-%:
	@.ci/setup $*

install: setup-install ## compile what is installed, and install it: prefix=/usr/local DESTDIR=
	@.ci/configure build gcc
	@$(if $(prefix),meson configure build -Dprefix=$(prefix))
	@.ci/compile build $$(.ci/installed build)
	@meson install -C build --no-rebuild --quiet $(if $(DESTDIR),--destdir "$(abspath $(DESTDIR))")

test: setup-test ## build with gcc, sanitizers and clang, run the suite, end with "N passed, N failed"
	@.ci/test

check: setup-check ## cppcheck, clang-tidy, gcc -fanalyzer and valgrind; counts findings
	@.ci/check

fuzz: setup-fuzz ## libFuzzer on decoders and daemon for MINUTES=30; counts add up
	@.ci/fuzz $(MINUTES)

model: build ## play the model tests, STEPS=25000 each of SEEDS=1000; counts add up
	@python3 tests/model/long.py build $(SEEDS) $(STEPS) $(JOBS)

soak: build ## disturbed processes for SOAK_MINUTES=30, half with faults: nothing grows
	@tests/soak/soak.sh build $$(($(SOAK_MINUTES) * 30))
	@tests/soak/soak.sh build $$(($(SOAK_MINUTES) * 30)) faults

faults: build ## every call fails in its turn: C library, kernel, driver; counts them
	@tests/fault/sweep.sh build

kills: build ## kill KILLS=100000 processes at work: no wrong byte, every byte back
	@tests/soak/deaths.sh build $(KILLS)

flood: build ## crowds press the daemon while another leases: counts, and its times as ratios
	@tests/flood/flood.sh build

attack: build ## attack the daemon in each way that is known, or in one: ATTACK=name; a table
	@tests/attack/attack.sh build $(ATTACK)

deb: setup-deb ## make the Debian packages, in build/deb, and have lintian look at them
	@.ci/deb

boot: build deb ## boot systemd in a bare Debian root with them: clients, reload, watchdog
	@tests/systemd/boot.sh build

# What the demo's story needs of all programs.
DEMO := daemon/gpumemd ctl/gpumemctl tests/demo/gpumem-replay tests/demo/gpumem-share-demo \
	driver/emulator/libcuda-emu.so driver/emulator/libnvml-emu.so

demo: setup-demo ## build what it needs, then tell the story of tests/demo
	@.ci/configure build gcc
	@.ci/compile build $(DEMO)
	@tests/demo/demo.sh build

play: setup-demo ## a daemon without a GPU, with programs at work, to look at; until Ctrl-C
	@.ci/configure build gcc
	@.ci/compile build $(DEMO)
	@tests/demo/play.sh build

bench: setup-bench ## measure beside other allocators and the kernel; figures go into build/bench.json too
	@.ci/configure build-release gcc -Dbuildtype=debugoptimized
	@.ci/compile build-release bench/gpumem-bench daemon/gpumemd ctl/gpumemctl \
		tests/demo/gpumem-replay driver/emulator/libcuda-emu.so
	@mkdir -p build
	@bench/bench.sh build-release all --output build/bench.json bench/traces/*.trace.gz

frameworks: build ## the tests of frameworks whose wheels are large: Warp, 149 MB
	@GPUMEM_TEST_LARGE=1 meson test -C build --no-rebuild --print-errorlogs python_warp

gpu-bundle: setup-build ## make gpu-bundle/, which checks a machine with a GPU: gpu-bundle/run all
	@.ci/gpu-bundle

format: setup-format ## lay out the code as .clang-format says
	@python3 tests/style/format.py --write .

protocol: build ## write the tables of proto/PROTOCOL.md as the lists say
	@python3 tests/style/protocol.py --write build/proto/protocol-tables proto/PROTOCOL.md

metrics: build ## write the table of docs/metrics.md as the lists say
	@python3 tests/metrics/lists.py --write build/tests/metrics/metrics-text .

clean: ## remove the build folders
	rm -rf build build-asan build-fuzz build-coverage build-analyzer build-clang build-tsan build-release build-bundle gpu-bundle

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /  \1\t/p' Makefile
