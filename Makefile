# Trainyard. `make` alone prints what there is; every target takes INVENTORY=, RUNTIME= and BUNDLE=,
# VENV= for another place to install, and HELP=1.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := targets
MAKEFLAGS += --no-print-directory --no-builtin-rules

# Options are what was typed behind make, and nothing else: an environment that happens to have YES, NAME or MODEL
# answers no question and changes no run. Of the environment are INVENTORY, VENV and NOTIFY.
TYPED := $(foreach name,$(.VARIABLES),$(if $(filter command,$(origin $(name))),$(name)))
# What every target takes; the others stand in the target's line of help.
EVERYWHERE := INVENTORY RUNTIME BUNDLE VENV PYTHON HELP
# They reach commands as arguments. Make would expand them once more for the environment, $(shell ...) included.
unexport $(filter-out INVENTORY PYTHON,$(TYPED))
override INVENTORY := $(or $(value INVENTORY),inventory/local)
export INVENTORY
override VENV := $(or $(value VENV),.venv)
ifneq ($(origin PYTHON),undefined)
override PYTHON := $(value PYTHON)
endif
# Whether host keys are checked is for ansible.cfg and the inventory to say; yard/core/unheard.py has the same for yard.
SSH_SETTINGS := $(filter ANSIBLE_SSH_%ARGS ANSIBLE_SCP_%ARGS ANSIBLE_SFTP_%ARGS,$(.VARIABLES))
UNCHECKED := HostKeyChecking hostkeychecking /dev/null
unexport ANSIBLE_HOST_KEY_CHECKING ANSIBLE_SSH_HOST_KEY_CHECKING $(foreach name,$(SSH_SETTINGS),\
	$(if $(strip $(foreach word,$(UNCHECKED),$(findstring $(word),$(value $(name))))),$(name)))

# One word for the shell, whatever is in it. A line break of a value would end make's own line.
define NEWLINE


endef
quoted = '$(subst $(NEWLINE),'$$'\n'',$(subst ','\'',$(1)))'
# A folder that is a target of make, too, which knows no quotes.
ifneq ($(shell case $(call quoted,$(VENV)) in (*[!A-Za-z0-9_./+@~-]*) echo no;; esac),)
$(error VENV=$(VENV) has a character that means something to make or the shell: name a folder of letters, digits and ._+@~-/)
endif
# $(call typed,NAME) is what was typed for NAME=, as it was typed; $(call argument,NAME) the same for the shell.
typed = $(if $(filter $(1),$(TYPED)),$(value $(1)))
argument = $(if $(call typed,$(1)),$(call quoted,$(call typed,$(1))))
# $(call arguments,NAME) gives each word of NAME= for the shell: blanks part words, and nothing holds them together.
arguments = $(foreach part,$(call typed,$(1)),$(call quoted,$(part)))
# $(call option,NAME,--flag) gives "--flag=value" when NAME= was typed, $(call switch,NAME,--flag) gives "--flag" for
# NAME=1, and nothing otherwise.
option = $(if $(call typed,$(1)),$(2)=$(call argument,$(1)))
switch = $(if $(filter-out 0 no false,$(call typed,$(1))),$(2))

# A name that the target does not know would vanish without a word, and the default would train. A make that another
# one started was asked nothing.
ifeq ($(MAKELEVEL),0)
KNOWN = $(shell awk -F ':.*## ' -v goals=$(call quoted, $(MAKECMDGOALS) ) '/^[a-z-]+:.*## / && index(goals, " " $$1 " ") { \
	while (match($$2, /[A-Z][A-Z0-9_]*=/)) { \
		print substr($$2, RSTART, RLENGTH - 1); $$2 = substr($$2, RSTART + RLENGTH) } }' Makefile)
UNKNOWN := $(if $(TYPED),$(firstword $(filter-out $(EVERYWHERE) $(KNOWN),$(TYPED))))
ifneq ($(UNKNOWN),)
NEAREST := $(shell python3 -c 'import difflib, sys; print(*difflib.get_close_matches(sys.argv[1].upper(), sys.argv[2:], 1))' \
	$(call quoted,$(UNKNOWN)) $(EVERYWHERE) $(KNOWN))
$(error make $(MAKECMDGOALS) takes no $(UNKNOWN)=$(if $(NEAREST), (did you mean $(NEAREST)=?),: it takes $(addsuffix =,$(sort $(KNOWN) $(EVERYWHERE)))))
endif
endif

