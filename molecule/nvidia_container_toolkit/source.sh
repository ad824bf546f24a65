#!/bin/sh
# Makes a signed package source with NVIDIA's container toolkit: source.sh DIRECTORY PROGRAMS
set -eu
mkdir -p "$1"
cd "$1"
export GNUPGHOME=/var/tmp/gnupg
mkdir -m 0700 "$GNUPGHOME"
for name in key other; do
    gpg --batch --quiet --passphrase '' --quick-generate-key "$name" ed25519 sign 2d
    gpg --batch --armor --export "=$name" > "$name.asc"
done

# The programs are NVIDIA's, divided up as in their two packages.
mkdir -p base/DEBIAN base/usr/bin toolkit/DEBIAN toolkit/usr/bin
for program in nvidia-ctk nvidia-container-runtime nvidia-cdi-hook; do
    install --mode 0755 "$2/$program" base/usr/bin
done
install --mode 0755 "$2/nvidia-container-runtime-hook" toolkit/usr/bin
# NVIDIA's own makes the runtime's settings when it is installed, and leaves them when it is removed.
cat > base/DEBIAN/postinst <<'POSTINST'
#!/bin/sh
set -e
[ "$1" = configure ] || exit 0
mkdir -p /etc/nvidia-container-runtime
nvidia-ctk --quiet config --config-file=/etc/nvidia-container-runtime/config.toml --in-place
POSTINST
chmod 0755 base/DEBIAN/postinst

package() { # DIRECTORY NAME VERSION DEPENDS
    cat > "$1/DEBIAN/control" <<CONTROL
Package: $2
Version: $3
Architecture: amd64
Maintainer: Trainyard
Depends: $4
Description: NVIDIA's container toolkit, packed for tests
CONTROL
    dpkg-deb --root-owner-group -Znone --build "$1" "$2_$3_amd64.deb"
}
# The newest, and one that lets a container out: that has the same programs, because it is to be refused unseen.
for version in 1.20.0-1 1.16.1-1; do
    package base nvidia-container-toolkit-base "$version" libc6
    package toolkit nvidia-container-toolkit "$version" "nvidia-container-toolkit-base (= $version)"
done
rm -r base toolkit

apt-ftparchive packages . > Packages
apt-ftparchive release . > /var/tmp/Release
mv /var/tmp/Release Release
gpg --batch --local-user =key --clearsign --output InRelease Release
gpgconf --kill all
