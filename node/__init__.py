"""What runs on a machine and no module of Ansible does. It knows neither Ansible nor torch."""
