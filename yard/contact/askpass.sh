#!/bin/sh
# What ssh asks for a password (SSH_ASKPASS): ssh takes one neither from its command line nor from a pipe. It is told
# to the machine that it is for alone: the ssh of a bastion on the way asks this program as well. A question begins with
# what ssh itself says of who asks; what a server adds comes behind it, and is not believed.
case $1 in
    "$TRAINYARD_ASKPASS_LOGIN's password: "* | "($TRAINYARD_ASKPASS_LOGIN) "*) printf '%s\n' "$TRAINYARD_ASKPASS_PASSWORD" ;;
    *) exit 1 ;;
esac
