# Each target makes its own .venv; nothing outside this folder is touched.
PYTHON ?= python3.11
VENV := .venv
EXPERIMENTS := line uci tuning tables rivals gaps survival targets rates rows starts decisions labels attribution pairs gradients mnist shift regularisation rotation co2 cartpole sentiment g2p transformers injected guarantee surrogate lora camvid
DATA :=
# Which tests `make test` runs; with none named, `make test MARKS=`, all of them.
MARKS := not slow
# What torch and its matrix library take on an old processor, and without AVX512 where this one has it, each in a process
# of its own that runs all the tests whose numbers come from these, but for those that no rounding can change: of
# compilers, of other libraries, of warnings, files, threads and refusals, and those of sequences in another order in memory.
WITH_AVX512 := $(shell grep -sm1 -o avx512f /proc/cpuinfo)
KERNELS := MKL_CBWR=COMPATIBLE//env:ATEN_CPU_CAPABILITY=default \
	$(WITH_AVX512:avx512f=MKL_CBWR=AVX2//env:ATEN_CPU_CAPABILITY=avx2)
NO_ROUNDING := compil or test_watch or test_pictures or test_threads or unsorted or time_first or guarantee or error or bad or refused
NUMERICAL := attribution functional layers metrics networks/test_conversion.py objective prediction tables/test_shapley.py
# The oldest versions in an environment of their own, and the tests that they run: all but those of what needs a newer torch.
LOWEST := .venv-lowest
LIBRARY := estimators functional layers metrics networks objective prediction tables training test_core_imports.py
BIN := $(VENV)/bin
SPHINX = $(BIN)/python -m sphinx --jobs auto --fail-on-warning --keep-going -d build/doctrees
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo explore house test tests test-slow test-kernels test-lowest release-check mutants lint types docs docs-quick docs-serve docs-links \
  docs-figures docs-tables \
  docs-trained docs-experiments benchmarks benchmark-prior benchmark-quick benchmark-training benchmark-fits benchmark-growth benchmark-segmentation \
  benchmark-prediction benchmark-rows benchmark-export benchmark-page benchmark-table benchmark-missing benchmark-scale benchmark-grid \
  benchmark-dropout benchmark-checkpointing benchmark-gpu benchmark-launches docs-evidence performance-page clean

help: ## Show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 26

demo: $(VENV)/installed-cli ## Fit, predict and report on real data; prints where to look
	$(BIN)/gumdrop demo

explore: $(VENV)/installed-dev ## Serve the interactive page on this machine
	$(BIN)/gumdrop explore

test: $(VENV)/installed-dev ## Run every check, at the same time: tests, doctests, lint and types
	$(MAKE) --jobs lint types tests

tests: $(VENV)/installed-dev
	$(BIN)/pytest -n auto --dist worksteal -m '$(MARKS)'

test-slow: $(VENV)/installed-dev ## Run the tests that `make test` leaves out since they take long
	$(BIN)/pytest -n auto --dist worksteal -m slow

test-kernels: $(VENV)/installed-dev ## Check the numerical part with the kernels of other processors
	$(BIN)/pytest -q --dist each $(KERNELS:%=--tx popen//env:%) -k 'not ($(NO_ROUNDING))' $(NUMERICAL:%=tests/%)

test-lowest: ## Run the tests of the library with the lowest versions that it allows, in an environment of their own
	test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	PIP_CONSTRAINT=constraints-lowest.txt $(LOWEST)/bin/pip install -q -e '.[cli,parquet,sequences,sweeps]' hypothesis polars pytest pytest-xdist
	$(LOWEST)/bin/pytest -q -n auto -W ignore::DeprecationWarning -k 'not compil and not export' $(LIBRARY:%=tests/%)

release-check: ## Build sdist and wheel, install the wheel into an empty environment, and run the demo there
	rm -rf build/release
	$(PYTHON) -m venv build/release/tools
	$(PYTHON) -m venv build/release/empty
	build/release/tools/bin/pip install -q build
	build/release/tools/bin/python -m build --outdir build/release/dist . > build/release/build.txt 2>&1 || { tail build/release/build.txt; exit 1; }
	build/release/empty/bin/pip install -q "$$(ls $(CURDIR)/build/release/dist/*.whl)[cli]"
	cd build/release && empty/bin/gumdrop demo --help > help.txt && OMP_NUM_THREADS=1 empty/bin/gumdrop demo

mutants: $(VENV)/installed-dev ## Plant slips in a copy of the library, drawn with SEED= (new each time), COUNT= of them, and name those that no test sees
	PYTHONPATH=tests $(BIN)/python -m mutants $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT)) $(if $(ROOMS),--rooms $(ROOMS)) $(MUTANTS)

