#!/usr/bin/env bash
# Makes a signed repository of packages that are named like Docker's: repository.sh DIRECTORY RELEASE
#
# Its docker-ce is the distribution's engine under Docker's name. What is tried with it is all that apt does: the
# signature, the key, the choice of packages. DIRECTORY/gpg is the key; DIRECTORY/other is another one.
set -euo pipefail
directory=$1
release=$2
GNUPGHOME=$(mktemp --directory)
export GNUPGHOME
trap 'gpgconf --kill all; rm -rf "$GNUPGHOME"' EXIT

mkdir -p "$directory/dists/$release/stable/binary-$(dpkg --print-architecture)" "$directory/pool"
cd "$directory"
packages=dists/$release/stable/binary-$(dpkg --print-architecture)/Packages

client=
[ -z "$(apt-cache show docker-cli 2>/dev/null)" ] || client=', docker-cli'
for package in "docker-ce docker.io$client" "docker-ce-cli docker-ce" "containerd.io docker-ce"; do
    read -r name depends <<<"$package"
    mkdir -p "build/$name/DEBIAN"
    cat >"build/$name/DEBIAN/control" <<END
Package: $name
Version: 5:99.0-1
Architecture: all
Maintainer: Tests <tests@example.org>
Depends: $depends
Description: stands in for a package of Docker's repository
END
    dpkg-deb --build --root-owner-group "build/$name" pool >/dev/null
    file=pool/${name}_99.0-1_all.deb
    {
        cat "build/$name/DEBIAN/control"
        printf 'Filename: %s\nSize: %d\nSHA256: %s\n\n' \
            "$file" "$(stat --format %s "$file")" "$(sha256sum "$file" | cut -d' ' -f1)"
    } >>"$packages"
done

cd "dists/$release"
cat >Release <<END
Origin: Docker
Suite: $release
Codename: $release
Date: $(date --utc --rfc-email)
Architectures: $(dpkg --print-architecture)
Components: stable
SHA256:
 $(sha256sum "${packages#"dists/$release/"}" | cut -d' ' -f1) $(stat --format %s "${packages#"dists/$release/"}") ${packages#"dists/$release/"}
END
for name in gpg other; do
    gpg --batch --quiet --passphrase '' --quick-generate-key "$name <$name@example.org>" rsa3072 sign never
    gpg --armor --export "$name@example.org" >"$directory/$name"
done
gpg --batch --quiet --local-user gpg@example.org --clearsign --output InRelease Release
chmod --recursive a+rX "$directory"
