#!/usr/bin/env bash
# Unpacks what `make bundle` has made, for all commands of this checkout: unbundle.sh ARCHIVE
# Lets go of it, so that the network is used again:                      unbundle.sh none
# An archive that is unpacked already is left as it is.
set -euo pipefail
archive=$(realpath --canonicalize-missing "${1:?usage: unbundle.sh ARCHIVE|none}")
wanted=$1
cd "$(dirname "$0")"
folder=$PWD/.trainyard/bundle

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
die() { printf 'unbundle: %s\n' "$*" >&2; exit 1; }

if [ "$wanted" = none ]; then
    # First what says that it is whole.
    rm -f "$folder/.unpacked"
    rm -rf "$folder"
    exit
fi
[ -f "$archive" ] || die "there is no file $wanted; make bundle on a machine with a network makes one"
mark=$(stat --format='%n %s %.9Y' "$archive")
[ "$(cat "$folder/.unpacked" 2>/dev/null)" != "$mark" ] || exit 0

say "Unpacking $wanted, $(($(stat --format=%s "$archive") / 1000000)) MB, and checking each file"
mkdir -p .trainyard
scratch=$(mktemp -d "$PWD/.trainyard/.bundle.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
tar --extract --file "$archive" --directory "$scratch" --no-same-owner ||
    die "$wanted is not a whole archive, or there is no room for it here; copy it again, or see df -h ."
# The archive says whose its folder is: that of whoever made it.
chmod 0755 "$scratch"
[ -f "$scratch/SHA256SUMS" ] || die "$wanted is not an archive of make bundle"
(cd "$scratch" && sha256sum --quiet --check --strict SHA256SUMS) ||
    die "files in $wanted are not what make bundle wrote: copy it again"
grep --quiet '"format": 1,' "$scratch/bundle.json" ||
    die "$wanted was made by another version of Trainyard: make it anew with this one"

# Data sets are used from where commands put those that they prepare. One that is there already stays.
mkdir -p .trainyard/data
for dataset in "$scratch"/data/*/; do
    [ ! -d "$dataset" ] || [ -e ".trainyard/data/$(basename "$dataset")" ] || mv "$dataset" .trainyard/data/
done

# apt of this machine, while commands of Trainyard run: these packages, lists and caches of its own, nothing else.
# shellcheck disable=SC1091  # it is the machine's
release=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
if [ -n "$release" ] && [ -d "$scratch/debian/$release" ]; then
    mkdir -p "$scratch/apt/lists/partial" "$scratch/apt/cache/archives/partial"
    # A blank ends an address.
    echo "deb [trusted=yes] file:${folder// /%20}/debian/$release ./" > "$scratch/apt/sources.list"
    cat > "$scratch/apt/apt.conf" <<CONF
Dir::Etc::sourcelist "$folder/apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::State::lists "$folder/apt/lists";
Dir::Cache "$folder/apt/cache";
Acquire::Languages "none";
APT::Sandbox::User "root";
CONF
else
    say "The bundle has no packages for ${release:-this machine}: apt uses its own sources, and Python's may not fit"
fi
# The one before stays until apt has taken this one.
before=$folder.before
rm -rf "$before"
[ ! -d "$folder" ] || mv "$folder" "$before"
mv "$scratch" "$folder"
# Ansible does not ask for lists again where this machine's own are fresh.
if [ -d "$folder/apt" ] && ! APT_CONFIG=$folder/apt/apt.conf apt-get update --quiet=2; then
    rm -rf "$folder"
    [ ! -d "$before" ] || mv "$before" "$folder"
    die "apt does not take the packages of $wanted"
fi
rm -rf "$before"
# Last: what broke off before is unpacked again.
printf '%s\n' "$mark" > "$folder/.unpacked"
