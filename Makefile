# The commands of this tree; `make help` lists them.
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
DEMO_VENV := build/demo-venv

# The sources of the wheel.
PACKAGED := pyproject.toml LICENSE README.md reference/python/toyspec schemas spec conformance

# The tests that go through the seam of the engines: plain Python runs them with all random examples.
ENGINE_TESTS := test_checker.py test_checker_properties.py test_cli_check.py test_cli_follow.py test_cli_formats.py test_cli_main.py \
	test_cli_runs.py test_corpus.py test_engine.py test_gzip_streams.py test_looks.py test_run_ends.py test_runs_listing.py

# How many mutants of the oracle CI asks.
CI_MUTANTS := 300

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

# The files that `make generate` may write.
GENERATED := schemas spec reference docs mkdocs.yml

# Hundreds of short Python processes run: each would compile what it imports once more.
unexport PYTHONDONTWRITEBYTECODE

export NO_MKDOCS_2_WARNING := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

##@ Start here

.PHONY: demo
demo: $(DEMO_VENV)/installed-$(PYTHON_VERSION) ## show complete, torn, damaged and live runs
	@if cargo --version >/dev/null 2>&1; then $(MAKE) -s $(DEMO_VENV)/engine-installed; fi
	@$(DEMO_VENV)/bin/python reference/python/demo/show.py

.PHONY: test
test: $(DEV) ## check a change: drift, lint, docs, languages, the tests that find most
	@TOYSPEC_EXAMPLES=quick MAKE='$(MAKE)' $(BIN)/python .ci/checks.py drift lint docs $(LANGUAGES) engine quick-tests

.PHONY: test-all
test-all: $(DEV) ## run every check: those of `make test`, the slow tests, the browser, the wheel
	@MAKE='$(MAKE)' $(BIN)/python .ci/checks.py drift lint docs $(LANGUAGES) engine wheel-test pytest plain-tests

# The two lanes use two cores. What writes the same files is in one lane: the programs of the other languages are built
# before `conform` runs them, the site and the engine before the tests use them.
# To record which test executes what takes seconds for a few files of tests; for all it runs the whole suite, traced.
CI_PLACES := --only reading/attempts --only reading/placing --tests test_attempts --tests test_placing --tests test_viewer_rows

.PHONY: ci
ci: $(DEV) ## run what CI runs, in two lanes, and print what each part took (at most 45 minutes on two idle cores)
	@MAKE='$(MAKE)' $(BIN)/python .ci/checks.py --budget 45 --limit 80 drift lint docs \
		--lane viewer engine pytest plain-tests wheel-test \
		--lane $(filter-out viewer,$(LANGUAGES)) conform 'mutants SAMPLE=$(CI_MUTANTS)' "mutants-python SAMPLE=20 LEAST=60 ARGS='$(CI_PLACES)'" outsider "packages-test NAMES='c gem go npm opam vscode'" interop 'chaos MINUTES=3' fresh

# Slow for what they find: builds and services of other projects, figures, and the same tests once more.
.PHONY: everything
everything: $(DEV) ## run what CI runs and what it leaves out: whole suites twice, real stores, Ray, originals, figures (hours)
	@TOYSPEC_EXAMPLES=random MAKE='$(MAKE)' $(BIN)/python .ci/checks.py drift lint docs $(LANGUAGES) engine pytest 'plain-tests WHOLE=1' 'wheel-test WHOLE=1' \
		'fuzz SECONDS=600' 'chaos MINUTES=60' conform 'mutants SAMPLE=600' 'mutants-python LEAST=60' outsider packages-test originals interop interop-stores interop-bridges interop-ray "scale ARGS='--most 1000 --model 300'" fresh

##@ While working

.PHONY: pytest
pytest: $(DEV) ## run the tests; `make pytest ARGS='-k reader'` selects
	@$(BIN)/python -m pytest $(ARGS)

