#!/bin/sh
# Makes a signed package source with NVIDIA's container toolkit: source.sh DIRECTORY
set -eu
mkdir -p "$1"
cd "$1"
export GNUPGHOME=/var/tmp/gnupg
mkdir -m 0700 "$GNUPGHOME"
for name in key other; do
    gpg --batch --quiet --passphrase '' --quick-generate-key "$name" ed25519 sign 2d
    gpg --batch --armor --export "=$name" > "$name.asc"
done

# NVIDIA's programs, and a stand-in for the hook, which is not among the tools.
mkdir -p build/DEBIAN build/usr/bin build/etc/nvidia-container-runtime
cat > build/DEBIAN/control <<'CONTROL'
Package: nvidia-container-toolkit
Version: 0
Architecture: amd64
Maintainer: Trainyard
Description: NVIDIA's programs in a package of the tests
CONTROL
for program in nvidia-ctk nvidia-container-runtime nvidia-cdi-hook nvidia-container-runtime-hook; do
    cp "/opt/mock-driver/bin/$program" build/usr/bin
done
# The specification that the machine made of its driver at its start: only there is the mock's configuration.
cat > build/etc/nvidia-container-runtime/config.toml <<'CONFIG'
[nvidia-container-runtime]
mode = "cdi"
runtimes = ["runc"]

[nvidia-container-runtime.modes.cdi]
default-kind = "nvidia.com/gpu"
CONFIG
chmod 0755 build/usr/bin/*
# The newest, and one that lets a container out.
for version in 1.20.0-1 1.16.1-1; do
    sed -i "s/^Version: .*/Version: $version/" build/DEBIAN/control
    dpkg-deb -Znone --root-owner-group --build build "nvidia-container-toolkit_${version}_amd64.deb"
done
rm -r build

apt-ftparchive packages . > Packages
apt-ftparchive release . > /var/tmp/Release
mv /var/tmp/Release Release
gpg --batch --local-user =key --clearsign --output InRelease Release
gpgconf --kill all