ifneq ($(call typed,HELP),)
.PHONY: $(or $(MAKECMDGOALS),targets)
$(or $(MAKECMDGOALS),targets):
	@VENV_BIN=$(VENV)/bin python3 yard/make_help.py Makefile $@
else

.PHONY: targets help
targets:
	@python3 yard/make_help.py Makefile
.DEFAULT:
	@python3 yard/make_help.py Makefile unknown $(call quoted,$@)
help: ## print a line for each target
	@python3 yard/make_help.py Makefile all

# What keeps ranks apart from the rest of a node, for one command: container or native (docs/native.md).
ifneq ($(call typed,RUNTIME),)
export TRAINYARD_RUNTIME := $(call typed,RUNTIME)
endif
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
export PATH := $(CURDIR)/$(VENV)/bin:$(PATH)

READY := $(VENV)/.complete
# All that set-up needs, for a machine without a network: what `make bundle` made elsewhere. It is remembered.
ifneq ($(call typed,BUNDLE),)
$(READY): | unbundle
.PHONY: unbundle
unbundle:
	@./unbundle.sh $(call argument,BUNDLE)
endif
# The same with what tests and checks need.
TESTABLE := $(VENV)/.testable
# The same with what AWS needs.
RENTING := $(VENV)/.renting
YARD := $(VENV)/bin/python -m yard --inventory $(call quoted,$(INVENTORY))
PLAY := $(VENV)/bin/ansible-playbook --inventory $(call quoted,$(INVENTORY))

$(READY): requirements.txt bootstrap.sh
	@./bootstrap.sh $(VENV)
	@touch $@

$(TESTABLE): $(READY) requirements-dev.txt
	@./bootstrap.sh $(VENV) requirements-dev.txt
	@touch $@

# The same with what mutation tests need.
MUTATING := $(VENV)/.mutating
$(MUTATING): $(TESTABLE) requirements-mutants.txt
	@./bootstrap.sh $(VENV) requirements-mutants.txt
	@touch $@

$(RENTING): $(READY) requirements-aws.txt
	@./bootstrap.sh $(VENV) requirements-aws.txt
	@touch $@

##@ The cluster

.PHONY: doctor bootstrap setup verify exec local-up local-down data bundle
doctor: $(READY) ## before set-up: check this machine, the inventory and SSH to every host, with remedies: ON=host,host JSON=1
	@$(YARD) doctor $(call option,ON,--on) $(call switch,JSON,--json)

bootstrap: $(READY) ## for machines with only root's password: make an account with key and sudo, install Python, pin host keys
	@$(PLAY) playbooks/bootstrap.yml

setup: $(READY) ## make the machines of INVENTORY= ready (ansible-playbook site.yml): NODES=2 of a local cluster
	@$(YARD) setup $(call option,NODES,--nodes)

verify: $(READY) ## prove the cluster, and name the machine at fault: CHECKS=nodes,ssh,pairs,mpi,containers ON=host,group
	@$(YARD) verify $(call option,CHECKS,--checks) $(call option,ON,--on)

# The command reaches the shell of the nodes as it was typed: neither make nor a shell here looks into it.
exec: export TRAINYARD_COMMAND = $(call typed,CMD)
exec: $(READY) ## run a command on the nodes: CMD='uptime' ON=host,group LIMIT=60
	@$(YARD) exec $(call option,ON,--on) $(call option,LIMIT,--seconds) -- "$$TRAINYARD_COMMAND"

local-up: $(READY) ## bring up the local cluster: NODES=2
	@$(YARD) local-up $(call option,NODES,--nodes)

local-down: $(READY) ## take the local cluster down and leave nothing behind
	@$(YARD) local-down

data: $(READY) ## put a data set on the nodes: DATASET=cifar10 SOURCE=archive, or a folder for imagenet; your own: SOURCE=folder|archive|URL NAME= SHA256=
	@$(YARD) data $(or $(call argument,DATASET),$(if $(call typed,NAME),,cifar10)) $(call option,NAME,--name) \
		$(call option,SOURCE,--source) $(call option,SHA256,--sha256)

# Of a command that makes a bundle, OUT= is where.
bundle: $(READY) ## pack all that a site without a network needs into one file; there BUNDLE=file: RELEASES=bookworm,trixie DATASETS=cifar10 OUT=file
	@$(YARD) bundle $(call option,RELEASES,--releases) $(call option,DATASETS,--datasets) $(call option,OUT,--out)

