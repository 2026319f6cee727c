"""Other SDKs' clients, one after the other: `python -m tests.hosts.run`. The exit code counts the failures."""

from __future__ import annotations

import sys

from tests.hosts import python_1x, typescript

if __name__ == "__main__":
    sys.exit(sum(1 for client in (python_1x, typescript) if client.main() != 0))
