# Two commands are all a newcomer needs: make figures, make test.
# The work is done by `python -m companion ...`.
PYTHON ?= python3
PROFILE ?= default
NB ?=
SEED ?=
UPDATE ?=
OUT ?=
ROWS ?=
PARTS ?=
PORT ?=
RUN := $(if $(filter Windows_NT,$(OS)),.venv/Scripts/python,.venv/bin/python) -m companion

.PHONY: help setup figures report site play verify test test-matrix lab bench data
.DEFAULT_GOAL := help

help:
	@echo 'make figures      execute the notebooks, write figures/<profile>/, and say whether the'
	@echo '                  committed results in figures/ were reproduced'
	@echo '                  [PROFILE=smoke|default|paper] [NB=1] [SEED=0] [OUT=folder]'
	@echo '                  PROFILE=paper OUT=figures renews the committed results'
	@echo 'make test         run the whole test suite'
	@echo 'make lab          open JupyterLab on this machine only'
	@echo 'make report       write report, page of figures and the tables of the README from figures/'
	@echo 'make site         build site/: report, notebooks, documents and API, for any web server'
	@echo 'make play         build site/play/ and serve it: five pages on which the core runs in a'
	@echo '                  browser; needs npm, once   [PORT=8000]'
	@echo 'make verify       run the smoke profile from nothing and compare every number with a'
	@echo '                  reference   [NB=1] [UPDATE=1]'
	@echo 'make test-matrix  the sensitive tests and verify as other machines run them'
	@echo '                  [ROWS="sse busy"] [PARTS=tests]'
	@echo 'make bench        measure speed, as ratios within one run'
	@echo 'make data         download the official data sets into data/cache; without it stand-ins are'
	@echo '                  used where LDP_DATA has none'
	@echo 'make setup        install the packages into .venv; the others do this by themselves, once'
	@echo 'PYTHON=python3.12 chooses another Python, 3.11 or newer'

setup:
	@"$(PYTHON)" companion/publish/environment.py

figures: setup
	@$(RUN) figures --profile '$(PROFILE)' $(if $(NB),--nb '$(NB)') \
		$(if $(SEED),--seed '$(SEED)') $(if $(OUT),--output '$(OUT)')

report: setup
	@$(RUN) report $(if $(OUT),--output '$(OUT)')

site: setup
	@$(RUN) site

play: setup
	@$(RUN) play $(if $(PORT),--port '$(PORT)')

verify: setup
	@$(RUN) verify $(if $(NB),--nb '$(NB)') $(if $(UPDATE),--update)

test: setup
	@$(RUN) test

test-matrix: setup
	@$(RUN) matrix $(if $(ROWS),--rows $(ROWS)) $(if $(PARTS),--parts $(PARTS))

lab: setup
	@$(RUN) lab

bench: setup
	@$(RUN) bench

data: setup
	@$(RUN) data