##@ Rented machines

.PHONY: provision destroy provision-check
# Without SITE= or COUNT= the command says what is missing.
provision: $(RENTING) ## rent machines from EC2 as a site file says, after an estimate and a question: SITE=sites/lab.yml COUNT=2 HOURS= YES=1
	@$(YARD) provision $(call argument,SITE) $(call option,COUNT,--count) $(call option,HOURS,--hours) \
		$(call switch,YES,--yes)

destroy: $(RENTING) ## give back everything with the tag of the site, and check that nothing is left: SITE=sites/lab.yml YES=1
	@$(YARD) destroy $(call argument,SITE) $(call switch,YES,--yes)

provision-check: $(RENTING) ## name rented machines that are past their deadline: SITE= JSON=1
	@$(YARD) provision-check $(call argument,SITE) $(call switch,JSON,--json)

##@ Training

# What a training is asked with.
ASKED = $(call option,MODEL,--model) $(call option,RECIPE,--recipe) $(call option,CODE,--code) \
	$(call option,NODES,--nodes) \
	$(call option,GPUS_PER_NODE,--gpus-per-node) $(call option,PROCS_PER_NODE,--procs-per-node) \
	$(call option,EPOCHS,--epochs) $(call option,BATCH,--batch) $(call option,LR,--lr) \
	$(call option,DATASET,--dataset) $(call option,PRECISION,--precision) $(call option,ENGINE,--engine) \
	$(call option,TRANSPORT,--transport) $(call option,TRAIN_IMAGES,--train-images) $(call option,STALL,--stall) \
	$(call option,CHECKPOINT_SECONDS,--checkpoint-seconds) $(call option,SEED,--seed) \
	$(call option,OPTIMIZER,--optimizer) $(call option,WEIGHT_DECAY,--weight-decay) \
	$(call option,SCHEDULE,--schedule) $(call option,AUGMENT,--augment) $(call option,VALIDATION,--validation) \
	$(call option,EVALUATE_EVERY,--evaluate-every) $(call option,EARLY_STOP,--early-stop) \
	$(call option,WEIGHTS,--weights) $(call option,FREEZE,--freeze)

.PHONY: train rerun notebook scaling runs tag status top web metrics logs attach stop report export evaluate predict tensorboard bench
# Who is told of the end; from the environment, because the address of a hook is a secret.
unexport NOTIFY
ifdef NOTIFY
train: export TRAINYARD_NOTIFY = $(value NOTIFY)
rerun: export TRAINYARD_NOTIFY = $(value NOTIFY)
attach: export TRAINYARD_NOTIFY = $(value NOTIFY)
endif
train: $(READY) ## train a model on several nodes, or run a program of your own: MODEL=name|list or RECIPE= or CODE= NODES= ON=host,group GPUS_PER_NODE= PROCS_PER_NODE=N|node EPOCHS= BATCH= LR= DATASET= PRECISION= ENGINE= TRANSPORT= TRAIN_IMAGES= VALIDATION= EVALUATE_EVERY= EARLY_STOP= WEIGHTS=run|file FREEZE=backbone SEED= OPTIMIZER=adamw|sgd WEIGHT_DECAY= SCHEDULE=cosine|step|constant|plateau AUGMENT=none|basic|randaugment|trivial CHECKPOINT_SECONDS= RUNTIME=container|native RESUME= RETRIES= WAIT=1 DETACH=1 STALL= SEEDS= SWEEP="lr=1e-3,3e-4 batch=32,64" NAME= NOTIFY=URL|command ARGS=; your own code: CODE=folder ENTRY=script.py|run.sh|"-m module" SCRIPT_ARGS= LAUNCH=rank|node REQUIREMENTS=file|none GRACE=
	@$(YARD) train $(ASKED) $(call option,RESUME,--resume) $(call option,RETRIES,--retries) \
		$(call switch,WAIT,--wait) $(call switch,DETACH,--detach) \
		$(call option,SEEDS,--seeds) $(call option,SWEEP,--sweep) \
		$(call option,NAME,--name) $(call option,ON,--on) $(call option,LAUNCH,--launch) $(call option,GRACE,--grace) \
		$(call option,REQUIREMENTS,--requirements) \
		$(call option,ENTRY,--entry) $(if $(filter SCRIPT_ARGS,$(TYPED)),--script-args=$(call quoted,$(call typed,SCRIPT_ARGS))) \
		$(call arguments,ARGS)

