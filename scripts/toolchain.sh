# shellcheck shell=bash
# Checks for the Rust toolchain and the linker that building forge needs. Sourced by the other scripts, which run in the
# repository's root; errors name the script that was run.

# Prints an error with a hint and ends the script.
die_without() {
  printf '%s: error: %s\n  hint: %s\n' "$(basename "$0")" "$1" "$2" >&2
  exit 1
}

# Ends the script unless cargo and rustc are in PATH and at least as new as `rust-version` in Cargo.toml. Without this
# check, an older cargo fails with an error about the manifest that names neither version.
require_rust() {
  local rustup=${CARGO_HOME:-${HOME:-/root}/.cargo}/bin hint='install a newer toolchain with rustup (https://rustup.rs) and open a new shell'
  local wanted program found
  # rustup changes PATH for new shells only. Its directory comes before that of Debian's own toolchain.
  [[ :$PATH: == *:"$rustup":* || ! -x $rustup/cargo ]] || PATH=$rustup:$PATH
  wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
  for program in cargo rustc; do
    command -v "$program" >/dev/null ||
      die_without "\`$program\` is not in PATH; forge needs Rust $wanted or newer" "${hint/a newer/the}"
    # `rustc 1.89.0 (29483883e 2025-08-04)`; `-nightly` and `-beta.N` follow the number without a blank.
    found=$("$program" --version | sed -nE "s/^$program ([0-9]+\.[0-9]+\.[0-9]+).*/\1/p")
    [[ $found ]] || die_without "\`$program --version\` failed: $("$program" --version 2>&1 | head -n 1)" "$hint"
    [[ $(printf '%s\n' "$wanted" "$found" | sort -V | head -n 1) == "$wanted" ]] ||
      die_without "forge needs Rust $wanted or newer; \`$(command -v "$program")\` is $found" "$hint"
  done
}

# Ends the script unless there is a C compiler. It links forge and compiles the cryptography of TLS.
require_linker() {
  command -v cc >/dev/null || die_without '`cc` is not in PATH; forge needs a C compiler to link' \
    'install one (Debian: apt-get install gcc libc6-dev)'
}
