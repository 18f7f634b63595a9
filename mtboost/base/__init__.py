# SPDX-License-Identifier: Apache-2.0
"""What all others use: tables, labels, tasks; checks of arguments, threads, signals, files."""
