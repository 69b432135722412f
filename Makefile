# The targets people use. `make help` lists them.
.DEFAULT_GOAL := build
SHELL := /bin/bash
.PHONY: help deps build test test-slow test-asan test-tsan lint tidy format bench bench-cluster oracle image images demo demo-operator demo-down clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

deps: ## install what building and testing need (Debian packages, a Python environment); as root
	@tools/deps

build: ## the program build/release/bascule
	@cmake --preset release >/dev/null && cmake --build --preset release --target bascule

test: ## everything that must pass: unit, fuzz corpora, simulations, end to end on a real cluster
	@tools/test

test-slow: ## the end-to-end tests that take a minute or more, or an idle machine
	@tools/test --slow

test-asan: ## unit tests, fuzz corpora and simulations under AddressSanitizer and UBSan
	@tools/test --preset asan --no-e2e

test-tsan: ## what meets other threads, under ThreadSanitizer
	@tools/test --preset tsan --no-e2e --only base,net,kube

lint: ## format, rooms, coroutines, headers that stand alone
	@tools/lint/run

tidy: ## clang-tidy over every file that was not clean before
	@tools/lint/tidy --all

format: ## bring the sources into the project's format
	@git ls-files '*.cpp' '*.hpp' | xargs clang-format-19 -i

bench: ## measure, beside peers where there are any, and print a table
	@tools/bench

bench-cluster: build ## measure the bridge on a real cluster beside kube-scheduler, about 8 minutes; as root
	@tools/bench-cluster

oracle: ## compare patches with the Kubernetes libraries, thousands of cases
	@tools/oracle/run

image: build ## the container image, as build/image/bascule.tar
	@tools/image

images: ## images of Slurm 26.05 and 24.11 for the operator, as build/image/slurm-*.tar
	@tools/images 26 24

demo: deps build ## a real cluster on this machine, the bridge, and a Job that Slurm places
	@tools/demo

demo-operator: deps build ## a Slurm cluster as pods, scaled and updated while jobs run
	@tools/demo-operator

demo-down: ## remove that cluster
	@tools/demo down

clean: ## remove the build folder
	rm -rf build
