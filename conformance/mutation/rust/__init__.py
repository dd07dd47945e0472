"""Mutates the Rust crate with cargo-mutants and measures whether the corpus notices: `nox -s mutants_rust`.

cargo-mutants lists the mutants. A fixed sample of them is built, one at a time, and asked the questions of the corpus
until one fails; then the tests of the crate run. What survives both is listed in `survivors.json` with the reason.
"""
