"""New code of the patch `checkpoint` where the replay buffer holds whole episodes."""


class Buffer:
    def state_dict(self):
        """
        All stored episodes in the order in which they lie, and where the next one goes.
        """
        if self._num_eps == 0:
            return dict(num_eps=0)
        episodes = self._buffer._storage[:]
        # A view would be saved with all of the storage behind it
        episodes = episodes.clone() if len(episodes) < self._capacity else episodes
        return dict(num_eps=self._num_eps, cursor=self._buffer._writer._cursor, episodes=episodes.to('cpu'))

    def load_state_dict(self, state_dict):
        """
        Fill a new buffer so that it lies as the saved one did and samples as it would.
        """
        assert self._num_eps == 0, 'The buffer holds episodes already.'
        self._num_eps = state_dict['num_eps']
        if self._num_eps == 0:
            return
        episodes = state_dict['episodes'].auto_batch_size_(2)
        self._buffer = self._init(episodes[0])
        cursor = state_dict['cursor'] % len(episodes)
        # In a larger buffer, the episodes lie in the order in which they came
        self._buffer._writer._cursor = cursor if len(episodes) == self._capacity else 0
        for part in (episodes[cursor:], episodes[:cursor]):
            if len(part) > 0:
                self._buffer.extend(part)
