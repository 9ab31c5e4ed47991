"""New code of the patch `utd`."""


def pretraining(self):
    num_updates = self.cfg.seed_steps if self.cfg.pretrain_updates is None else self.cfg.pretrain_updates


def metrics(num_updates, train_metrics, _train_metrics):
    if num_updates > 0:
        train_metrics.update(_train_metrics)


def parse_utd(self, Fraction):
    self._utd = Fraction(str(self.cfg.utd)).limit_denominator(10**6)
    assert self._utd > 0, f'Expected a positive number of updates per step, got utd={self.cfg.utd}.'


class OnlineTrainer:
    def updates_until(self, step):
        """
        Number of updates due up to and including a step, beyond pretraining.
        """
        steps = step - self.cfg.seed_steps
        return steps * self._utd.numerator // self._utd.denominator


def import_fraction():
    from fractions import Fraction
