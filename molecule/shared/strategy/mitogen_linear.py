"""Ansible's linear strategy, with modules in one lasting Python a node instead of a new one each.

For the looks of the scenarios, of which each is small and a new Python is most of the time. What a
role does is applied, repeated and taken away as its users do it, with Ansible's own strategy.
"""

from ansible_mitogen import affinity, loaders, strategy  # type: ignore[import-untyped]

# On less than four cores Mitogen would keep all its workers on one.
affinity.policy = affinity.Policy()

_Linear = loaders.strategy_loader.get("linear", class_only=True)


class StrategyModule(strategy.StrategyMixin, _Linear):  # type: ignore[misc, valid-type]
    """See above."""
