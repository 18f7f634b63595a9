# SPDX-License-Identifier: Apache-2.0
"""How much each task shares: ``strategy="auto"``."""
