# A thin front over Meson, for people and for the README.
# Each of these variables comes from make's command line, else from the environment.
BUILD ?= build
# Empty: the prefix of the build folder; Meson's own default is /usr/local.
PREFIX ?=
DESTDIR ?=
PYTHON ?= /usr/bin/python3

.PHONY: all programs check check-all check-night check-seeds check-mutants check-servers check-monitoring check-debian servers check-packages site check-site check-musl check-aarch64 dist interop format docs demo bench bench-beside findings install uninstall clean static wheel check-python packages-build packages-wheel packages-run packages-check packages-bench packages-beside packages-servers packages-interop packages-monitoring packages-debian packages-package packages-dist packages-site packages-check-site packages-musl packages-aarch64

# The library and the command. The targets below build what they need beside these.
all: packages-build $(BUILD)/build.ninja
	$(if $(PREFIX),meson configure "$(BUILD)" --prefix="$(PREFIX)")
	ninja -C "$(BUILD)" product

$(BUILD)/build.ninja:
	meson setup "$(BUILD)" $(if $(PREFIX),--prefix="$(PREFIX)")

# Installs missing packages as root or through sudo; otherwise names them.
packages-build:
	@sh scripts/install_packages.sh build
packages-run:
	@sh scripts/install_packages.sh build run
packages-check:
	@sh scripts/install_packages.sh build run check
packages-bench:
	@sh scripts/install_packages.sh build run check bench
packages-beside:
	@sh scripts/install_packages.sh build run check bench beside

packages-servers:
	@sh scripts/install_packages.sh build run check servers

packages-interop:
	@sh scripts/install_packages.sh build run check interop

packages-monitoring:
	@sh scripts/install_packages.sh build run check monitoring browser

packages-package:
	@sh scripts/install_packages.sh build run check package

packages-dist:
	@sh scripts/install_packages.sh dist

packages-site:
	@sh scripts/install_packages.sh site

packages-check-site:
	@sh scripts/install_packages.sh build run check site browser

packages-musl:
	@sh scripts/install_packages.sh build run check musl

packages-aarch64:
	@sh scripts/install_packages.sh build run check aarch64

packages-debian:
	@sh scripts/install_packages.sh build run check debian

# The command as one file that needs no other, for containers and rescue systems.
static: packages-build $(BUILD)/build.ninja
	ninja -C "$(BUILD)" static
	strip -o "$(BUILD)/lockkeeper-static" "$(BUILD)/cli/lockkeeper-static"

packages-wheel:
	@sh scripts/install_packages.sh build wheel