.PHONY: stress
stress: $(DEV) ## run the tests of processes, locks and time many times beside a load of 10; `make stress TESTS=… TIMES=20 SHARE=3/10`
	@$(BIN)/python .ci/stress.py --times $(or $(TIMES),20) $(if $(SHARE),--share $(SHARE)) $(if $(LOAD),--load $(LOAD)) $(TESTS) $(ARGS)

.PHONY: faults
faults: $(DEV) ## inject failures into writers and readers for minutes, and print tables; `make faults PAGE=docs/explanation/durability.md`
	@$(BIN)/python -m conformance.faults --long $(if $(PAGE),--page '$(PAGE)')
	@TOYSPEC_FAULTS=long TOYSPEC_FAULTS_PAGE='$(PAGE)' $(BIN)/python -m pytest -q reference/python/tests/faults $(ARGS)

.PHONY: chaos
chaos: $(DEV) ## let writers, syncers, followers, viewers and a store fail together; `make chaos MINUTES=60 SEED=1`
	@PYTHONPATH=reference/python/tests $(BIN)/python -m chaos --minutes $(or $(MINUTES),3) $(if $(SEED),--seed $(SEED)) $(if $(PAGE),--page '$(PAGE)')

.PHONY: fuzz
fuzz: $(DEV) ## feed mutated streams to every implementation; `make fuzz SECONDS=3600`
	@PYTHONPATH=.:reference/python/tests TOYSPEC_FAULTS_PAGE='$(PAGE)' $(BIN)/python -m faults.fuzz $(or $(SECONDS),600)

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
page: ## build the checker that runs in the site's page, and the viewer as one file
	@$(call with_tool,npm --version,apt install npm · brew install node · winget install OpenJS.NodeJS,\
		$(MAKE) -s $(CHECKER_PAGE))
	@[ -f $(CHECKER_PAGE) ] || { mkdir -p $(dir $(CHECKER_PAGE)) && cp reference/typescript/page/left-out.js $(CHECKER_PAGE) && \
		for name in check viewer; do cp reference/typescript/page/left-out.html docs/assets/checker/toyspec-$$name.html; done && \
		touch -t 200001010000 $(CHECKER_PAGE); }

$(CHECKER_PAGE): $(wildcard $(addprefix reference/typescript/,package.json tsconfig.json src/*.ts page/*) $(addprefix reference/viewer/src/,* */*))
	@cd reference/typescript && { [ -d node_modules/minisearch ] || npm install --silent --no-audit --no-fund; } && npm run --silent page
	@touch $@

.PHONY: screenshots
screenshots: $(DEV) ## take screenshots of the site and the viewer, wide and narrow, light and dark; `make screenshots ARGS='start viewer'`
	@PYTHONPATH=reference/python/tests $(BIN)/python -m browser.screenshots $(ARGS)

.PHONY: lighthouse
lighthouse: $(DEV) build/lighthouse/installed ## let Lighthouse measure the start page, beside its goal; `make lighthouse TIMES=5` (installs 110 MB)
	@PYTHONPATH=reference/python/tests $(BIN)/python -m browser.lighthouse $(TIMES)

build/lighthouse/installed:
	@mkdir -p $(@D) && npm install --silent --no-audit --no-fund --prefix $(@D) lighthouse@12
	@touch $@

.PHONY: viewer-picture
viewer-picture: $(DEV) ## take the picture of the viewer that the README and the start page show
	@PYTHONPATH=reference/python/tests $(BIN)/python -m browser.viewer_picture

INTEROP := reference/python/interop

.PHONY: interop
interop: build/interop-loggers/installed-$(PYTHON_VERSION) build/interop-mlflow/installed-$(PYTHON_VERSION) build/interop-aim/installed-$(PYTHON_VERSION) ## import from and export to the real TensorBoard, W&B, MLflow and others
	@for name in loggers mlflow aim; do (cd $(INTEROP) && PYTHONPATH=.. ../../../build/interop-$$name/bin/python -m pytest -q $(ARGS)) || exit 1; done

