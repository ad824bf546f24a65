#!/bin/sh
# Writes stand-ins for /sys: stand_ins.sh DIRECTORY
set -eu

device() { # MACHINE SLOT VENDOR DEVICE CLASS
    mkdir -p "$1/bus/pci/devices/$2"
    echo "$3" > "$1/bus/pci/devices/$2/vendor"
    echo "$4" > "$1/bus/pci/devices/$2/device"
    echo "$5" > "$1/bus/pci/devices/$2/class"
}

machine() { # NAME
    device "$1" 0000:00:1f.0 0x8086 0x7a04 0x060100 # a bridge
    device "$1" 0000:03:00.0 0x1a03 0x2000 0x030000 # the server's own screen
    mkdir -p "$1/module"
}

gpu_machine() { # NAME
    machine "$1"
    device "$1" 0000:3b:00.0 0x10de 0x2335 0x030200 # NVIDIA H200
    device "$1" 0000:3c:00.1 0x10de 0x228b 0x040300 # NVIDIA's sound, which is no GPU
}

mkdir -p "$1"
cd "$1"
machine none
gpu_machine fresh
mkdir fresh/module/nouveau
gpu_machine idle
gpu_machine older
mkdir older/module/nvidia
echo 470.82.01 > older/module/nvidia/version
