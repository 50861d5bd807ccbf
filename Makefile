# Every target has a one-line help behind `##`; `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
# The newest Python from 3.11 on that is here; PYTHON=... names another.
IS_USABLE := -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
PYTHON ?= $(shell for v in python3 python3.14 python3.13 python3.12 python3.11; do $$v $(IS_USABLE) && echo $$v && break; done)
# Processes of `make test`: six keep two cores busy, for tests also wait.
TESTERS ?= 6
# What the core does without, each with its own pyproject.toml; they are on no package index.
PACKAGES := -e workbench -e migrate
# Byte code makes the second start several times faster; some machines switch it off.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup run console console-check chat test test-fast test-long test-all test-times test-repeat test-pythons nightly conformance coverage drill drill-long drill-mutations drill-moments drill-bare drill-container drill-browser drill-native drill-restheart drill-slow-upload check chart-check dist dist-check format docs pictures tour native bench bench-rivals clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/.created:
	@test -n "$(PYTHON)" && $(PYTHON) $(IS_USABLE) || { \
		echo "docgraph needs Python 3.11 or newer with the venv module (Debian: apt-get install python3-venv)"; \
		test -z "$(PYTHON)" || echo "PYTHON=$(PYTHON) is not that"; exit 1; }
	@echo "creating $(VENV) with $(PYTHON)"
	@if test -e $(VENV); then $(PYTHON) -m venv $(VENV); else $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }; fi
	@touch $@

$(VENV)/.run: $(VENV)/.created pyproject.toml $(wildcard */pyproject.toml) constraints.txt
	@echo "installing docgraph (about a minute the first time)"
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[embedded]' $(PACKAGES)
	@touch $@

$(VENV)/.dev: $(VENV)/.run pyproject.toml constraints.txt
	@echo "installing the development tools"
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[embedded,mcp,otel,dev]' $(PACKAGES)
	@touch $@

setup: $(VENV)/.dev ## make the virtual environment and install everything

# Packages and the console are installed beside each other.
run: ## serve the demo on an embedded MongoDB (ARGS="--port 8081")
	@$(MAKE) --silent --no-print-directory -j2 $(VENV)/.run $(VENV)/.console
	@$(BIN)/docgraph demo $(ARGS)

CONSOLE_SOURCES := $(shell find console -name node_modules -prune -o -type f -print 2>/dev/null)

# Tried once for each state of the sources: who has no Node is not told so at every start.
$(VENV)/.console: $(CONSOLE_SOURCES) $(wildcard tools/console.py) | $(VENV)/.created
	@$(BIN)/python tools/console.py --optional
	@touch $@

console: $(VENV)/.created ## build the console (with Node 20.19+, or one from PyPI)
	@$(BIN)/python tools/console.py
	@touch $(VENV)/.console

console-check: $(VENV)/.created ## check the types and lint rules of the console, run its unit tests, and build it
	@$(BIN)/python tools/console.py --check $(ARGS)
	@touch $(VENV)/.console

chat: $(VENV)/.run ## serve the chat of examples/chat on an embedded MongoDB
	@$(BIN)/docgraph serve --config examples/chat/docgraph.yml

test: $(VENV)/.dev ## run the first tier of tests against a real MongoDB (ARGS="tests/unit -k name" for others)
	@$(BIN)/pytest -n $(TESTERS) $(or $(ARGS),-m "not second_tier")
	@$(if $(ARGS),,$(BIN)/python tools/test_times.py --check)

test-all: TESTERS = 4 # a browser needs more of a core than other tests
test-all: $(VENV)/.dev ## run also the second tier: elections, browsers, suites of others (ARGS="-m second_tier" for it alone)
	@$(BIN)/pytest -n $(TESTERS) $(ARGS)

test-times: $(VENV)/.dev ## print what the tests of the last run cost, by directory, file and fixture
	@$(BIN)/python tools/test_times.py

test-fast: $(VENV)/.dev ## run the tests that start no server
	@$(BIN)/pytest -n 2 -m "not server" $(addprefix --ignore=tests/,browser conformance process) --ignore=workbench/tests/process --ignore=migrate/tests/process $(ARGS)

test-long: $(VENV)/.dev ## run the generated tests with sixteen times as many examples as `make test`
	@DOCGRAPH_TEST_EXAMPLES=many $(BIN)/pytest -n $(TESTERS) --durations 20 -m hypothesis $(ARGS)

test-repeat: $(VENV)/.dev ## run every test file 20 times in random order, and continue an interrupted run (ARGS="--times 5 tests/http")
	@$(BIN)/python tools/repeat.py $(ARGS)

test-pythons: ## run the tests with every Python that is here (PYTHONS="..." or ONLY=oldest|newest|ends)
	@$(PYTHON) tools/pythons.py --only $(or $(ONLY),all) $(PYTHONS)