lint: $(VENV)/installed-dev ## Check style and docstrings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-dev ## Check types
	$(BIN)/mypy

docs: $(VENV)/installed-docs ## Build the documentation site, its gallery included, into build/site
	OMP_NUM_THREADS=1 $(SPHINX) -b html docs build/site
	@if command -v node > /dev/null; then node docs/site/first_hits.js build/site; else echo "no node: the search is not tried"; fi

docs-quick: $(VENV)/installed-docs ## Build the site without running the examples of its gallery
	$(SPHINX) -b html -D plot_gallery=0 docs build/site

docs-serve: docs ## Build the site and serve it on this machine
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site 8000

docs-links: $(VENV)/installed-docs ## Check the links of the site that lead elsewhere; needs a network
	$(SPHINX) -b linkcheck -D plot_gallery=0 docs build/links

docs-figures: $(VENV)/installed-dev demo ## Write the figures and results of README and docs again
	PYTHONPATH=tests $(BIN)/python docs/figures/rooms.py
	PYTHONPATH=tests $(BIN)/python docs/figures/learned_rate.py
	$(BIN)/python docs/figures/forces.py
	$(BIN)/python docs/figures/landscape.py
	$(BIN)/python docs/figures/diagrams.py
	$(BIN)/python docs/figures/experiment_pictures.py
	PYTHONPATH=tests $(BIN)/python docs/figures/demo_picture.py
	PYTHONPATH=tests $(BIN)/python docs/figures/explore_pictures.py

house: $(VENV)/installed-dev ## Print how heavy the code is: what a use loads, lines of each room, arguments, names, pairs of files that share lines
	@$(BIN)/python tests/builders/house.py

docs-tables: $(VENV)/installed-dev ## Run the commands of docs/tables.md again, and write their answers into it
	$(BIN)/python docs/figures/tables_page.py

docs-trained: $(VENV)/installed-dev ## Train the models of docs/trained again
	$(BIN)/python docs/figures/trained_models.py

