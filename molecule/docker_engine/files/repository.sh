#!/usr/bin/env bash
# Makes a signed repository of packages that are named like Docker's: repository.sh DIRECTORY RELEASE
#
# Engine and client are the distribution's under Docker's names, which do not go together with the distribution's. What is
# tried with it is all that apt does: the signature, the key, the choice of packages. DIRECTORY/gpg is the key;
# DIRECTORY/other is another one.
set -euo pipefail
directory=$1
release=$2
GNUPGHOME=$(mktemp --directory)
export GNUPGHOME
trap 'gpgconf --kill all; rm -rf "$GNUPGHOME"' EXIT

mkdir -p "$directory/dists/$release/stable/binary-$(dpkg --print-architecture)" "$directory/pool"
cd "$directory"
packages=dists/$release/stable/binary-$(dpkg --print-architecture)/Packages

renamed() { # PACKAGE NAME
    (cd build && apt-get --quiet=2 download "$1" && dpkg-deb --raw-extract "$1"_*.deb "$2")
    sed --in-place --regexp-extended --expression='/^(Breaks|Conflicts|Provides|Replaces|Suggests|Recommends):/d' \
        --expression="s/^Package:.*/Package: $2/; s/^Version:.*/Version: 5:99.0-1/" \
        --expression="/^Depends:/a Conflicts: $1\nReplaces: $1" "build/$2/DEBIAN/control"
}

empty() { # NAME
    mkdir -p "build/$1/DEBIAN"
    cat >"build/$1/DEBIAN/control" <<END
Package: $1
Version: 5:99.0-1
Architecture: all
Maintainer: Tests <tests@example.org>
Depends: docker-ce
Description: stands in for a package of Docker's repository
END
}

mkdir build
renamed docker.io docker-ce
empty containerd.io
# Debian 12 has the client in the engine's package.
if apt-cache show docker-cli >/dev/null 2>&1; then
    renamed docker-cli docker-ce-cli
else
    empty docker-ce-cli
fi
for name in docker-ce docker-ce-cli containerd.io; do
    file=pool/${name}_99.0-1.deb
    dpkg-deb --build -Znone --root-owner-group "build/$name" "$file" >/dev/null
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