rerun: $(READY) ## launch a run again; your own code from the copy that the run kept: RUN=latest NOTIFY=
	@$(YARD) rerun $(or $(call argument,RUN),latest)

# Without NODE= the command says what is missing.
notebook: $(READY) ## Jupyter Lab on a node, at an address of this machine; Ctrl-C leaves it running: NODE=gpu01 CODE=folder DATASET= GPUS_PER_NODE= REQUIREMENTS=file|none IDLE=minutes
	@$(YARD) notebook $(call argument,NODE) $(call option,CODE,--code) $(call option,DATASET,--dataset) \
		$(call option,GPUS_PER_NODE,--gpus-per-node) $(call option,REQUIREMENTS,--requirements) \
		$(call option,IDLE,--idle)

scaling: $(READY) ## train on 1 and on NODES= nodes: speed-up and efficiency: MODEL= RECIPE= CODE= NODES= ON=host,group GPUS_PER_NODE= PROCS_PER_NODE= EPOCHS= BATCH= LR= DATASET= PRECISION= ENGINE= TRANSPORT= TRAIN_IMAGES= VALIDATION= EVALUATE_EVERY= EARLY_STOP= WEIGHTS=run|file FREEZE=backbone SEED= OPTIMIZER=adamw|sgd WEIGHT_DECAY= SCHEDULE=cosine|step|constant|plateau AUGMENT=none|basic|randaugment|trivial CHECKPOINT_SECONDS= STALL= HOLD=rank-batch|global-batch ROUNDS= ARGS=
	@$(YARD) scaling $(ASKED) $(call option,ON,--on) $(call option,HOLD,--hold) $(call option,ROUNDS,--rounds) $(call arguments,ARGS)

runs: $(READY) ## list runs, also as runs/index.html: FIND='failed vit' LAST=10 JSON=1 CSV=1
	@$(YARD) runs $(call option,FIND,--find) $(call option,LAST,--last) $(call switch,JSON,--json) \
		$(call switch,CSV,--csv)

# Typed with nothing behind it, each takes away what there was.
tag: $(READY) ## give a run tags and a note, and find it by them: RUN=latest TAGS=good,paper NOTE='text'
	@$(YARD) tag $(or $(call argument,RUN),latest) \
		$(if $(filter TAGS,$(TYPED)),--tags=$(call quoted,$(call typed,TAGS))) \
		$(if $(filter NOTE,$(TYPED)),--note=$(call quoted,$(call typed,NOTE)))

status: $(READY) ## which run is on which node, its progress, and the load of the nodes: JSON=1
	@$(YARD) status $(call switch,JSON,--json)

top: $(READY) ## nodes and runs on the whole screen, every two seconds: q quits, Enter goes to ranks and logs, s stops, / filters
	@$(YARD) top

web: $(READY) ## one page for everybody, live, at an address of this machine: PORT=8642 SOCKET=file NAMES=host,host READ_ONLY=1
	@$(YARD) web $(call option,PORT,--port) $(call option,SOCKET,--socket) $(call option,NAMES,--names) \
		$(call switch,READ_ONLY,--read-only)

metrics: $(READY) ## nodes, GPUs and runs for Prometheus, as a file for node_exporter: OUT=trainyard.prom
	@$(YARD) metrics $(call option,OUT,--out)

logs: $(READY) ## show the logs of a run, live while it goes on: RUN=latest RANK= FOLLOW=1
	@$(YARD) logs $(or $(call argument,RUN),latest) $(call option,RANK,--rank) $(call switch,FOLLOW,--follow)

attach: $(READY) ## reconnect to a running job: RUN=latest NOTIFY=
	@$(YARD) attach $(or $(call argument,RUN),latest)

stop: $(READY) ## stop a run or a verification and bring its logs home: RUN=latest
	@$(YARD) stop $(or $(call argument,RUN),latest)

report: $(READY) ## draw the report of a run anew, or compare several: RUN=latest RUN=a,b
	@$(YARD) report $(or $(call argument,RUN),latest)

# Without TO= the command says what is missing.
export: $(READY) ## write the weights of a run for plain PyTorch, as a state_dict or safetensors: RUN=latest TO=resnet18.safetensors WHICH=best|last
	@$(YARD) export $(or $(call argument,RUN),latest) $(call option,TO,--to) $(call option,WHICH,--which)

