#!/bin/bash
# Runs in a container of a Debian release. Fetches packages and all that they depend on into this folder, and
# describes them for apt:
#
#   fetch_packages.sh DIRECTORY OWNER NAME...
#
# OWNER is the number of the account that the files belong to in the end.
set -euo pipefail
directory=$1 owner=$2
shift 2
cd "$directory"
export DEBIAN_FRONTEND=noninteractive

apt-get update --quiet=2
# Nothing counts as installed, so that a machine with less than this container has gets everything, too.
apt-get install --quiet=2 --yes --no-install-recommends --download-only \
    --option Dir::State::status=/dev/null --option Dir::Cache::archives="$directory" --option APT::Sandbox::User=root "$@"
rm -rf partial lock

apt-get install --quiet=2 --yes --no-install-recommends apt-utils >/dev/null
apt-ftparchive packages . > Packages
apt-ftparchive release . > Release
chown --recursive "$owner" .
