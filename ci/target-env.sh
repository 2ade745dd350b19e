# shellcheck shell=bash disable=SC2034  # the variables are for those who source it
# Sourced by ci/target-*: how programs are built for another target than this
# machine's. All builds share a folder, so that what runs at build time is built once.
. "$(dirname "${BASH_SOURCE[0]}")/../interop/env.sh"
ci=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$ci/.."

# Where this machine's own programs are: the other end of what is tried.
native=${CARGO_TARGET_DIR:-target}/debug
export CARGO_TARGET_DIR=$cache/targets CARGO_TERM_COLOR=never
# Built fast, and not stripped: the strip of this machine knows its own format alone.
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_DEV_STRIP=none

# compiler TARGET: sees to a compiler that has the target's standard library. rustup's
# where it can add that; else Debian's, which has the library's source to build it from.
compiler() {
    std=()
    if command -v rustup >/dev/null; then
        [[ -d $(rustc --print sysroot)/lib/rustlib/$1/lib ]] && return
        timeout 300 rustup --quiet target add "$1" && return
        echo "rustup cannot add $1: Debian's compiler builds its standard library" >&2
    fi
    debian rustc-web cargo-web rust-web-src
    export PATH=/usr/bin:/bin RUSTC_BOOTSTRAP=1
    std=(-Zbuild-std=std,panic_unwind)
}

# run_cargo COMMAND TARGET [ARGUMENT...]: a cargo command for the two crates of the tools.
run_cargo() {
    cargo "$1" --locked --quiet --target "$2" -p zmq-perf -p opcua-perf "${std[@]}" "${@:3}"
}
