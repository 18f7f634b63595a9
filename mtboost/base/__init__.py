# SPDX-License-Identifier: Apache-2.0
"""Common parts: tables, labels, tasks; checks of arguments, threads, signals, files."""
