"""New code of the patch `checkpoint`."""


class Buffer:
    def state_dict(self):
        """
        All stored steps in the order in which they lie, and where the next one goes.
        """
        if self._num_eps == 0:
            return dict(num_eps=0)
        rows = self._buffer._storage[:]
        # A view would be saved with all of the storage behind it
        rows = rows.clone() if len(rows) < self._capacity else rows
        return dict(num_eps=self._num_eps, cursor=self._buffer._writer._cursor, rows=rows.to('cpu'))

    def load_state_dict(self, state_dict):
        """
        Fill a new buffer so that it lies as the saved one did and samples as it would.
        """
        assert self._num_eps == 0, 'The buffer holds episodes already.'
        self._num_eps = state_dict['num_eps']
        if self._num_eps == 0:
            return
        rows = state_dict['rows']
        self._buffer = self._init(rows)
        # The sampler needs to know which step was written last: the one before the cursor
        cursor = state_dict['cursor'] % len(rows)
        # In a larger buffer, the steps lie in the order in which they came
        self._buffer._writer._cursor = cursor if len(rows) == self._capacity else 0
        for part in (rows[cursor:], rows[:cursor]):
            if len(part) > 0:
                self._buffer.extend(part)


def import_omegaconf():
    from omegaconf import OmegaConf


def tensors_of_no_module(agent):
    tensors = {f'model.{k}': v for k, v in agent.model.state_dict().items()}
    tensors.update({f'scale.{k}': v for k, v in agent.scale.state_dict().items()})
    # The policy's gradients stay until its next update, and count for the norm by which the model's are clipped
    tensors.update({f'grad.{k}': p.grad for k, p in agent.model._pi.named_parameters() if p.grad is not None})
    return dict(tensors, _prev_mean=agent._prev_mean)


def load_gradients(agent, state):
    for name, p in agent.model._pi.named_parameters():
        if f'grad.{name}' in state['agent']:
            p.grad = state['agent'][f'grad.{name}'].to(p.device)


def import_checkpoint():
    from common.checkpoint import Checkpoint


def make_checkpoint(self, Checkpoint):
    self.checkpoint = Checkpoint(self.cfg, self.env)


def resume(self):
    resumed = self.checkpoint.load(self)
    if resumed is not None:
        obs, done, info, train_metrics, eval_next = resumed


def episode_begins(self):
    self.checkpoint.episode_begins()


def save_when_due(self, done, info, train_metrics, eval_next):
    if self.checkpoint.is_due(done):
        self.checkpoint.save(self, done, info, train_metrics, eval_next)


def save_at_the_end(self, done, info, train_metrics, eval_next):
    if self.checkpoint.enabled:
        self.checkpoint.save(self, done, info, train_metrics, eval_next)