# Environments of their own: these packages are many, and some exclude each other.
build/interop-%/installed-$(PYTHON_VERSION): $(INTEROP)/requirements-%.txt | python-is-there
	@echo "installing what is imported from and exported to into $(@D) (Python $(PYTHON_VERSION))"
	@$(PYTHON) -m venv --clear $(@D)
	@$(@D)/bin/python -m pip install --quiet -r $< msgspec jsonschema shtab pytest hypothesis
	@touch $@

BENCH := reference/python/bench
BENCH_OPTIONS = $(if $(ROWS),--rows $(ROWS)) $(if $(PUBLISH),--publish) $(ARGS)

.PHONY: bench
bench: build/bench-usual/installed-$(PYTHON_VERSION) build/bench-node/installed bench-rust ## measure everything beside its goal; `make bench ROWS=1000000`
	@$(<D)/bin/python $(BENCH) $(BENCH_OPTIONS)
	@$(MAKE) bench-engine

.PHONY: bench-engine
bench-engine: build/bench-usual/installed-$(PYTHON_VERSION) bench-rust ## measure checking with both engines beside its goals; needs an idle machine
	@if cargo --version >/dev/null 2>&1; then $(MAKE) -s $(<D)/engine-installed; fi
	@$(<D)/bin/python $(BENCH) --part engine $(BENCH_OPTIONS)

.PHONY: scale
scale: $(DEV) ## measure many runs on disk and in a store, and predict many workers (4 minutes); `make scale ARGS='--most 100000 --publish'`
	@$(BIN)/python $(BENCH)/catalog_scale.py $(ARGS)

.PHONY: scale-limits
scale-limits: $(DEV) ## measure a catalog beside listing and reading the same files; `make scale-limits ARGS='100000 --publish'`
	@$(BIN)/python $(BENCH)/catalog_limits.py $(ARGS)

.PHONY: bench-all
bench-all: bench bench-loggers ## measure the loggers of other tools too

.PHONY: bench-loggers
bench-loggers: build/bench-loggers/installed-$(PYTHON_VERSION) ## measure a logged step in other tools, and what a kill loses (installs 4 GB)
	@$(<D)/bin/python $(BENCH) --part loggers $(BENCH_OPTIONS)

.PHONY: beside-tensorboard
beside-tensorboard: $(DEV) ## show the same runs in TensorBoard and in the viewer; `make beside-tensorboard TENSORBOARD=path/to/bin/tensorboard`
	@PYTHONPATH=reference/python/tests:reference/python/bench $(BIN)/python -m beside_tensorboard '$(or $(TENSORBOARD),tensorboard)'

.PHONY: bench-viewer
bench-viewer: $(DEV) ## measure the viewer in a browser, beside its goals (10 minutes); `make bench-viewer ROWS=20000`
	@if cargo --version >/dev/null 2>&1; then $(MAKE) -s $(ENGINE); fi
	@$(call with_tool,npm --version,apt install npm · brew install node · winget install OpenJS.NodeJS,\
		cd reference/viewer && npm install --silent --no-audit --no-fund && npx tsc)
	@PYTHONPATH=reference/python/tests $(BIN)/python $(BENCH) --part viewer $(BENCH_OPTIONS)
	@$(MAKE) -s bench-pixels

.PHONY: bench-pixels
bench-pixels: $(DEV) ## count the spikes, NaN, gaps and resumptions that the viewer paints, of 1 to 1,000 runs (10 minutes); `make bench-pixels ROWS=10`
	@PYTHONPATH=reference/python/tests $(BIN)/python $(BENCH) --part pixels $(BENCH_OPTIONS)

# The curves are trained once, 300,000 steps on two cores in some minutes, and kept in build/.
HEALTH_CURVES := build/bench-health

.PHONY: bench-health
bench-health: $(DEV) ## measure what health rules find in trained curves, their false alarms and their cost; `make bench-health ARGS='--part tuned'`
	@export OMP_NUM_THREADS=1; for part in 'tuned 16 3000' 'held-out 60 5000'; do \
		for first in 0 1; do $(BIN)/python $(BENCH)/health_curves.py $(HEALTH_CURVES) $$part $$first 2 & done; wait; done
	@$(BIN)/python $(BENCH)/health_alarms.py $(HEALTH_CURVES) --samples reference/python/tests/dialects --samples docs/assets/framework-runs $(ARGS)

