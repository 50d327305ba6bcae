PYTHON ?= $(shell python3.11 -c 'import sys; print(sys.executable)' 2>/dev/null || command -v python3)
# The extra that installs the runtime: `make test-training` uses another one, in an environment of its own.
RUNTIME ?= cpu
VENV ?= .venv
RUN := $(VENV)/bin/python
# The index of PyTorch for CPUs; that of PyPI installs gigabytes for GPUs.
TORCH ?= https://download.pytorch.org/whl/cpu
PACKAGES := pyproject.toml constraints.txt
# Packages of ONNX Runtime overwrite each other, so the installed one is removed first.
FREE = $(RUN) -m pip uninstall --quiet --quiet --yes onnxruntime onnxruntime-gpu onnxruntime-training-cpu
# PIP_CONSTRAINT pins the build requirements of the package, too.
INSTALL = PIP_CONSTRAINT=constraints.txt $(RUN) -m pip install --quiet --disable-pip-version-check --editable

.PHONY: demo web test test-core test-training test-cuda test-models test-torch lint bench bench-eager bench-peers bench-export bench-ranks \
	compare-models stubs pages docs site gallery gallery-torch dist fuzz neighbours mindspore-names clean

demo: $(VENV)/.installed-demo
	$(RUN) examples/digits.py

# The first line takes half a second if a browser is installed.
test: $(VENV)/.installed-test
	$(RUN) -m tests.browser.install
	$(RUN) -m tests.bundles.install
	$(RUN) -m pytest -q --numprocesses auto --maxprocesses 4 --dist worksteal

# The core packages, in less than a minute: fewer random examples, and without the tests that take seconds.
test-core: $(VENV)/.installed-test
	$(RUN) -m pytest -q --numprocesses auto --maxprocesses 4 --dist worksteal --hypothesis-profile quick \
		-m "not slow" $(addprefix tests/,ir primitives passes trace backends)

# The pages do not depend on the runtime.
test-training:
	GRAPHLS_BROWSER=none $(MAKE) test VENV=.venv-training RUNTIME=training

# On a machine with a GPU: checks of steps, timings, and the suite with every step on it. It writes cuda_report.txt.
test-cuda:
	$(MAKE) .venv-cuda/.installed-test VENV=.venv-cuda RUNTIME=cuda
	.venv-cuda/bin/python -m tests.cuda

# Pretrained models that packages ship, without the requirements of these packages.
test-models: $(VENV)/.installed-test
	$(RUN) -m pip install --quiet --disable-pip-version-check --no-deps --target .models \
		magika==1.0.3 silero-vad==6.2.3 rapidocr-onnxruntime==1.4.4
	$(RUN) -m pytest -q tests/onnx/test_real_models.py

# The tests of graphls.from_torch, which need PyTorch, in an environment of their own.
test-torch: .venv-torch/.installed-torch
	.venv-torch/bin/python -m pytest -q tests/onnx/pytorch

# Thirty architectures of Hugging Face compared with PyTorch; ARGUMENTS="BERT Llama" names some.
compare-models: .venv-torch/.installed-torch
	.venv-torch/bin/python -m benchmarks.hugging_face $(ARGUMENTS)

lint: $(VENV)/.installed-test
	$(RUN) -m ruff check .
	$(RUN) -m mypy --strict graphls tools
	$(RUN) -m tools.operators --check
	$(RUN) -m tools.files_page --check
	$(RUN) -m tools.public_names --check

# A folder for any static host: a page that trains the demo's network. npm installs ONNX Runtime for browsers.
web: $(VENV)/.installed-test
	$(RUN) -m graphls export examples.digits:page -o out/web --page
	@echo "python -m http.server --directory out/web shows it"

bench: $(VENV)/.installed-demo
	$(RUN) benchmarks/step_time.py

# Compared with PyTorch and JAX, in an environment of their own; ARGUMENTS="--quick", or others of benchmarks/peers.
bench-peers: .venv-peers/.installed-peers
	.venv-peers/bin/python -m benchmarks.peers $(ARGUMENTS)

# Exported networks compared with PyTorch's exports of them, on ONNX Runtime; ARGUMENTS="--threads 1".
bench-export: .venv-peers/.installed-peers
	.venv-peers/bin/python -m benchmarks.export_latency $(ARGUMENTS)

# Eager mode compared with the same networks compiled; ARGUMENTS="--rows resnet50".
bench-eager: $(VENV)/.installed-demo
	$(RUN) -m benchmarks.eager $(ARGUMENTS)

# Two ranks on two cores compared with PyTorch over gloo; ARGUMENTS="--rows resnet18", or others of benchmarks/ranks.py.
bench-ranks: .venv-peers/.installed-peers
	.venv-peers/bin/python -m benchmarks.ranks $(ARGUMENTS)

