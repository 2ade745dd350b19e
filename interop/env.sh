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

# debian PACKAGE...: installs those of them that are missing, as root or with sudo.
debian() {
    local missing=() package root=()
    for package; do
        [[ $(dpkg-query -W -f='${Status}' "$package" 2>/dev/null) == "install ok installed" ]] ||
            missing+=("$package")
    done
    ((${#missing[@]})) || return 0
    echo "apt-get install ${missing[*]}" >&2
    ((EUID == 0)) || root=(sudo)
    "${root[@]}" apt-get update -qq
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
}

# venv FOLDER REQUIREMENTS: a Python environment with what the file names, made anew
# when the file or the Python has changed.
venv() {
    local stamp
    python3 -c 'import ensurepip, venv' 2>/dev/null || debian python3 python3-venv
    stamp="$(python3 --version) $(sha256sum <"$2")"
    current "$1/stamp" "$stamp" && return
    echo "Python packages into $1" >&2
    python3 -m venv --clear "$1"
    "$1/bin/pip" install --quiet --disable-pip-version-check -r "$2"
    printf '%s\n' "$stamp" >"$1/stamp"
}