nightly: ## run everything, without a limit of time: both tiers with every Python, tests/http by ASGI, suites of others, drills, mutations
	@$(MAKE) --no-print-directory test-pythons
	@DOCGRAPH_TEST_ASGI=1 $(MAKE) --no-print-directory test ARGS=tests/http
	@$(MAKE) --no-print-directory conformance drill drill-long drill-mutations

conformance: $(VENV)/.dev ## run the suites of others that take long, also to install (Node with npm, Python 2.7)
	@$(BIN)/pytest -q -rs -p no:randomly $(sort $(wildcard tests/conformance/conformance_*.py))

# In parts, so that an interrupted run continues with the next part. DOCGRAPH_NATIVE=off and ARGS="-m json" add what
# only the Python lane runs, where the native lane is installed.
PARTS ?= tests/unit tests/properties $(patsubst %/,%,$(sort $(dir $(wildcard tests/http/*/test_*.py)))) tests/process tests/docs tests/conformance tests/browser $(wildcard */tests)
coverage: $(VENV)/.dev ## measure branch coverage in parts, servers and commands included (PARTS="tests/unit"; REPORT="--include=*/access/*")
	@mkdir -p build/coverage; status=0; for part in $(PARTS); do \
		finished=build/coverage/$${part//\//-}$(DOCGRAPH_NATIVE).finished; test -e $$finished && continue; echo "$$part"; \
		DOCGRAPH_TEST_SECONDS=14400 $(BIN)/coverage run -m pytest -q -o timeout=3000 -n $(TESTERS) $$part $(ARGS) || status=$$?; \
		$(BIN)/coverage combine --quiet --append || exit; touch $$finished; done; \
		$(BIN)/coverage report $(REPORT) && exit $$status

drill-mutations: $(VENV)/.dev ## change the source in 400 places: a test has to fail for 9 of 10 (ARGS="--count 40 --only access")
	@test -e build/mutations/map/.coverage || $(BIN)/python -m tools.mutations map --testers $(TESTERS)
	@$(BIN)/python -m tools.mutations run $(ARGS)

# Eight times as fast is a machine that is eight times as slow: every limit of time is an eighth of itself.
FAKETIME_LIBRARY := $(firstword $(wildcard /usr/lib/*/faketime/libfaketimeMT.so.1))
drill-moments: $(VENV)/.dev ## run the tests with caches that are stale all the time, and with a fast clock (Debian: faketime, SPEED=8)
	@DOCGRAPH_TEST_SECONDS=100000 DOCGRAPH_TEST_RESTLESS=1 $(BIN)/pytest -q -n $(TESTERS) $(or $(ARGS),tests/http)
	@test -n "$(FAKETIME_LIBRARY)" || { echo "no fast clock: apt-get install faketime"; exit 1; }
	@DOCGRAPH_TEST_SECONDS=100000 LD_PRELOAD=$(FAKETIME_LIBRARY) FAKETIME="+0 x$(or $(SPEED),8)" \
		$(BIN)/pytest -q -n $(TESTERS) $(or $(ARGS),tests/http)

drill-bare: ## run `make run` and `make test` in a minimal Debian 12 (root, debootstrap)
	@$(PYTHON) tools/drill_bare.py $(ARGS)

drill-container: ## carry out the Containerfile in a minimal Debian 12, read-only and as its user (ARGS=embedded)
	@$(PYTHON) -m tools.drill_container $(ARGS)

drill-restheart: $(VENV)/.dev ## the same requests to RESTHeart and docgraph after a migration (RESTHEART_HOME=directory of restheart.jar, Java)
	@$(BIN)/pytest -q -s -p no:randomly migrate/tests/drill_restheart.py

drill-slow-upload: $(VENV)/.dev ## attack a server with slow uploads (SLOW_UPLOADS=1000 SECONDS=20)
	@$(BIN)/pytest -q -s -p no:randomly tests/drills/drill_slow_upload.py

drill-browser: $(VENV)/.browser $(VENV)/.console ## try the pages in a real browser (Debian: installs chromium, as root)
	@command -v chromium-headless-shell chromium chromium-browser google-chrome-stable google-chrome >/dev/null \
		|| apt-get install -y --no-install-recommends chromium-headless-shell \
		|| apt-get install -y --no-install-recommends chromium
	@$(BIN)/pytest -q -p no:randomly tests/process/test_chat_browser.py tests/browser
	@DOCGRAPH_TEST_SLOW_ANSWERS=2000 $(BIN)/pytest -q -p no:randomly -n 3 tests/browser # each answer comes late

$(VENV)/.browser: $(VENV)/.dev pyproject.toml constraints.txt
	@echo "installing what drives the browser"
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[embedded,mcp,otel,dev,browser]' $(PACKAGES)
	@touch $@

LONG_DRILLS := $(addprefix tests/drills/drill_,memory.py set_faults.py soak.py definitions.py many_listeners.py people.py rolling.py)
# It needs a RESTHeart of yours.

drill: $(VENV)/.dev ## make things fail under load, and measure (make drill-database-lost for one)
	@$(BIN)/pytest -q -s -p no:randomly $(filter-out $(LONG_DRILLS),$(sort $(wildcard tests/drills/drill_*.py)))

drill-long: $(VENV)/.dev ## the drills that take longer: memory, a set of three behind relays, a lasting load, many listeners, thousands of people, a rolling upgrade, the native lane
	@$(BIN)/pytest -q -s -p no:randomly $(LONG_DRILLS)
	@if command -v cargo >/dev/null; then $(MAKE) --no-print-directory drill-native; else echo "cargo is not installed: the native lane is left out"; fi

# The drills of one file are named by their ids, too: make drill-f08.
DRILL_IDS := $(sort $(shell grep -ohE 'def test_[fl][0-9]+_' tests/drills/drill_*.py | grep -oE '[fl][0-9]+'))

$(addprefix drill-,$(DRILL_IDS)): drill-%: $(VENV)/.dev
	@$(BIN)/pytest -q -s -p no:randomly -k test_$*_ $(sort $(wildcard tests/drills/drill_*.py))

drill-%: $(VENV)/.dev
	@$(BIN)/pytest -q -s -p no:randomly tests/drills/drill_$(subst -,_,$*).py

# With the libraries of the bench, since its types are checked, too.
check: $(VENV)/.bench ## format, lint, types, layer rule, size budgets, circular imports, glossary, language
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python tools/budgets.py
	@$(BIN)/python tools/circles.py
	@$(BIN)/python tools/glossary.py
	@$(BIN)/python tools/language.py

format: $(VENV)/.dev ## format the code and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: $(VENV)/.docs ## build the site of the documentation in build/docs, and check its links
	@$(BIN)/python tools/site.py

$(VENV)/.docs: $(VENV)/.run pyproject.toml constraints.txt
	@echo "installing what builds the site"
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[embedded,docs]' $(PACKAGES)
	@touch $@

pictures: $(VENV)/.browser $(VENV)/.console ## take the pictures of the console for the pages (Playwright, Chromium)
	@$(BIN)/python -m tools.pictures

tour: $(VENV)/.run ## write the tour of the README from what the commands print
	@$(BIN)/python -m tools.tour

native: $(VENV)/.run ## build and install the native lane, an extension in Rust (cargo)
	@command -v cargo >/dev/null || { echo "the native lane needs cargo (Rust 1.85 or newer); everything works without it"; exit 1; }
	@$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --force-reinstall ./native
	@DOCGRAPH_NATIVE= $(BIN)/python -c 'from docgraph.runtime.native import explain_lane, name_lane; print("lane:", explain_lane()); exit(name_lane() != "native")'

drill-native: native $(VENV)/.dev ## fuzz the native lane for 10 minutes, then run the HTTP tests with it (FUZZ_SECONDS=20 for each of three)
	@cd native && FUZZ_SECONDS=$(or $(FUZZ_SECONDS),200) cargo test --quiet --release --no-default-features --test fuzz -- --test-threads=1
	@$(BIN)/pytest -q -n $(TESTERS) tests/unit tests/properties tests/http $(ARGS)

bench: $(VENV)/.bench ## measure docgraph beside a hand-written twin (ARGS="--only W1 W3")
	@$(BIN)/python -m bench.run $(ARGS)

$(VENV)/.bench: $(VENV)/.dev pyproject.toml constraints.txt
	@echo "installing what the bench measures us against"
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[embedded,mcp,otel,dev,bench]' $(PACKAGES)
	@touch $@

bench-rivals: $(VENV)/.bench ## measure docgraph beside other GraphQL servers (Node 20.19+ for two of them)
	@$(BIN)/python -m bench.rivals.run $(ARGS)

$(VENV)/.dist: $(VENV)/.created constraints.txt
	@echo "installing what builds packages"
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt hatchling packaging
	@touch $@

dist: $(VENV)/.run $(VENV)/.dist ## build the packages in dist: wheel, source, what they are made of (CycloneDX), and the native lane where cargo is
	@rm -rf dist
	@$(BIN)/python -m tools.dist $(ARGS)

chart-check: $(VENV)/.dev ## render the Helm chart, and hold it against Kubernetes (helm, or one from PyPI)
	@$(BIN)/python -m tools.chart $(ARGS)

dist-check: dist ## install the wheel in a clean environment, and run it from an empty directory
	@$(BIN)/python tools/dist_check.py $(ARGS)

clean: ## remove what the targets above made (the data directory stays)
	@rm -rf $(VENV) .venv-*/ .tools native/target build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis bench/rivals/*/node_modules tests/conformance/*/node_modules console/node_modules src/docgraph/console/static*
