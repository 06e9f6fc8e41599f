# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The simulator on a Dask cluster."""
