#!/usr/bin/python
"""Ansible module: fetches an image by its digest from a registry on the node's loopback.

The engine fetches the layers that it lacks, checks all against the digest, and knows the image by
`reference` afterwards. With `peer`, the loopback is that of another node, on which `user` logs in.
The action trainer_image_registry runs it, and hands on `delivered`, or the `reason` why it is not.
"""

import http.client
import os
import pwd
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.trainer_image_docker import DockerError, docker, repository
from ansible.module_utils.trainer_image_ports import exposed_here, free_port, listening

# Seconds until the registry must answer through another node.
START_LIMIT = 30.0
# An engine downloads a layer once, whoever asks for it. Where a delivery was cut off a moment ago,
# it still tries that one's port, where nobody listens any more; after some seconds it gives up, and
# fails whoever has asked for the same layer meanwhile.
REFUSED = re.compile(r"dial tcp 127\.0\.0\.1:(\d+): connect: connection refused")
# The kernel ends ssh when this module, $0, is gone; where it was gone before, ssh does not begin.
BOUND_TO_MODULE = ("setpriv", "--pdeathsig", "TERM", "sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"')
SSH_OPTIONS = (
    "BatchMode=yes",
    "ControlPath=none",
    "ExitOnForwardFailure=yes",
    "ForwardAgent=no",
    "StrictHostKeyChecking=yes",
    "ConnectTimeout=10",
    "ServerAliveInterval=10",
    "ServerAliveCountMax=3",
)


class PeerError(Exception):
    """The registry cannot be reached on another node."""


def answers(port: int) -> bool:
    """Whether a registry answers on a port of the loopback."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_LIMIT)
    try:
        connection.request("GET", "/v2/")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


@contextmanager
def forwarding(peer: str, user: str, port: int) -> Iterator[int]:
    """Give a port on this loopback that leads to one on the loopback of another node.

    Raises:
        PeerError: the other node, or the way to it, does not allow it.
    """
    try:
        account = pwd.getpwnam(user)
    except KeyError as error:
        raise PeerError(f"there is no user {user}") from error
    local = free_port()
    command = [
        *("ssh", "-N", "-T", *(part for option in SSH_OPTIONS for part in ("-o", option))),
        *("-L", f"127.0.0.1:{local}:127.0.0.1:{port}", "-l", user, "--", peer),
    ]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*BOUND_TO_MODULE, str(os.getpid()), *command],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
            user=account.pw_uid, group=account.pw_gid,
            extra_groups=os.getgrouplist(user, account.pw_gid),
            env={"PATH": os.environ["PATH"], "HOME": account.pw_dir, "LC_ALL": "C"},
        )  # fmt: skip
        try:
            deadline = time.monotonic() + START_LIMIT
            while not listening(local) and process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.05)
            if not answers(local):
                log.seek(0)
                lines = log.read().decode(errors="replace").strip().splitlines()
                raise PeerError(f"ssh to {peer}: {lines[-1] if lines else 'no registry answers'}")
            yield local
        finally:
            process.terminate()
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def fetch(reference: str, digest: str, port: int) -> None:
    """Have the engine fetch an image, and know it by its own name.

    Raises:
        DockerError: it does not.
    """
    fetched = f"127.0.0.1:{port}/{repository(reference)}@{digest}"
    try:
        docker("image", "pull", "--quiet", fetched)
    except DockerError as error:
        refused = REFUSED.search(str(error))
        if refused is None or int(refused[1]) == port:
            raise
        docker("image", "pull", "--quiet", fetched)
    docker("image", "tag", fetched, reference)
    docker("image", "rm", fetched)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "reference": {"type": "str", "required": True},
            "digest": {"type": "str", "required": True},
            "port": {"type": "int", "required": True},
            "peer": {"type": "str"},
            "user": {"type": "str"},
        },
        required_together=[("peer", "user")],
    )
    reference, digest, port = (module.params[name] for name in ("reference", "digest", "port"))
    try:
        if module.params["peer"]:
            with forwarding(module.params["peer"], module.params["user"], port) as local:
                fetch(reference, digest, local)
            module.exit_json(changed=True, delivered=True)
        # sshd's setting GatewayPorts overrules what was asked of it.
        if exposed_here(port):
            module.exit_json(
                changed=False,
                delivered=False,
                reason="the node's sshd opens forwarded ports to its network (GatewayPorts yes)",
            )
        fetch(reference, digest, port)
    except PeerError as error:
        module.exit_json(changed=False, delivered=False, reason=str(error))
    except DockerError as error:
        module.fail_json(msg=f"{reference} cannot be fetched from the registry: {error}")
    module.exit_json(changed=True, delivered=True)


if __name__ == "__main__":
    main()
