# What one types often; `.venv/bin/nox --list` lists everything else that can be run in this tree.
# Requires GNU make, a POSIX shell and Python 3.11 or later. The rest is installed into .venv and build/.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# The first Python that is new enough; `make test PYTHON=python3.13` asks for one by name.
ifndef PYTHON
PYTHON := $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,$(shell \
	$(name) -c 'import sys; sys.version_info >= (3, 11) and print("$(name)")' 2>/dev/null)) python3)
endif
PYTHON_VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)

VENV := .venv
BIN := $(VENV)/bin
SITE := site
DEV := $(VENV)/installed-$(PYTHON_VERSION)
DEV_ALL := $(VENV)/installed-all-$(PYTHON_VERSION)
DEMO_VENV := build/demo-venv

# The sources of the wheel.
PACKAGED := pyproject.toml LICENSE README.md reference/python/toyspec reference/emitters reference/skill schemas spec

# The other languages that this tree has.
LANGUAGES := $(filter c go ocaml ruby rust typescript viewer vscode,$(notdir $(wildcard reference/*)))

# The file that shows that the site's checker was built.
CHECKER_PAGE := docs/assets/checker/page/main.js

# What the wheel of the compiled engine is built from, and what shows that it is installed.
ENGINE_SOURCES := $(wildcard $(addprefix reference/engine/,*.toml *.pyi *.md src/*.rs)) reference/rust/Cargo.toml \
	$(shell find reference/rust/src -name '*.rs' ! -path '*/bin/*')
ENGINE_VENV := build/engine-venv
ENGINE_WHEEL := build/engine/built
ENGINE := $(VENV)/engine-installed

# Pages of the site outside docs/, and files that the build puts into docs/.
WRITTEN_ELSEWHERE := spec CHANGELOG.md CONTRIBUTING.md GOVERNANCE.md SECURITY.md $(wildcard conformance/*.md reference/*/README.md)
SITE_FILES := $(addprefix docs/,SHA256SUMS changelog.md conformance downloads.md governance.md implementations includes llms.txt llms-full.txt requirements \
	requirements.md schemas security.md spec)

# Hundreds of short Python processes run: each would compile what it imports once more.
unexport PYTHONDONTWRITEBYTECODE

export NO_MKDOCS_2_WARNING := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

CHECKS = MAKE='$(MAKE)' $(BIN)/python .ci/checks.py
NOX = $(BIN)/nox --no-error-on-missing-interpreters -s

##@ Start here

.PHONY: environment
environment: $(DEV) ## install what developing needs into .venv, the compiled engine too where cargo is
	@if cargo --version >/dev/null 2>&1; then $(MAKE) -s $(ENGINE); fi

.PHONY: demo
demo: $(DEMO_VENV)/installed-$(PYTHON_VERSION) ## show complete, torn, damaged and live runs
	@if cargo --version >/dev/null 2>&1; then $(MAKE) -s $(DEMO_VENV)/engine-installed; fi
	@$(DEMO_VENV)/bin/python reference/python/demo/show.py

.PHONY: test
test: $(DEV) ## check a change: drift, lint, the tests that find most, the docs and languages that it touches
	@TOYSPEC_EXAMPLES=quick $(CHECKS) --touched docs $(LANGUAGES) -- drift lint engine 'quick_tests $(ARGS)'

.PHONY: test-all
test-all: $(DEV_ALL) ## run every check: those of `make test`, the slow tests, the browser, the wheel
	@$(CHECKS) drift lint docs $(LANGUAGES) engine wheel_test pytest plain_tests

# The two lanes use two cores and end at about the same time. What writes the same files is in one lane: the programs of
# the other languages are built before `conform` and their part of the tests run them. The site, whose checker is made of
# the sources of both TypeScript packages, and the engine, which both lanes use, are built before.

.PHONY: ci
ci: $(DEV_ALL) ## run what CI runs, in two lanes, and print what each part took (at most 25 minutes on two idle cores)
	@$(CHECKS) --budget 25 --limit 80 drift docs engine \
		--lane lint viewer 'pytest ci python' fresh wheel_test plain_tests \
		--lane $(filter-out viewer,$(LANGUAGES)) 'pytest ci languages' conform 'packages_test c gem go npm opam vscode' outsider

# Slow for what they find: builds and services of other projects, figures, and the same tests once more.
.PHONY: everything
everything: $(DEV_ALL) ## run what CI runs and what it leaves out: whole suites twice, mutants, chaos, the packages of others, figures (hours)
	@TOYSPEC_EXAMPLES=random $(CHECKS) drift lint docs $(LANGUAGES) engine pytest 'plain_tests whole' 'wheel_test whole' \
		'fuzz 600' 'chaos --minutes 60' 'conform whole' 'mutants --sample 600' 'mutants_python --least 60' outsider packages_test originals interop interop_stores interop_ray 'scale --most 1000' fresh

##@ While working

.PHONY: pytest
pytest: $(DEV) ## run the tests; `make pytest ARGS='-k reader'` selects
	@$(BIN)/python -m pytest $(ARGS)

.PHONY: lint drift conform engine viewer bench packages
lint: $(DEV) ## check style, types and layers
drift: $(DEV) ## check that generated files match the schemas
conform: $(DEV) ## test every implementation that this machine can build, and the corpus with mutants
engine: $(DEV) ## build the compiled engine and install it into .venv
viewer: $(DEV) ## test the viewer, and build it into the Python package
bench: $(DEV) ## measure reading, checking and writing beside their goals; `make bench ARGS='--rows 1000000'`
packages: $(DEV) ## build every package into dist/: wheels, sdist, crate, npm, gem, opam, Go, C, vsix
lint drift conform engine viewer bench packages:
	@$(NOX) $@ -- $(ARGS)

.PHONY: generate
generate: $(DEV) ## generate everything that is made from schemas/
	@cd reference && ../$(BIN)/python -m codegen

.PHONY: format
format: $(DEV) ## format the code and apply automatic fixes
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

.PHONY: docs
docs: $(DEV) site-files page ## build the site into site/
	@$(BIN)/mkdocs build --strict --site-dir '$(SITE)'
	@PYTHONPATH=reference $(BIN)/python -m codegen.site.search_pages '$(SITE)'

.PHONY: docs-serve
docs-serve: $(DEV) site-files page ## serve the site on this machine only, and rebuild it on change
	@$(BIN)/mkdocs serve --dev-addr 127.0.0.1:8000 $(addprefix --watch ,$(WRITTEN_ELSEWHERE))

# What the site has and the tree does not keep: stubs of pages written elsewhere, requirements, downloads, llms.txt.
.PHONY: site-files
site-files: $(DEV)
	@PYTHONPATH=reference $(BIN)/python -m codegen.site

# The checker of docs/check.md and the viewer beside it. If they cannot be built, the pages report that.
.PHONY: page
page:
	@$(call with_tool,npm --version,apt install npm · brew install node · winget install OpenJS.NodeJS,\
		$(MAKE) -s $(CHECKER_PAGE))
	@[ -f $(CHECKER_PAGE) ] || { mkdir -p $(dir $(CHECKER_PAGE)) && cp reference/typescript/page/left-out.js $(CHECKER_PAGE) && \
		for name in check viewer; do cp reference/typescript/page/left-out.html docs/assets/checker/toyspec-$$name.html; done && \
		touch -t 200001010000 $(CHECKER_PAGE); }

$(CHECKER_PAGE): $(wildcard $(addprefix reference/typescript/,package.json tsconfig.json src/*.ts page/*) $(addprefix reference/viewer/src/,* */*))
	@cd reference/typescript && { [ -d node_modules/minisearch ] || npm install --silent --no-audit --no-fund; } && npm run --silent page
	@touch $@

.PHONY: clean
clean: ## remove everything that make has made
	@rm -rf $(SITE_FILES)
	@rm -rf $(VENV) build dist site demo-runs .hypothesis .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	@rm -rf $(addprefix reference/,c/build go/build ocaml/_build rust/target typescript/dist typescript/node_modules viewer/dist viewer/node_modules vscode/built vscode/node_modules engine/target)
	@rm -rf docs/assets/checker
	@find reference conformance -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help
help: ## show this list
	@awk 'BEGIN {FS = ":.*## "} \
		/^##@ / {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))
	@echo; echo 'The rest are sessions of nox: `.venv/bin/nox --list` lists them, `.venv/bin/nox -s fuzz` runs one.'

# with_tool PROBE,HOW TO GET IT,COMMANDS: a missing tool is a failure in CI; elsewhere it is reported and left out.
define with_tool
if { $(1); } >/dev/null 2>&1; then $(3); \
else echo "left out: \`$(1)\` does not run ($(2))"; test -z "$(CI)"; fi
endef

# Environments. A stamp names the Python it was made with, so that another one makes another environment.

.PHONY: python-is-there
python-is-there:
	@if [ -z '$(PYTHON_VERSION)' ]; then \
		echo "toyspec needs Python 3.11 or later, and '$(PYTHON)' does not run." >&2; \
		echo "Install it (apt install python3 python3-venv · brew install python · winget install Python.Python.3.13)," >&2; \
		echo "or name one: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; fi
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "toyspec needs Python 3.11 or later; '$(PYTHON)' is $(PYTHON_VERSION)." >&2; \
		echo "Install a newer one beside it and name it: make $(MAKECMDGOALS) PYTHON=python3.13" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "'$(PYTHON)' cannot make environments: its venv module is missing." >&2; \
		echo "Install it (Debian and Ubuntu: apt install python3-venv), or name another Python with PYTHON=" >&2; exit 1; }

$(DEV): pyproject.toml | python-is-there
	@echo "installing the development environment into $(VENV) (Python $(PYTHON_VERSION))"
	@$(BIN)/python -c 'import sys; sys.exit("%d.%d" % sys.version_info[:2] != "$(PYTHON_VERSION)")' 2>/dev/null \
		|| $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python .ci/install.py $(BIN)/python --editable '.[dev]'
	@rm -f $(VENV)/installed-* && touch $@

# Large packages that few tests need.
$(DEV_ALL): $(DEV)
	@echo "installing JAX, Playwright, W&B and others that few tests need into $(VENV)"
	@$(BIN)/python .ci/install.py $(BIN)/python --editable '.[dev,test-all]'
	@touch $@

.PHONY: always
always:

# Built once for each change of its sources, in an environment of its own.
$(ENGINE_WHEEL): $(ENGINE_SOURCES) | python-is-there
	@echo "building the compiled engine"
	@[ -x $(ENGINE_VENV)/bin/maturin ] || { $(PYTHON) -m venv --clear $(ENGINE_VENV) && \
		$(ENGINE_VENV)/bin/python -m pip install --quiet 'maturin>=1.8,<2'; }
	@rm -rf $(@D) && mkdir -p $(@D)
	@$(ENGINE_VENV)/bin/maturin build --quiet --release --manifest-path reference/engine/Cargo.toml --out $(@D)
	@touch $@

%/engine-installed: $(ENGINE_WHEEL)
	@$(@D)/bin/python -m pip install --quiet --force-reinstall --no-deps $(<D)/*.whl
	@touch $@

# Not editable, with the trainer's dependencies only, as a user would install it.
$(DEMO_VENV)/installed-$(PYTHON_VERSION): always | python-is-there
	@if [ ! -f $@ ] || [ -n "$$(find Makefile $(PACKAGED) -type f ! -path '*__pycache__*' -newer $@ | head -n 1)" ]; then \
		echo "installing toyspec into $(DEMO_VENV) (Python $(PYTHON_VERSION))" && \
		{ [ -f $@ ] || $(PYTHON) -m venv --clear $(DEMO_VENV); } && \
		$(DEMO_VENV)/bin/python .ci/install.py $(DEMO_VENV)/bin/python '.[train]' && \
		touch $@; fi
