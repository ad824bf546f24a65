#!/usr/bin/env python3
"""Runs the registry as a pull does, and prints what it answers: try_push.py ACTION DIRECTORY"""

import http.client
import importlib.util
import socket
import sys
from pathlib import Path

REQUESTS = (
    ("GET", "/v2/"),
    ("POST", "/v2/trainyard/trainer/blobs/uploads/"),
    ("PUT", "/v2/trainyard/trainer/manifests/current"),
    ("DELETE", "/v2/trainyard/trainer/blobs/sha256:" + "0" * 64),
)

action, directory = Path(sys.argv[1]), Path(sys.argv[2])
specification = importlib.util.spec_from_file_location("registry", action)
assert specification is not None
assert specification.loader is not None
registry = importlib.util.module_from_spec(specification)
specification.loader.exec_module(registry)

program = str(directory / "package/usr/bin/docker-registry")
with registry.readable_registry(program, directory) as name:
    for method, path in REQUESTS:
        connection = http.client.HTTPConnection("registry")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(directory / name))
        connection.request(method, path)
        print(method, connection.getresponse().status)
        connection.close()
