"""Chaos experiments: faults, their limits, their undos, and the verdict on how the cluster reacted.

Folders, from top to bottom; each stands on those below it, which import-linter checks:

``surface``     pytest options and plugin, commands
``engine``      the run of all experiments, of one, and of its child process; ``catalogue``: the experiment files, read strictly
``verdict``     what an experiment's folder proves
``activities``  what experiments do: the functions that their documents name
``act``         the only way to a fault, and the pods that an experiment starts for itself
``plan``        targets, chosen once; ``safety``: gates, settings, Lease, abort flag
``observe``     what is seen of the cluster; ``ledger``: undos, written down before the act
``cluster``     reading and writing, rights, namespaces, programs on hosts
``model``       experiments, plans, conditions, lines of the ledger: data alone
"""