# What cannot be had on this machine is named, here and among the figures.
build/bench-%/installed-$(PYTHON_VERSION): $(BENCH)/requirements-%.txt pyproject.toml | python-is-there
	@echo "installing what is measured into $(@D) (Python $(PYTHON_VERSION))"
	@$(PYTHON) -m venv --clear $(@D)
	@$(@D)/bin/python -m pip install --quiet --editable '.[tracker]'
	@while read peer; do $(@D)/bin/python -m pip install --quiet "$$peer" || echo "left out: $$peer"; done < $<
	@touch $@

build/bench-node/installed:
	@mkdir -p $(@D)
	@npm install --silent --no-audit --no-fund --prefix $(@D) ajv || echo "left out: ajv (apt install npm · brew install node)"
	@touch $@

.PHONY: bench-rust
bench-rust:
	@cd reference/rust && cargo build --release --quiet || echo "left out: toyspec-rs (apt install cargo · brew install rust)"

##@ Single checks

.PHONY: quick-tests
quick-tests: $(DEV) ## run the tests that take no more than a moment each
	@TOYSPEC_EXAMPLES=quick $(BIN)/python -m pytest -m 'not slow' $(ARGS)
	@echo 'not run: slow tests (browser, faults, fuzzing, training, losses, memory, mutants, the oracle beyond the core, links of the site,'
	@echo 'the conformance tools with real programs, long guides, first programs of the other languages, flipped bytes of other formats,'
	@echo 'real object stores, programs that hang, are killed, lose their terminal or their output, credentials in messages) and most'
	@echo 'random examples of each property; `make test-all` runs them too'

.PHONY: plain-tests
plain-tests: $(DEV) ## run the tests that depend on the engine with plain Python; `make plain-tests WHOLE=1` runs all but the slow ones
	@cd reference/python/tests && TOYSPEC_ENGINE=python ../../../$(BIN)/python -m pytest -q -m 'not slow' $(ENGINE_TESTS)
	@if [ -n '$(WHOLE)' ]; then cd reference/python/tests && TOYSPEC_EXAMPLES=quick TOYSPEC_ENGINE=python \
		../../../$(BIN)/python -m pytest -q -m 'not slow' $(addprefix --ignore=,$(ENGINE_TESTS)) .; fi

.PHONY: fresh
fresh: ## run the README's two commands in a minimal Debian 13 (root, Linux, debootstrap)
	@.ci/fresh

.PHONY: drift
drift: $(DEV) ## check that generated files match the schemas
	@cd reference && ../$(BIN)/python -m codegen --check || \
		{ echo "stale files: run \`make generate\` and commit what it writes" >&2; exit 1; }
ifdef CI
	@if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then \
		$(MAKE) generate && git diff --exit-code -- $(GENERATED) || \
			{ echo "generated files differ from what is committed" >&2; exit 1; }; \
	else echo "no git tree: the comparison with what is committed was left out"; fi
endif

.PHONY: lint
lint: $(DEV) ## check style, types and layers
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --check --quiet . || { echo "format: run \`make format\`" >&2; exit 1; }
	@$(BIN)/mypy
	@PYTHONPATH=reference:. $(BIN)/lint-imports --no-cache --no-logo

.PHONY: wheel-test
wheel-test: $(DEV) ## build the wheel and test it away from the source tree; `make wheel-test WHOLE=1` runs all tests but the slow ones
	@PYTHON='$(BIN)/python' WHOLE='$(WHOLE)' sh .ci/wheel-test

##@ Conformance