stubs: $(VENV)/.installed-test
	$(RUN) -m tools.stubs

# The pages generated from the code; probing every operator takes half a minute.
pages: $(VENV)/.installed-test
	$(RUN) -m tools.operators
	$(RUN) -m tools.fill_blocks
	$(RUN) -m tools.onnx_operators
	$(RUN) -m tools.traps
	$(RUN) -m tools.files_page
	$(RUN) -m tools.public_names

# Regenerates the pages and builds a site in out/site, which a browser opens from disk. A broken link is an error, but
# not with --quiet.
docs: pages site

site: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build
	$(RUN) -m pytest -q tests/browser/test_start_page.py
	@echo "out/site/index.html is the start page"

# Runs the notebooks of docs/gallery, each in a kernel of Jupyter, and saves their outputs; then tests other displays in
# a notebook: cards, bars, tracebacks.
gallery: $(VENV)/.installed-gallery
	$(RUN) -m tools.gallery $(ARGUMENTS)
	$(RUN) -m pytest -q tests/tools/test_notebooks.py

# The notebook that needs PyTorch, which `make gallery` leaves out.
gallery-torch: .venv-torch/.installed-torch
	$(MAKE) .venv-torch/.installed-gallery VENV=.venv-torch
	.venv-torch/bin/python -m tools.gallery 12_from_torch $(ARGUMENTS)

# The wheel and the source distribution in out/dist: checked, and installed in an environment of their own.
dist: $(VENV)/.installed-dist
	$(RUN) -m tools.dist

fuzz: $(VENV)/.installed-test
	$(RUN) -m tests.fuzz
	$(RUN) -m tests.fuzz programs --count 10000
	$(RUN) -m tests.fuzz programs --count 2000 --engine onednn
	$(RUN) -m tests.fuzz pairs --count 5041
	$(RUN) -m tests.fuzz onnx --count 2000
	$(RUN) -m tests.fuzz onnx --count 2000 --engine numpy
	$(RUN) -m tests.files.damaged --count 1000
	$(RUN) -m tests.fuzz pairs --count 20164 --engine onednn
	$(RUN) -m tests.fuzz control-flow --count 2000
	$(RUN) -m tests.xla.networks
	$(RUN) -m tests.kills --steps session plan held images
	$(RUN) -m tests.kills --steps session plan held images --count 200 --engine onednn
	$(RUN) -m tests.kills --steps large --count 50 --engine onednn

# The pairs of neighbouring operators in tests; models with other pairs are first tried in a separate process.
neighbours: $(VENV)/.installed-test
	$(RUN) -m pytest -q -p tests.neighbours
	$(RUN) -m tests.neighbours --count 1000

# The names and settings of MindSpore, read from the package itself, which needs a NumPy of its own.
mindspore-names:
	$(PYTHON) -m venv .venv-mindspore
	.venv-mindspore/bin/python -m pip install --quiet --disable-pip-version-check mindspore==2.10.0 'numpy<2'
	PYTHONHASHSEED=0 .venv-mindspore/bin/python -m tools.mindspore_names

$(VENV)/.installed-demo: $(PACKAGES) | $(RUN)
	$(FREE)
	$(INSTALL) '.[$(RUNTIME),demo]' --constraint constraints.txt
	touch $@

$(VENV)/.installed-test: $(PACKAGES) | $(RUN)
	$(FREE)
	$(INSTALL) '.[$(RUNTIME),demo,test]' --constraint constraints.txt
	touch $@ $(VENV)/.installed-demo

$(addprefix $(VENV)/.installed-,docs dist gallery): $(VENV)/.installed-%: $(PACKAGES) | $(VENV)/.installed-test
	$(INSTALL) '.[$*]' --constraint constraints.txt
	touch $@

.venv-peers/.installed-peers: $(PACKAGES) benchmarks/peers/constraints.txt
	$(MAKE) .venv-peers/.installed-demo VENV=.venv-peers RUNTIME=cpu,onednn,xla,mpi
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check --retries 1 \
		--extra-index-url $(TORCH) --constraint benchmarks/peers/constraints.txt torch jax onnxscript
	touch $@

.venv-torch/.installed-torch: $(PACKAGES) benchmarks/peers/constraints.txt
	$(MAKE) .venv-torch/.installed-test VENV=.venv-torch
	.venv-torch/bin/python -m pip install --quiet --disable-pip-version-check --retries 1 \
		--extra-index-url $(TORCH) --constraint benchmarks/peers/constraints.txt torch onnxscript transformers
	touch $@

$(RUN):
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf .venv .venv-training .venv-cuda .venv-peers .venv-torch .venv-mindspore .mypy_cache .pytest_cache .ruff_cache .hypothesis
