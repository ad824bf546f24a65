#!/bin/sh
# Makes a signed package source, in the form of NVIDIA's container toolkit: source.sh DIRECTORY
# The programs in its packages are stand-ins, which note how they are called.
set -eu
mkdir -p "$1"
cd "$1"
export GNUPGHOME=/var/tmp/gnupg
mkdir -m 0700 "$GNUPGHOME"
for name in key other; do
    gpg --batch --quiet --passphrase '' --quick-generate-key "$name" ed25519 sign 2d
    gpg --batch --armor --export "=$name" > "$name.asc"
done

program() { # PATH; what it does after it noted its call is the input
    mkdir -p "${1%/*}"
    cat note - > "$1"
    chmod 0755 "$1"
}
cat > note <<'NOTE'
#!/bin/sh
echo "${0##*/} $*" >> /var/log/toolkit-calls
NOTE
# Divided up as in NVIDIA's two packages.
mkdir -p base/DEBIAN toolkit/DEBIAN
program base/usr/bin/nvidia-ctk <<'DOES'
for argument; do
    case $argument in
    --output=*) cp /opt/stand-in-driver/specification.json "${argument#--output=}" ;;
    esac
done
DOES
program base/usr/bin/nvidia-container-runtime <<'DOES'
exec runc "$@"
DOES
program base/usr/bin/nvidia-cdi-hook < /dev/null
program toolkit/usr/bin/nvidia-container-runtime-hook < /dev/null
rm note
# NVIDIA's own makes the runtime's settings when it is installed, and leaves them when it is removed.
cat > base/DEBIAN/postinst <<'POSTINST'
#!/bin/sh
set -e
[ "$1" = configure ] || exit 0
mkdir -p /etc/nvidia-container-runtime
touch /etc/nvidia-container-runtime/config.toml
POSTINST
chmod 0755 base/DEBIAN/postinst

package() { # DIRECTORY NAME VERSION DEPENDS
    cat > "$1/DEBIAN/control" <<CONTROL
Package: $2
Version: $3
Architecture: all
Maintainer: Trainyard
Depends: $4
Description: stand-in for NVIDIA's container toolkit, for tests
CONTROL
    dpkg-deb --root-owner-group -Znone --build "$1" "$2_$3_all.deb"
}
# One before it kept a specification itself, one that does, and one that lets a container out, which is to be refused
# unseen.
for version in 1.16.1-1 1.17.9-1 1.20.0-1; do
    if [ "$version" = 1.20.0-1 ]; then
        units=base/usr/lib/systemd/system
        mkdir -p $units
        printf '[Service]\nType=oneshot\nExecStart=/bin/sh -c "%s"\n[Install]\nWantedBy=multi-user.target\n' \
            'mkdir -p /run/cdi; nvidia-ctk cdi generate --output=/run/cdi/nvidia.yaml' > $units/nvidia-cdi-refresh.service
        printf '[Path]\nPathChanged=/usr/bin/nvidia-ctk\n[Install]\nWantedBy=multi-user.target\n' \
            > $units/nvidia-cdi-refresh.path
    fi
    package base nvidia-container-toolkit-base "$version" dash
    package toolkit nvidia-container-toolkit "$version" "nvidia-container-toolkit-base (= $version)"
    for other in libnvidia-container-tools libnvidia-container1; do
        mkdir -p "$other/DEBIAN"
        package "$other" "$other" "$version" dash
    done
done
rm -r base toolkit libnvidia-container-tools libnvidia-container1

apt-ftparchive packages . > Packages
apt-ftparchive release . > /var/tmp/Release
mv /var/tmp/Release Release
gpg --batch --local-user =key --clearsign --output InRelease Release
gpgconf --kill all
