# shellcheck shell=bash disable=SC2034  # the variables are for those who source it
# Sourced by the scripts beside it: where this folder and the cache are.
# The cache outlives clones, so that libzmq is built once a machine.
interop=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${PERF_CACHE:-$HOME/.cache/zmq-perf}
mkdir -p "$cache"
cache=$(cd "$cache" && pwd)

# current STAMP TEXT: is the thing that STAMP marks up to date, made from TEXT?
current() { [[ -f $1 && $(<"$1") == "$2" ]]; }

# lock NAME: one run at a time of whatever fills the folder NAME of the cache.
lock() {
    exec {lock_fd}>"$cache/.$1.lock"
    flock "$lock_fd"
}
