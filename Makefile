# Each target does its own set-up; the logic is in scripts/.
# PYTHON=python3.12 make test selects the interpreter.

.PHONY: help demo test test-all test-guard test-rules check bench clean

help:
	@echo "make demo      train a network on handwritten digits, and use it"
	@echo "make test      run the tests (large suites: a seeded sample)"
	@echo "make test-all  run the tests, every case"
	@echo "make test-guard  run kernels with poison and closed pages around each buffer"
	@echo "make test-rules  run ops by the rules of their classes alone, without fallbacks"
	@echo "make check     format, lint, types, layers"
	@echo "make bench     measure, beside the peers that are installed"
	@echo "make clean     remove .venv, caches and build results (not runs/)"

demo:
	@scripts/demo

test:
	@scripts/test

test-all:
	@scripts/test --full

test-guard:
	@scripts/test --guard

test-rules:
	@scripts/test --rules

check:
	@scripts/check

bench:
	@scripts/bench

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
