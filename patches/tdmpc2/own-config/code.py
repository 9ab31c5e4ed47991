"""New code of the patch `own-config`."""


def import_deepcopy():
    from copy import deepcopy
