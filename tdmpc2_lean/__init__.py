"""The official TD-MPC2 and DreamerV3, patched by small named patches and proved equal by gates.

`patches`, `references` and `validation` are parts of this package that lie beside it in a checkout, where a reader
looks for them first. In the package's folder stand links to them, so that a bare checkout (`python -m tdmpc2_lean`
from its root), an editable installation, type checkers and the build of a wheel all find the same modules, and a
wheel puts none of these names at the top of site-packages.
"""

__version__ = "0.1.0"