docs-experiments: $(VENV)/installed-dev ## Run the experiments of docs/experiments.md again, with DATA=DIR; writes docs/results
	for name in $(EXPERIMENTS); do \
	  $(BIN)/gumdrop reproduce $$name --resume $(if $(DATA),--data $(DATA)) && cp runs/$$name/results.json docs/results/$$name.json \
	    && cp $$(ls runs/$$name/*.png runs/$$name/*.gif 2> /dev/null) docs/results/ || exit 1; \
	done

benchmarks: $(VENV)/installed-dev ## Compare priors (some minutes); writes docs/results
	$(BIN)/python benchmarks/prior_strength.py

benchmark-prior: $(VENV)/installed-dev ## Try the default prior on many kinds of model (half an hour), with DATA=DIR on more; writes docs/results
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/default_prior.py $(if $(DATA),--data $(DATA))

benchmark-grid: $(VENV)/installed-dev ## Compare one network with learned rates and a grid with its refit, with DATA=DIR (ten minutes); writes docs/results
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/grid_cost.py --data $(DATA)

benchmark-export: $(VENV)/installed-dev ## Compare exported files with torch, in value and in time; writes docs/results
	$(BIN)/python benchmarks/export.py

benchmark-prediction: $(VENV)/installed-dev ## Time predictions (a quarter of an hour), with DATA=DIR also on trained networks; writes docs/results
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/prediction.py $(if $(DATA),--uci $(DATA)/uci)
	$(BIN)/python benchmarks/performance_page.py

benchmark-rows: $(VENV)/installed-dev ## Time predictions of a table model, of one row and of many (a minute); writes docs/results
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/table_predictions.py

benchmark-segmentation: $(VENV)/installed-dev ## Time a segmentation network, in training and over many draws; writes docs/results
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/segmentation.py

benchmark-quick: $(VENV)/installed-dev ## Print the ratios of docs/performance.md for this machine (five minutes); writes nothing
	@$(BIN)/python benchmarks/quick.py

benchmark-training: $(VENV)/installed-dev ## Measure what a training step keeps for its backward pass; writes docs/results
	$(BIN)/python benchmarks/kept.py
	$(BIN)/python benchmarks/performance_page.py

benchmark-launches: $(VENV)/installed-dev ## Count the operations of a training step (some seconds); writes docs/results
	$(BIN)/python benchmarks/launches.py
	$(BIN)/python benchmarks/performance_page.py

benchmark-fits: $(VENV)/installed-dev ## Time fits of tables with the default and with one choice changed (a quarter of an hour); writes docs/results
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/fits.py

benchmark-growth: $(VENV)/installed-dev ## Time steps, predictions and fits of growing size (half an hour; goes on where it was stopped; GROWTH="--most 10000000" for the longest tables); writes docs/results
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/growth.py $(GROWTH)

docs-evidence: $(VENV)/installed-dev ## Judge the findings, fill tables and quoted numbers from the results, and list results that are stale
	$(BIN)/python docs/figures/experiments_page.py

performance-page: $(VENV)/installed-dev ## Fill the tables of README.md and docs/performance.md, its notebook, method.md and tables.md from the results
	$(BIN)/python benchmarks/performance_page.py

benchmark-dropout: $(VENV)/installed-dev ## Learn the dropout of small models of timm and Hugging Face, and time their steps (five minutes); needs timm; writes docs/results
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/own_dropout.py
	$(BIN)/python benchmarks/performance_page.py

benchmark-checkpointing: $(VENV)/installed-dev ## Compare gradients of small models of Hugging Face with and without gradient checkpointing (a minute); writes docs/results
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/checkpointing.py
	$(BIN)/python benchmarks/performance_page.py

benchmark-gpu: $(VENV)/installed-dev ## Time steps and predictions on a GPU (four minutes); writes docs/results
	$(BIN)/python benchmarks/gpu.py

benchmark-scale: $(VENV)/installed-dev ## Time several processes, and measure the memory of a long table (some minutes)
	$(BIN)/python benchmarks/scale.py
	$(BIN)/python benchmarks/stream_memory.py
	$(BIN)/python benchmarks/predict_memory.py

benchmark-page: $(VENV)/installed-dev ## Measure steps and frames of the interactive page; needs Chromium
	PYTHONPATH=tests $(BIN)/python benchmarks/page_frames.py

benchmark-table: $(VENV)/installed-dev ## Time and memory of the estimator on a million rows against plain torch; writes docs/results
	$(BIN)/python benchmarks/large_table.py

benchmark-missing: $(VENV)/installed-dev ## Coverage where cells are missing or unseen (ten minutes), with DATA=DIR on more tables; writes docs/results
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/missing_cells.py $(if $(DATA),--data $(DATA))

clean: ## Remove what these targets made
	rm -rf $(VENV) $(LOWEST) demo build docs/generated .mypy_cache .ruff_cache .hypothesis

$(VENV)/installed-cli: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -e '.[cli]'
	touch $@

$(VENV)/installed-dev: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -e '.[dev]'
	touch $@ $(VENV)/installed-cli

$(VENV)/installed-docs: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -e '.[docs]'
	touch $@
