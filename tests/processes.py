# SPDX-License-Identifier: Apache-2.0
"""Scripts in separate processes of Python."""

import os
import subprocess
import sys


def environment(**variables):
    """Variables with which another Python finds the modules that this one finds."""
    paths = filter(None, map(os.path.abspath, sys.path))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **variables}


def run_script(script, *arguments, check=True, **options):
    """Run a script, with the output as text; unless ``check`` is False it must end well."""
    command = [sys.executable, "-P", "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert not check or done.returncode == 0, done.stderr
    return done