# The Python package for every Python from 3.10 on, in build/wheel (python/README.md). pip fetches
# meson-python and cffi.
wheel: packages-wheel
	$(PYTHON) -m venv "$(BUILD)/venv"
	rm -rf "$(BUILD)/wheel"
	"$(BUILD)/venv/bin/pip" wheel -q --disable-pip-version-check --no-deps -w "$(BUILD)/wheel" .
	@ls "$(BUILD)"/wheel/*.whl

# Its tests, with that wheel, and redis-py's tests of its lock with our lock.
check-python: wheel packages-run
	"$(BUILD)/venv/bin/pip" install -q --disable-pip-version-check --force-reinstall \
		"$(BUILD)"/wheel/*.whl pytest redis
	"$(BUILD)/venv/bin/python" -m pytest -q -p no:cacheprovider python/tests
	"$(BUILD)/venv/bin/python" python/tests/run_redis_py.py "$(BUILD)/redis-py" 6 7 8

# The tests too, and the programs of the bench and the demo.
programs: packages-check $(BUILD)/build.ninja
	ninja -C "$(BUILD)"

# What shows that it works; ends with "N passed, N failed". LEVEL=release: of that, what another
# release of the system may change.
LEVEL ?= check
check: packages-check
	@$(PYTHON) scripts/check.py --level $(LEVEL) --estimate
	@$(MAKE) --no-print-directory programs
	@$(PYTHON) scripts/check.py --build "$(BUILD)" --level $(LEVEL)

# Every test.
check-all: packages-check
	@$(PYTHON) scripts/check.py --level all --estimate
	@$(MAKE) --no-print-directory programs
	@$(PYTHON) scripts/check.py --build "$(BUILD)" --level all

# The same with every deployment, transport and way of calling, and 100 failovers.
check-night: packages-check
	@$(PYTHON) scripts/check.py --level night --estimate
	@$(MAKE) --no-print-directory programs
	@$(PYTHON) scripts/check.py --build "$(BUILD)" --level night

# So many seeds of each simulated world, on all cores, from a random one on (tests/sim/).
SEEDS ?= 10000
check-seeds: packages-check $(BUILD)/build.ninja
	ninja -C "$(BUILD)" tests/sim/test_sim
	$(PYTHON) scripts/sweep_seeds.py --build "$(BUILD)" $(SEEDS)

# Breaks the library, one defect at a time, and shows that the tests notice (tests/mutants/).
# MUTANTS= names some.
MUTANTS ?=
check-mutants: packages-check $(BUILD)/build.ninja
	$(PYTHON) tests/mutants/run.py $(MUTANTS)

# All of `make check` in a root of that Debian release, which is removed afterwards. WAY=--user: as an
# ordinary user; WAY=--container: with the rights that containers leave.
RELEASE ?= trixie
WAY ?=
check-debian: packages-debian
	$(PYTHON) scripts/debian.py --release $(RELEASE) --check $(WAY)

# The suites of the wire and of deployments on servers of other versions (docs/servers.md).
check-servers: packages-servers programs
	$(PYTHON) scripts/try_servers.py --build $(BUILD)

# Metrics read by Prometheus, and their page looked at in Chromium; with LOCKKEEPER_PICTURES=DIR the
# pictures stay there.
check-monitoring: packages-monitoring programs
	$(PYTHON) scripts/check.py --build $(BUILD) monitoring

# CMake, the tarball, and the recipes of package managers.
check-packages: packages-package programs
	$(PYTHON) scripts/check.py --build "$(BUILD)" packages

# The library, the command, the unit suites and the simulated worlds with another C library, and on
# another processor, which qemu-user emulates (docs/building.md).
check-musl: packages-musl
	$(PYTHON) scripts/foreign.py musl --build "$(BUILD)"
check-aarch64: packages-aarch64
	$(PYTHON) scripts/foreign.py aarch64 --build "$(BUILD)"

# The manuals as static HTML, in build/site; needs no build.
site: packages-site
	$(PYTHON) scripts/site.py "$(BUILD)/site"

# Its links, its search, and how its pages fit a phone and a wide screen, in Chromium.
check-site: packages-check-site programs
	$(PYTHON) scripts/check.py --build "$(BUILD)" site

# The tarball of a release, its checksum, and the recipes of packaging/ with both; URL= says below
# which address the tarball will be.
URL ?=
dist: packages-dist
	$(PYTHON) scripts/dist.py "$(BUILD)/dist" $(URL)

# Fetches those servers into the build folder.
servers: packages-servers programs
	$(PYTHON) scripts/try_servers.py --build $(BUILD) --fetch

# Redisson, redis-py, redsync and node-redlock on the same keys (docs/interop.md).
interop: packages-interop programs
	$(PYTHON) scripts/check.py --build $(BUILD) interop

# Processes compete for one lock, and one is killed while it holds it; about 20 seconds.
demo: packages-run all
	ninja -C "$(BUILD)" demo-programs
	$(PYTHON) demo/demo.py --build $(BUILD)

# Figures beside bare hiredis programs, and other libraries where Go and Node are installed, into
# bench/results.
bench: packages-bench all
	ninja -C "$(BUILD)" bench-programs
	$(PYTHON) bench/run.py --build $(BUILD)

# Locks of databases, ZooKeeper, etcd and files beside ours, each with its real server, which is
# installed for this alone; figures, and what happens when, into bench/results. About an hour.
bench-beside: packages-beside all
	meson setup --reconfigure "$(BUILD)" >/dev/null
	ninja -C "$(BUILD)" beside-programs
	$(PYTHON) bench/beside/run.py --build $(BUILD) --into bench/results/beside.json
	$(PYTHON) bench/beside/run_faults.py --build $(BUILD) --into bench/results/beside-faults.json

# What surprised us in other software: runs each script of findings/, about 15 minutes.
findings:
	$(PYTHON) scripts/findings.py

# Writes the pages that come from tables; `make check` finds stale ones.
docs: all
	$(PYTHON) scripts/make_docs.py $(BUILD)
format:
	find include cpp src cli tests examples demo bench \
		'(' -name '*.[ch]' -o -name '*.cpp' -o -name '*.hpp' ')' \
		-exec clang-format -i --style=file {} +

# A relative DESTDIR counts from here, not from the build folder.
install: all
	destdir="$(DESTDIR)"; case "$$destdir" in ''|/*) ;; *) destdir="$$PWD/$$destdir";; esac; \
	DESTDIR="$$destdir" meson install --no-rebuild -C "$(BUILD)"
# Removes the files that the last installation from this build folder wrote.
uninstall:
	ninja -C "$(BUILD)" uninstall

clean:
	rm -rf "$(BUILD)" build-ci
