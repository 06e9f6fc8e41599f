# SPDX-License-Identifier: GPL-2.0-only OR MIT
"""The interface of `import perigee`: studies, results and link profiles, for notebooks and for tests of one's own."""
