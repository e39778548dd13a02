# Everything a newcomer types: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help demo test simulate replicas judge damage planted crashes lint types mypy pyright check fuzz bench figures docs screenshots clean overload crowds soak soak-replicas starts

help:            ## this list
	@grep -hE '^[a-z-]+: .*##|^[a-z-]+:  +##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "timermq: Python 3.11 or newer is needed, found " + sys.version.split()[0])'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --editable '.[spark,backup]' --group test --group lint
	@touch $(STAMP)

demo: $(STAMP)   ## a broker on a throw-away store, real sockets, and what arrived how late
	$(BIN)/timermq demo

test: $(STAMP)   ## the whole test suite
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

crashes: $(STAMP) ## every crash state of the recorded workloads: some minutes
	CRASH_STATES=all $(BIN)/python -m pytest tests/simulation/test_crash_states.py --timeout 3000

simulate: SEEDS ?= 1..1000
simulate: REPLICA_SEEDS ?= 1..300
simulate: $(STAMP)  ## simulated days under faults, two processes: make simulate SEEDS=5000..6000
	$(BIN)/timermq simulate --seeds $(SEEDS) --jobs 2
	$(BIN)/timermq simulate --brokers 2 --days 0.005 --seeds $(REPLICA_SEEDS) --jobs 2
	$(BIN)/timermq simulate --brokers 3 --days 0.005 --seeds $(REPLICA_SEEDS) --jobs 2

replicas: SEEDS ?= 1..1000
replicas: DAYS ?= 1
replicas: JOBS ?= 2
replicas: RESULTS ?= .simulated-$(shell git rev-parse --short HEAD)
replicas: $(STAMP)  ## days of two and three brokers, by an operator and by a lease; ended, it goes on where it was
	@failed=0; for brokers in 2 3; do for lease in "" --lease; do \
	nice $(BIN)/timermq simulate --brokers $$brokers $$lease --days $(DAYS) --seeds $(SEEDS) \
	--jobs $(JOBS) --results $(RESULTS) || failed=1; done; done; exit $$failed

judge: SEEDS ?= 1..1000
judge: $(STAMP)  ## lives of a store, judged by its log alone: make judge SEEDS=1..10000
	PYTHONPATH=tests $(BIN)/python -m judge $(SEEDS) --jobs 2

SAMPLE ?=
damage: JOBS ?= 2
damage: $(STAMP)  ## every bit and sector of small stores damaged, hours: make damage SAMPLE=2000
	PYTHONPATH=tests $(BIN)/python -m damage --jobs $(JOBS) $(if $(SAMPLE),--sample $(SAMPLE))

planted: $(STAMP) ## plants every bug of the list and shows what finds it: some minutes
	PYTHONPATH=tests $(BIN)/python -m planted --write

lint: $(STAMP)   ## format and lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: mypy pyright  ## mypy and pyright, both strict

mypy pyright: $(STAMP)
	$(BIN)/$@

check: lint types test  ## all that the continuous integration runs

TARGET ?=
fuzz: SECONDS ?= 60
fuzz: $(STAMP)   ## inputs that readers do not survive: make fuzz SECONDS=600 TARGET="headers frames"
	@$(BIN)/python -m pip install --quiet --only-binary atheris --group fuzz || echo 'fuzz: no wheel of atheris for this machine'
	PYTHONPATH=tests $(BIN)/python -m fuzz --seconds $(SECONDS) $(TARGET)

bench: $(STAMP)  ## send → pulled and burst on this machine
	$(BIN)/timermq bench

SEED ?= 1
overload: $(STAMP)  ## bad peers, floods, a slot of a million, and attacks on each pool: figures, 1 beyond a bound
	$(BIN)/python perf/overload.py
	$(BIN)/python perf/attack_cost.py

crowds: $(STAMP)  ## 10,000 held pulls, and 2,000 clients that come back at once: figures, 1 beyond a bound
	$(BIN)/python perf/crowds.py

starts: STARTS ?= 200
starts: $(STAMP) ## real Java consumers that start beside a busy machine: their first timers on time? 1 beyond a bound
	PYTHONPATH=tests $(BIN)/python -m interop.starts --starts $(STARTS)

soak: SECONDS ?= 900
soak: $(STAMP)   ## kills, stops and full disks under two clients, judged: make soak SECONDS=900 SEED=1 [CLEANING=1]
	PYTHONPATH=tests $(BIN)/python -m soak --seconds $(SECONDS) --seed $(SEED) $(if $(CLEANING),--cleaning)

soak-replicas: SECONDS ?= 900
soak-replicas: BY ?= lease
soak-replicas: $(STAMP)  ## three brokers, killed and promoted under four clients, judged: make soak-replicas SECONDS=900 SEED=1 [BY=promote]
	PYTHONPATH=tests $(BIN)/python -m soak --seconds $(SECONDS) --seed $(SEED) --replicas $(BY)

clean:           ## remove what make made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .fuzz

ASKS ?= 3
figures: $(STAMP)  ## measure all that docs/performance.md shows: three hours, 12 GB of disk
	$(BIN)/python perf/record.py questions --asks $(ASKS) --keep
	$(BIN)/python perf/record.py replication --asks $(ASKS) --keep
	$(BIN)/python perf/record.py peers --keep
	PYTHONPATH=tests $(BIN)/python perf/beside_rocketmq.py all --keep
	$(BIN)/python perf/bench_burst_lateness.py --keep
	$(BIN)/python perf/bench_pending_cost.py --keep
	$(BIN)/python perf/bench_promises.py --keep
	$(BIN)/python perf/crowds.py --keep
	$(BIN)/python perf/overload.py --keep
	$(BIN)/python perf/attack_cost.py --keep
	$(BIN)/python perf/bench_access.py --keep
	$(BIN)/python perf/bench_watch.py --keep
	$(BIN)/python perf/bench_spark.py --count 10000000 --keep
	$(BIN)/python perf/spark_linearity.py --keep
	$(BIN)/python perf/spark_plan.py --count 3000000 --keep
	$(BIN)/python perf/spark_schedule.py --keep
	$(MAKE) docs

docs: $(STAMP)   ## tables of docs/ from declarations and kept results, and pictures of these
	$(BIN)/python docs/format_tables.py
	$(BIN)/python docs/operations_tables.py
	$(BIN)/python docs/protocol_tables.py
	$(BIN)/python docs/pipeline_tables.py
	$(BIN)/python docs/performance_tables.py
	$(BIN)/python perf/pictures.py
	$(BIN)/python docs/report_pictures.py

screenshots: $(STAMP)  ## docs/screenshots, from the frozen moments that the tests look at
	PYTHONPATH=tests $(BIN)/python docs/screenshots.py
