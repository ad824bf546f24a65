#!/bin/sh
# Makes a signed package source with a stand-in for NVIDIA's container toolkit: source.sh DIRECTORY
set -eu
mkdir -p "$1"
cd "$1"
export GNUPGHOME=/var/tmp/gnupg
mkdir -m 0700 "$GNUPGHOME"
for name in key other; do
    gpg --batch --quiet --passphrase '' --quick-generate-key "$name" ed25519 sign 2d
    gpg --batch --armor --export "=$name" > "$name.asc"
done

# A runtime that notes how it was called and is runc else, and the hook that the engine gives the wish for GPUs to.
mkdir -p build/DEBIAN build/usr/bin
cat > build/DEBIAN/control <<'CONTROL'
Package: nvidia-container-toolkit
Version: 0
Architecture: all
Maintainer: Trainyard
Description: stand-in for tests
CONTROL
cat > build/usr/bin/nvidia-container-runtime <<'PROGRAM'
#!/bin/sh
echo "runtime $*" >> /var/tmp/toolkit.log
exec runc "$@"
PROGRAM
cat > build/usr/bin/nvidia-container-runtime-hook <<'PROGRAM'
#!/bin/sh
echo "hook $*" >> /var/tmp/toolkit.log
PROGRAM
chmod 0755 build/usr/bin/*
# The newest, and one that lets a container out.
for version in 1.20.0-1 1.16.1-1; do
    sed -i "s/^Version: .*/Version: $version/" build/DEBIAN/control
    dpkg-deb --root-owner-group --build build "nvidia-container-toolkit_${version}_all.deb"
done
rm -r build

apt-ftparchive packages . > Packages
apt-ftparchive release . > /var/tmp/Release
mv /var/tmp/Release Release
gpg --batch --local-user =key --clearsign --output InRelease Release
gpgconf --kill all
