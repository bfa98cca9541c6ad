# A thin front over Meson, for people and for the README.
BUILD = build
PREFIX = /usr/local
DESTDIR =
PYTHON = /usr/bin/python3

.PHONY: all check interop format docs demo bench install clean packages-build packages-run packages-check packages-bench packages-interop

all: packages-build $(BUILD)/build.ninja
	ninja -C $(BUILD)

$(BUILD)/build.ninja:
	meson setup $(BUILD) --prefix=$(PREFIX)

# What is missing is installed, by root or through sudo; otherwise named.
packages-build:
	@sh scripts/install_packages.sh build
packages-run:
	@sh scripts/install_packages.sh build run
packages-check:
	@sh scripts/install_packages.sh build run check
packages-bench:
	@sh scripts/install_packages.sh build run check bench

packages-interop:
	@sh scripts/install_packages.sh build run check interop

# Every test; ends with "N passed, N failed".
check: packages-check all
	$(PYTHON) scripts/check.py --build $(BUILD)

# Redisson, redis-py, redsync and node-redlock on the same keys; fetches them (docs/interop.md).
interop: packages-interop all
	$(PYTHON) scripts/check.py --build $(BUILD) interop

# Processes fight for one lock, one is killed while it holds; about 20 seconds.
demo: packages-run all
	$(PYTHON) demo/demo.py --build $(BUILD)

# Figures against bare hiredis programs, into bench/results.
bench: packages-bench all
	$(PYTHON) bench/run.py --build $(BUILD)

# Writes what is made from tables or by rule; `make check` finds what is stale.
docs: all
	$(PYTHON) scripts/make_docs.py $(BUILD)
format:
	git ls-files '*.c' '*.h' | xargs clang-format -i --style=file

install: all
	meson configure $(BUILD) --prefix=$(PREFIX)
	DESTDIR=$(DESTDIR) meson install -C $(BUILD)

clean:
	rm -rf $(BUILD) build-ci