evaluate: $(READY) ## test the model of a run on this machine or on nodes, with a page of the worst mistakes: RUN=latest DATASET= WHICH=best|last NODES=
	@$(YARD) evaluate $(or $(call argument,RUN),latest) $(call option,DATASET,--dataset) $(call option,WHICH,--which) $(call option,NODES,--nodes)

# Without SOURCE= the command says what is missing.
predict: $(READY) ## classify image files with the model of a run, on this machine: RUN=latest SOURCE=folder WHICH=best|last
	@$(YARD) predict $(or $(call argument,RUN),latest) $(call option,SOURCE,--source) $(call option,WHICH,--which)

tensorboard: $(READY) ## TensorBoard over the runs, on this machine's loopback: PORT=6006
	@$(YARD) tensorboard $(call option,PORT,--port)

bench: $(READY) ## measure every way to train, in turns: MODELS=vit,resnet18,cnn_a NODES=2 PROCS_PER_NODE=1 TRANSPORT= ARGS=
	@$(YARD) bench $(call option,MODELS,--models) $(call option,NODES,--nodes) \
		$(call option,PROCS_PER_NODE,--procs-per-node) $(call option,TRANSPORT,--transport) $(call arguments,ARGS)

##@ Tests

.PHONY: test test-all test-report test-changed mutants lint unit unit-yard unit-trainer molecule e2e bench-setup bench-edits bench-native gpu-day
test: $(TESTABLE) ## prove each promise once: lint, unit tests, roles on machines, whole runs: UNTIL=Unix seconds
	@tests/circles/tiers.py test $(call option,UNTIL,--until)

test-all: $(TESTABLE) ## all tests, or one of several equal parts: SHARD=1/6 MEASURE=1
	@tests/circles/tiers.py all $(call option,SHARD,--shard) $(call switch,MEASURE,--note-seconds)

test-report: $(TESTABLE) ## what the parts of test-all found, and what none of them ran: FOLDER=
	@tests/circles/tiers.py report $(call argument,FOLDER)

test-changed: $(TESTABLE) ## what the difference to a commit touches, in minutes: BASE=main BUDGET=seconds ARGS=--list
	@python tests/changed/run.py $(call option,BASE,--base) $(call option,BUDGET,--budget) $(call arguments,ARGS)

mutants: $(MUTATING) ## mutation tests: change code a little and see whether a test fails: ONLY="node/verdict yard/runs/names.py" BASE=main
	@tests/circles/mutants.py $(call option,BASE,--base) $(call arguments,ONLY)

lint: $(TESTABLE) ## ansible-lint, yamllint, ruff, import-linter, mypy, shellcheck, hadolint, promises and their tests
	@tests/circles/promises.py
	@$(MAKE) --jobs 2 --output-sync=target lint-roles lint-python
	shellcheck $$(git ls-files | xargs -r grep -slE '^#!.*\b(ba)?sh$$')
	hadolint docker/*/Dockerfile*
	@$(MAKE) docs
	@git diff --exit-code --stat -- 'roles/*/README.md' 'roles/*/defaults' || { \
		echo 'The files above were stale; they are written anew: commit them.'; exit 1; }

.PHONY: lint-roles lint-python
lint-roles: $(TESTABLE)
	ansible-lint --strict
	yamllint --strict .

lint-python: $(TESTABLE)
	ruff check .
	ruff format --check .
	lint-imports --no-cache
	mypy -p yard -p trainer -p node
	mypy roles/*/library/*.py roles/*/module_utils/*.py roles/*/action_plugins/*.py molecule/*.py \
		molecule/shared/strategy/*.py playbooks/*_plugins/*.py collection/*.py
	mypy roles/inventory_check/files/*.py docker/trainer/python/*.py
	mypy tests/conftest.py
	for tests in tests/*/; do \
		(cd $$tests && mypy --cache-dir $(CURDIR)/.mypy_cache --config-file $(CURDIR)/pyproject.toml .); \
	done

unit: unit-yard unit-trainer ## unit tests of yard/, roles and node/ here, of trainer/ in the trainer image

unit-yard: $(TESTABLE)
	$(PLAY) playbooks/test_tools.yml
	pytest --numprocesses logical --dist loadfile tests/yard tests/roles tests/node tests/changed tests/gpu tests/circles

