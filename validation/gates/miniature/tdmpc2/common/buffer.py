"""Replay buffer of the miniature (not TD-MPC2): stores episodes, gives slices of them to the agent."""

import torch
from torchrl.data.replay_buffers import LazyTensorStorage, ReplayBuffer
from torchrl.data.replay_buffers.samplers import SliceSampler


class Buffer:
	"""A ring of time steps that remembers which episode each belongs to."""

	def __init__(self, cfg):
		self._device = torch.device('cuda:0')
		# A run makes no more steps than this, so no more need fit.
		self._capacity = min(cfg.buffer_size, cfg.steps)
		self._slice_len, self._num_slices = cfg.horizon + 1, cfg.batch_size
		self._num_eps = 0
		self._sampler = SliceSampler(
			num_slices=self._num_slices,
			traj_key='episode',
			truncated_key=None,
			strict_length=True,
		)

	@property
	def capacity(self):
		"""How many time steps fit."""
		return self._capacity

	@property
	def num_eps(self):
		"""How many episodes were ever added."""
		return self._num_eps

	def _init(self, tds):
		"""A storage for steps like those of `tds`, near the agent if it leaves half of the memory free."""
		mem_free, _ = torch.cuda.mem_get_info()
		step_bytes = sum(x.numel() * x.element_size() for x in tds[:1].values(True, True))
		needed = step_bytes * self._capacity
		storage_device = 'cuda:0' if needed < mem_free / 2 else 'cpu'
		print(f'Replay buffer: {self._capacity:,} steps, {needed / 1e6:.1f} MB on {storage_device}')
		return ReplayBuffer(
			storage=LazyTensorStorage(self._capacity, device=torch.device(storage_device)),
			sampler=self._sampler,
			batch_size=self._num_slices * self._slice_len,
		)

	def load(self, td):
		"""Adds many episodes, batch size (episodes, T+1), and returns how many there are then."""
		for episode in td:
			self.add(episode)
		return self._num_eps

	def add(self, td):
		"""Adds one episode, batch size (T+1,), and returns how many there are then."""
		episode = torch.full(td.batch_size, self._num_eps, dtype=torch.int64, device=td.device)
		td = td.clone(recurse=False).set('episode', episode)
		first, self._num_eps = self._num_eps == 0, self._num_eps + 1
		if first:
			self._buffer = self._init(td)
		self._buffer.extend(td)
		return self._num_eps

	def _prepare_batch(self, td):
		"""Slices (B, H+1) to time-first tensors on the agent's device: what `sample` returns."""
		td = td.select('obs', 'action', 'reward', 'terminated', 'task', strict=False)
		td = td.transpose(0, 1).to(self._device)
		# A step is stored with the action that led to it, so the slice's first one is not part of it.
		action, reward, terminated = (td[key][1:].contiguous() for key in ('action', 'reward', 'terminated'))
		obs = td['obs'].contiguous()
		task = td['task'][0].contiguous() if 'task' in td.keys() else None
		return obs, action, reward.unsqueeze(-1), terminated.unsqueeze(-1), task

	def sample(self):
		"""obs (H+1, B, obs_dim), action (H, B, A), reward and terminated (H, B, 1), task None."""
		return self._prepare_batch(self._buffer.sample().view(-1, self._slice_len))
