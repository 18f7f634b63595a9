# SPDX-License-Identifier: Apache-2.0
"""What a call of ``fit`` asks for: arguments, rows, objectives, settings, validation rows."""
