#!/usr/bin/env bash
# What the project needs before anything of it runs: `python` makes .venv, `packages` the servers that tests drive.
set -euo pipefail
cd "$(dirname "$0")/.."
cache="${XDG_CACHE_HOME:-$HOME/.cache}/servingstack"

python_environment() {
    local uv
    if ! uv="$(command -v uv)"; then
        uv="$cache/uv/bin/uv"
        # In an environment of its own: a system Python often refuses packages.
        if [ ! -x "$uv" ]; then
            echo "uv: installing into $cache/uv"
            python3 -m venv "$cache/uv"
            "$cache/uv/bin/python" -m pip install --quiet --disable-pip-version-check uv
        fi
    fi
    "$uv" sync --frozen --quiet --all-extras --all-groups
}

debian_packages() {
    local missing=()
    PATH="$PATH:/usr/sbin"
    command -v promtool >/dev/null || missing+=(prometheus)
    command -v haproxy >/dev/null || missing+=(haproxy)
    if [ "${#missing[@]}" = 0 ]; then
        return
    fi
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "Missing: ${missing[*]}. Tests of the Prometheus rules and of the front door need them; install them" \
            "with your package manager (on Debian: sudo apt-get install ${missing[*]})." >&2
        return
    fi
    echo "Debian packages: installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
    # Only the programs are wanted: where there is an init system, the packages start them as services.
    if [ -d /run/systemd/system ]; then
        systemctl disable --quiet --now "${missing[@]}"
    fi
}

case "${1:-}" in
    python) python_environment ;;
    packages) debian_packages ;;
    *) echo "usage: tools/setup.sh python|packages" >&2; exit 2 ;;
esac
