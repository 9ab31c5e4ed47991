"""New code of the patch `save-on-exit`."""


def import_stop():

    from . import stop as stoplib


def await_signals(args, stoplib):
    stop = stoplib.Stop(args.save_on_exit)


def save_at_the_end(args, cp):
    if args.save_on_exit:
        cp.save()


def end_as_told(stop):
    stop.finish()
