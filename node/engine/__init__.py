"""What runs containers here: the Docker engine, or namespaces of an account without root."""

# In the environment of such an account: where it has its files (namespaces.py).
NATIVE = "TRAINYARD_NATIVE"
