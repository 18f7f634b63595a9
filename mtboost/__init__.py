"""mtboost: multi-task gradient-boosted trees as ordinary boosters."""