# The image of the tests is the trainer image with pytest in it; the data is the real one.
unit-trainer: $(TESTABLE) ## unit tests of trainer/ alone, in the trainer image: TESTS=/tests/test_loop.py RESULTS=folder
	$(PLAY) playbooks/test_image.yml
	tests/trainer/run $(call option,RESULTS,--results) "$$(cat .trainyard/image/test.reference)" $(call arguments,TESTS)

molecule: $(TESTABLE) ## the roles on machines of their own, each broken on purpose as well: ROLE=
	molecule/run $(call arguments,ROLE)

e2e: $(TESTABLE) ## whole runs on the local cluster
	pytest tests/e2e --durations=20

bench-setup: $(READY) ## measure set-up of 2 and 8 local nodes of its own, and what 1,000 hosts cost the control node
	tests/speed/setup.py

bench-edits: $(READY) ## measure from the command to the first step, without and after an edit, on 2 and 8 local nodes of its own: ARGS=
	tests/speed/edits.py $(call arguments,ARGS)

bench-native: $(READY) ## measure trainings without root and containers beside those in containers, on 2 local nodes of its own: ARGS=
	tests/speed/native.py $(call arguments,ARGS)

# No $(READY): a lent machine may reach no package index, and the steps need none of it.
gpu-day: ## show and write down what only a GPU can show, on this machine with one: MINUTES=40 STEPS=resnet18,vit IMAGE= PYTHON= DATA=folder OUT=folder ARGS=--list
	@python3 tests/gpu/day.py $(call option,MINUTES,--minutes) $(call option,STEPS,--steps) \
		$(call option,IMAGE,--image) $(call option,PYTHON,--python) $(call option,DATA,--data) \
		$(call option,OUT,--out) $(call arguments,ARGS)

##@ Upkeep

.PHONY: install
install: $(READY) ## the command yard on your PATH, with completion for bash and zsh: FOLDER=
	@./install.sh $(VENV) $(call argument,FOLDER)

.PHONY: clean-up
clean-up: $(READY) ## list old images and, with DAYS=, old runs; YES=1 removes them; RUN= deletes one run, after a question
	@$(YARD) clean-up $(call argument,RUN) $(call option,DAYS,--days) $(call switch,YES,--yes)

.PHONY: remove
remove: $(READY) ## take from the machines of INVENTORY= what set-up put there, after a question: ON=host,group DATA=1 YES=1
	@$(YARD) remove $(call option,ON,--on) $(call switch,DATA,--data) $(call switch,YES,--yes)

.PHONY: rotate-keys
rotate-keys: $(READY) ## give the nodes of INVENTORY= new keys for each other, while they are in use
	@$(YARD) rotate-keys

.PHONY: docs
docs: $(TESTABLE) ## write every role's README and defaults anew from its argument_specs.yml
	@for role in roles/*/; do \
		aar-doc $$role markdown; aar-doc $$role defaults; done

.PHONY: collection
collection: $(READY) ## build the roles as the collection trainyard.cluster, and print where the archive is
	@collection/build.py

.PHONY: lock
LOCK := --generate-hashes --no-header
lock: ## write requirements*.txt anew from pyproject.toml, and those of docker/trainer (needs uv)
	uv pip compile pyproject.toml $(LOCK) --python-version 3.11 --universal --output-file requirements.txt
	uv pip compile --group aws --constraints requirements.txt $(LOCK) --python-version 3.11 --universal \
		--output-file requirements-aws.txt
	uv pip compile --group dev --constraints requirements.txt $(LOCK) --python-version 3.11 --universal \
		--output-file requirements-dev.txt
	uv pip compile --group mutants --constraints requirements.txt --constraints requirements-dev.txt $(LOCK) --python-version 3.11 \
		--universal --output-file requirements-mutants.txt
	for list in runtime cuda13 cuda12 cuda12-legacy nvcc rocm installer; do uv pip compile docker/trainer/requirements/$$list.in $(LOCK) \
		--python-version 3.13 --python-platform x86_64-manylinux_2_40 --only-binary :all: \
		--output-file docker/trainer/requirements/$$list.txt; done
	uv pip compile docker/notebook/requirements.in $(LOCK) --python-version 3.13 \
		--python-platform x86_64-manylinux_2_40 --only-binary :all: --output-file docker/notebook/requirements.txt

endif
