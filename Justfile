# The tasks of callgate. `just` without a name lists them.

_list:
    @just --list

# Build the binary, optimised
build:
    cargo build --release

# All tests (builds the runtime image on the first use)
test:
    cargo test

# Format and lints
lint:
    cargo fmt --check
    cargo clippy --all-targets -- -D warnings

# The numbers of SPECIFICATION.md, in one table
bench:
    cargo bench --bench table

# The default runtime image, built anew
image:
    cargo run --release -- image build --force

# The example: an agent with three real tools
example:
    cargo run --example news_agent

# What CI runs
ci:
    .ci/run

# What the HTTP server costs, how fair it is, and what a thousand agents make of it
bench-http:
    cargo bench --bench http