.PHONY: conform
conform: $(DEV) ## test every implementation that this machine can build, and the corpus with mutants
	@$(BIN)/python -m conformance registered --page docs/reference/conformance.md --proven conformance/proven.json
	@$(BIN)/python -m conformance registered --no-build --quiet --core --mode oneshot --role writer --role summarizer
	@$(BIN)/python -m conformance interop --no-build --page docs/reference/conformance.md
	@$(BIN)/python -m conformance.locks --no-build --page docs/reference/conformance.md
	@$(BIN)/python -m conformance.faults
	@$(BIN)/python -m conformance kill --page docs/reference/conformance.md

.PHONY: published
published: $(DEV) ## make the table of implementations that publish their reports
	@$(BIN)/python -m conformance matrix conformance/published/*.json --page docs/reference/conformance.md

.PHONY: locks
locks: $(DEV) ## let each writer hold a stream while every other writer tries to write to it
	@$(BIN)/python -m conformance.locks $(ARGS)

OUTSIDER := build/outsider
OUTSIDER_ADAPTER := java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -cp $(OUTSIDER) Adapter

.PHONY: outsider
outsider: $(DEV) ## test the Java emitter that was written from the published pages only; `make outsider ARGS='doctor'`
	@$(call with_tool,javac -version && java -version,apt install default-jdk-headless · brew install openjdk · winget install Microsoft.OpenJDK.21,\
		mkdir -p $(OUTSIDER) && cp schemas/bundled/*-v1.json $(OUTSIDER) && \
		javac -Xlint:all -Werror -d $(OUTSIDER) conformance/outsider/*.java && \
		$(BIN)/python -m conformance --revision 1.2 $(ARGS) --adapter '$(OUTSIDER_ADAPTER)')

.PHONY: mutants
mutants: $(DEV) ## mutate the oracle, and demand that the corpus catches every mutant; `make mutants SAMPLE=300`
	@$(BIN)/python -m conformance.mutation $(if $(SAMPLE),--sample $(SAMPLE),--page docs/reference/conformance.md) $(ARGS)

.PHONY: mutants-python
mutants-python: $(DEV) ## mutate the Python package at random places, the commit decides which; `make mutants-python SAMPLE=300`
	@$(BIN)/python -m conformance.mutation.python $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(LEAST),--least $(LEAST)) $(ARGS)

.PHONY: mutants-rust
mutants-rust: $(DEV) ## mutate the Rust crate with cargo-mutants, a fixed sample (most of an hour); `make mutants-rust ARGS='--sample 600'`
	@$(call with_tool,cargo mutants --version,cargo install cargo-mutants --locked,\
		$(BIN)/python -m conformance.mutation.rust --page docs/reference/conformance.md $(ARGS))

# Real programs of other projects: some GB, never needed to use toyspec.
STORES := build/interop-stores

.PHONY: interop-stores
interop-stores: $(DEV) $(STORES)/bin/versitygw $(STORES)/node_modules/.bin/azurite-blob ## read from and write to real object stores on loopback (S3 and Azure; installs 270 MB)
	@TOYSPEC_STORES=$(CURDIR)/$(STORES)/bin:$(CURDIR)/$(STORES)/node_modules/.bin \
		$(BIN)/python -m pytest -q reference/python/tests/stores/test_places_servers.py $(ARGS)

$(STORES)/bin/versitygw:
	@echo "building versitygw into $(@D)"
	@GOBIN=$(CURDIR)/$(@D) go install github.com/versity/versitygw/cmd/versitygw@v1

$(STORES)/node_modules/.bin/azurite-blob:
	@echo "installing Azurite into $(STORES)"
	@npm install --silent --no-fund --no-audit --no-save --no-package-lock --prefix $(STORES) azurite@3

BRIDGES := build/interop-bridges

.PHONY: interop-bridges
interop-bridges: $(DEV) $(BRIDGES)/toyspec-test-collector ## send runs to a real OpenTelemetry collector and to Prometheus on loopback
	@$(call with_tool,prometheus --version,apt install prometheus · brew install prometheus,\
		TOYSPEC_BRIDGES=$(CURDIR)/$(BRIDGES) $(BIN)/python -m pytest -q reference/python/tests/test_bridges_servers.py $(ARGS))

$(BRIDGES)/toyspec-test-collector: $(wildcard $(INTEROP)/collector/*)
	@echo "building a collector of OpenTelemetry into $(BRIDGES) (minutes)"
	@cd $(INTEROP)/collector && go build -o $(CURDIR)/$@ .

.PHONY: journeys
journeys: $(DEV) ## play training programs against the writer, and find every value again; `make journeys MINUTES=30`
	@end=$$(($$(date +%s) + 60 * $(or $(MINUTES),10))); \
	while [ $$(date +%s) -lt $$end ]; do \
		TOYSPEC_EXAMPLES=random TOYSPEC_JOURNEYS=300 $(BIN)/python -m pytest -q -p no:cacheprovider \
			reference/python/tests/test_journeys.py || exit 1; \
	done

.PHONY: interop-frameworks
interop-frameworks: build/frameworks/installed-$(PYTHON_VERSION) ## run a real training in each framework, also killed and resumed (installs 5 GB)
	@PYTHONPATH=$(CURDIR)/reference/python $(<D)/bin/python -m pytest -q -c /dev/null --rootdir reference/python/interop -p no:cacheprovider \
		reference/python/interop/test_frameworks.py $(ARGS)

# Ray is 80 MB: never needed to use toyspec.
.PHONY: interop-ray
interop-ray: build/interop-ray/installed-$(PYTHON_VERSION) ## check, catalog and import runs on a Ray cluster of several nodes, some of which are killed
	@PYTHONPATH=$(CURDIR)/reference/python $(<D)/bin/python -m pytest -q -c /dev/null --rootdir $(INTEROP) -p no:cacheprovider \
		$(INTEROP)/test_ray.py $(ARGS)

.PHONY: bench-ray
bench-ray: build/interop-ray/installed-$(PYTHON_VERSION) ## measure a Ray cluster of this machine beside processes, and what lost nodes and memory cost; needs an idle machine
	@if cargo --version >/dev/null 2>&1; then $(MAKE) -s $(<D)/engine-installed; fi
	@PYTHONPATH=$(CURDIR)/reference/python:$(CURDIR)/$(BENCH):$(CURDIR)/reference/python/tests \
		$(<D)/bin/python $(BENCH)/ray_figures.py $(if $(PUBLISH),--publish) $(ARGS)

.PHONY: gallery
gallery: build/frameworks/installed-$(PYTHON_VERSION) ## train with each framework again, and keep the runs that the site offers
	@PYTHONPATH=$(CURDIR)/reference/python $(<D)/bin/python reference/python/interop/gallery.py $(ARGS)

build/frameworks/installed-$(PYTHON_VERSION): reference/python/interop/requirements-frameworks.txt pyproject.toml | python-is-there
	@echo "installing frameworks into $(@D) (Python $(PYTHON_VERSION), 5 GB)"
	@$(PYTHON) -m venv --clear $(@D)
	@$(@D)/bin/python -m pip install --quiet --editable '.[system]' pytest --requirement $<
	@touch $@

.PHONY: writer-faults
writer-faults: $(DEV) ## inject each failure into each writer; `make writer-faults ARGS='--only go --fault disk'`
	@$(BIN)/python -m conformance.faults $(ARGS)

##@ Other languages

.PHONY: languages
languages: $(LANGUAGES) ## test all of the following

.PHONY: engine
engine: $(DEV) ## build the compiled engine and install it into .venv
	@$(call with_tool,cargo --version,apt install cargo · brew install rust · winget install Rustlang.Rustup,\
		$(MAKE) -s $(ENGINE))

.PHONY: c
c: ## test the C library, with sanitizers
	@$(call with_tool,cc --version,apt install gcc · xcode-select --install · winget install LLVM.LLVM,\
		$(MAKE) -C reference/c test all)

.PHONY: go
go: ## lint and test the Go module
	@$(call with_tool,go version,apt install golang-go · brew install go · winget install GoLang.Go,\
		cd reference/go && gofmt -l . && test -z "$$(gofmt -l .)" && go vet ./... && go test ./...)

.PHONY: ocaml
ocaml: ## test the OCaml library
	@$(call with_tool,dune --version && test -e "$$(ocamlfind query yojson)/yojson.cmi",apt install ocaml-dune libyojson-ocaml-dev · opam install dune yojson,\
		cd reference/ocaml && dune build && dune test)

.PHONY: ruby
ruby: ## test the Ruby gem
	@$(call with_tool,ruby --version,apt install ruby · brew install ruby · winget install RubyInstallerTeam.Ruby.3.3,\
		ruby reference/ruby/test/test_toyspec.rb)

.PHONY: rust
rust: ## test the Rust crate
	@$(call with_tool,cargo --version,apt install cargo · brew install rust · winget install Rustlang.Rustup,\
		cd reference/rust && cargo build --release --quiet && cargo test --quiet)

.PHONY: originals
originals: $(DEV) ## compare with the programs that the formats come from (minutes: builds them), and write the table of the page
	@$(call with_tool,cargo --version,apt install cargo · brew install rust · winget install Rustlang.Rustup,\
		cd reference && out=$$(cargo run --quiet --manifest-path rust/originals/tokitai/Cargo.toml) && \
		echo "$$out" | ../$(BIN)/python -m codegen.originals)

.PHONY: typescript
typescript: ## test the TypeScript package
	@$(call with_tool,npm --version,apt install npm · brew install node · winget install OpenJS.NodeJS,\
		cd reference/typescript && npm install --silent --no-audit --no-fund && npm test --silent)

# What is built is committed, so that an installation needs no npm; in CI it must be what the sources give.
.PHONY: viewer
viewer: ## test the viewer, and build it into the Python package
	@$(call with_tool,npm --version,apt install npm · brew install node · winget install OpenJS.NodeJS,\
		cd reference/viewer && npm install --silent --no-audit --no-fund && npm test --silent && npm run --silent $(if $(CI),check,build))

.PHONY: vscode
vscode: ## test the extension of Visual Studio Code, whose editor is not run
	@$(call with_tool,npm --version,apt install npm · brew install node · winget install OpenJS.NodeJS,\
		cd reference/vscode && npm install --silent --no-audit --no-fund && npm test --silent)

# with_tool PROBE,HOW TO GET IT,COMMANDS: a missing tool is a failure in CI; elsewhere it is reported and left out.
define with_tool
if { $(1); } >/dev/null 2>&1; then $(3); \
else echo "left out: \`$(1)\` does not run ($(2))"; test -z "$(CI)"; fi
endef

##@ Release

PACKAGES_TOOL := PYTHONPATH=reference:reference/python/tests MAKE='$(MAKE)' $(BIN)/python .ci/packages.py

.PHONY: packages
packages: $(DEV) ## build every package into dist/: wheels, sdist, crate, npm, gem, opam, Go, C, vsix; `make packages NAMES='python go'`
	@$(PACKAGES_TOOL) build $(NAMES)

.PHONY: packages-test
packages-test: packages ## install each package into an empty environment, and run the program of its README there
	@$(PACKAGES_TOOL) test $(NAMES)

.PHONY: release-check
release-check: $(DEV) ## say what a release lacks: addresses, dates, pinned actions, what is done by hand
	@PYTHONPATH=reference $(BIN)/python .ci/release_check.py

# The help of each command as a page of the manual; argparse-manpage writes it.
.PHONY: man
man: $(DEV) ## write the manual page of toyspec into build/man/
	@mkdir -p build/man && $(BIN)/argparse-manpage --module toyspec.cli.commands --function full_parser \
		--project-name toyspec --prog toyspec --description 'check, show and compare training logs in JSON Lines' \
		--manual-title 'toyspec manual' --format single-commands-section --output build/man/toyspec.1
	@echo 'wrote build/man/toyspec.1; `man -l build/man/toyspec.1` shows it'

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
	@$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@rm -f $(VENV)/installed-* && touch $@

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
		$(DEMO_VENV)/bin/python -m pip install --quiet '.[train]' && \
		touch $@; fi
