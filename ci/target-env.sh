# shellcheck shell=bash disable=SC2034  # the variables are for those who source it
# Sourced by ci/target-*: how programs are built for another target than this
# machine's. All builds share a folder, so that what runs at build time is built once.
ci=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=interop/env.sh
. "$ci/../interop/env.sh"
cd "$ci/.." || exit

# Where this machine's own builds are.
own=${CARGO_TARGET_DIR:-target}
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
    std=("-Zbuild-std=std,panic_unwind")
}

# run_cargo COMMAND TARGET [ARGUMENT...]: a cargo command for the crates of the tools.
run_cargo() {
    cargo "$1" --locked --quiet --target "$2" -p zmq-perf -p opcua-perf "${std[@]}" "${@:3}"
}

# lint TARGET: compiles the tools and their tests, and warns of nothing.
lint() {
    if ((${#std[@]})); then
        run_cargo check "$1" --tests
    else
        run_cargo clippy "$1" -p perf-core --all-targets -- -D warnings
    fi
}

# own_cargo ARGUMENT...: cargo for this machine, as it is without this file.
own_cargo() {
    env -u CARGO_PROFILE_DEV_DEBUG -u CARGO_PROFILE_DEV_STRIP CARGO_TARGET_DIR="$own" \
        cargo "$@" --locked --quiet -p zmq-perf -p opcua-perf --bins
}

# own_tools: sees to this machine's own programs: the other end of what is tried.
own_tools() {
    [[ -x $own/debug/opcua-perf-server && -x $own/debug/remote_lat ]] || own_cargo build
}

# zig: a C compiler and linker that knows every target's system.
zig() {
    venv "$cache/zig" "$ci/zig.txt"
    export PATH=$cache/zig/bin:$PATH
}

tools=(local_lat remote_lat local_thr remote_thr inproc_lat inproc_thr proxy_thr
    opcua-perf-client opcua-perf-server)
