"""Ansible: inventories, playbooks, their events, and the names of roles that yard relies on."""
