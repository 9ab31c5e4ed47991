"""New code of the patch `seeding`."""


def keep_report_seed(self, report_seed):
    self.report_rng = (
            None if report_seed is None else np.random.default_rng(report_seed))


class Replay:
    def _draw(self, mode):
        if mode == 'train' or self.report_rng is None:
            return self.sampler()
        # Uniform over the stored items, whose ids are consecutive, so that
        # neither random state nor priorities of the sampler change.
        return self.itemid - 1 - self.report_rng.integers(len(self.fifo)).item()


def own_report_seed(config, kwargs):
    if config.replay.separate_report:
        kwargs['report_seed'] = [config.seed, 1]


def own_report_batches(config, mode, stream):
    if mode == 'report' and config.replay.separate_report:
        # Counted apart from the training batches, whose seeds start at zero.
        stream.batches = elements.Counter(2 ** 31)


def batches_of_stream(self, st):
    batches = getattr(st, 'batches', self.n_batches)


def stream_when_asked(self, st, fn):
    if not self.jaxcfg.prefetch:
        return embodied.streams.Map(st, fn)


def make_clock(args):
    if args.clock not in ('seconds', 'steps'):
        raise ValueError(f"run.clock is 'seconds' or 'steps', not {args.clock!r}")
    if args.clock == 'steps':
        make_clock = bind(elements.when.Every, initial=False)
    else:
        make_clock = embodied.LocalClock
