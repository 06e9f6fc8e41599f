# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""`python -m perigee` is the command `perigee`."""

from perigee.commands.app import main

if __name__ == "__main__":
    main()
