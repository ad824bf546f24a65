#!/usr/bin/env bash
# Makes the control node's virtual environment: bootstrap.sh DIRECTORY
# With a list of packages, adds them to it:     bootstrap.sh DIRECTORY requirements-dev.txt
# Needs a Debian or Ubuntu machine with python3 and root or sudo; installs from the distribution what is missing.
# Ansible is not there yet, nor an inventory's settings: packages come from where pip's and apt's own settings and the
# environment say (http_proxy, https_proxy, PIP_INDEX_URL, PIP_CERT); docs/closed-networks.md.
set -euo pipefail
cd "$(dirname "$0")"
venv=${1:?usage: bootstrap.sh DIRECTORY [LIST]}

# What a bundle has is used in place of the network (unbundle.sh).
bundle=$PWD/.trainyard/bundle
if [ -d "$bundle" ]; then
    # pip takes a list here, with blanks between: those of a path are written otherwise in an address.
    export PIP_NO_INDEX=1 PIP_FIND_LINKS=file://${bundle// /%20}/wheels
    [ ! -f "$bundle/apt/apt.conf" ] || export APT_CONFIG=$bundle/apt/apt.conf
fi

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
die() { printf 'bootstrap: %s\n' "$*" >&2; exit 1; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"
    elif command -v sudo >/dev/null; then sudo ${APT_CONFIG:+APT_CONFIG="$APT_CONFIG"} "$@"
    else die "root or sudo is needed to run: $*"
    fi
}

# The distribution's Python before the first on the path, which may be one of pyenv or conda. Those are often compiled
# without optimisation by a profile (docs/performance.md), and this environment would not work without theirs.
python=${PYTHON:-python3}
new_enough='import sys; sys.exit(sys.version_info < (3, 11))'
if [ -z "${PYTHON:-}" ] && /usr/bin/python3 -c "import ensurepip; $new_enough" 2>/dev/null; then
    python=/usr/bin/python3
fi
"$python" -c "$new_enough" ||
    die "$("$python" --version) is too old: ansible-core 2.19 needs 3.11 or newer. Point PYTHON= at one."

# ssh, rsync and git are what Ansible and the records of a run call; venv is a package of its own in Debian.
packages=()
command -v ssh >/dev/null || packages+=(openssh-client)
command -v rsync >/dev/null || packages+=(rsync)
command -v git >/dev/null || packages+=(git)
"$python" -c 'import ensurepip' 2>/dev/null || packages+=(python3-venv)
if [ ${#packages[@]} -gt 0 ]; then
    command -v apt-get >/dev/null || die "install these first: ${packages[*]}"
    say "Installing ${packages[*]}"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${packages[@]}" >/dev/null
fi

# Byte code is written here, on all cores: pip would take one core for that, and of Ansible's collections compile the
# hundred that nothing here uses.
install_list() {
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-compile --require-hashes -r "$1" ||
        die "pip did not get what $1 lists${PIP_NO_INDEX:+. The bundle has requirements.txt alone, for Python of its\
 Debian releases; BUNDLE=none has pip use its own sources}"
    "$venv/bin/python" -m compileall -q -j 0 -x 'ansible_collections/(?!ansible/(posix|utils)/|community/docker/)' \
        "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')"
}

if [ $# -gt 1 ]; then
    say "Adding what $2 lists to $venv"
    install_list "$2"
    exit
fi

# An environment that another Python made would have that one's program and this one's library.
identity='import sys; print(sys.base_prefix, sys.version)'
clear=()
if [ -e "$venv/pyvenv.cfg" ] && [ "$("$venv/bin/python" -c "$identity" 2>/dev/null)" != "$("$python" -c "$identity")" ]; then
    clear=(--clear)
fi

say "Making the virtual environment $venv (half a minute)"
"$python" -m venv "${clear[@]}" "$venv"
install_list requirements.txt
# The package itself is used from the checkout: a path file is all it takes, and needs no build tools.
"$venv/bin/python" - <<'PY'
import pathlib, sysconfig
pathlib.Path(sysconfig.get_path("purelib"), "trainyard.pth").write_text(f"{pathlib.Path.cwd()}\n")
PY
