"""New code of the patch `plan-vec` where planning draws its elite from NumPy's stream (before September 2024)."""


class TDMPC2:
    @torch.no_grad()
    def act_vec(self, obs, t0=False, eval_mode=False, task=None):
        """
        Select actions for N environments at once. Single-task only.

        Args:
            obs (torch.Tensor): One observation from each environment (N, ...).
            t0 (bool or torch.Tensor): Whether an observation is the first in its
                episode; one for all environments, or a mask (N,).
            eval_mode (bool): Whether to use the mean of the action distribution.
            task (None): For symmetry with `act`.

        Returns:
            torch.Tensor: One action for each environment (N, action_dim).
        """
        obs = obs.to(self.device, non_blocking=True)
        if self.cfg.mpc:
            return self.plan_vec(obs, t0=t0, eval_mode=eval_mode, task=task).cpu()
        self._assert_single_task(task)
        mean, action, *_ = self.model.pi(self.model.encode(obs, None), None)
        return (mean if eval_mode else action).cpu()

    def plan_vec(self, obs, t0=False, eval_mode=False, task=None):
        """
        Plan for N environments at once; arguments are those of `act_vec`. Keeps a
        warm start for each environment, apart from the one that `plan` keeps.
        """
        self._assert_single_task(task)
        num_envs = obs.shape[0]
        t0 = torch.as_tensor(t0, dtype=torch.bool, device=self.device).expand(num_envs)
        prev_mean = getattr(self, '_prev_mean_vec', None)
        if prev_mean is None or prev_mean.shape[1] != num_envs:
            if not t0.all():
                raise ValueError(f'There are no earlier plans for {num_envs} environments: start with t0=True.')
            self._prev_mean_vec = torch.zeros(self.cfg.horizon, num_envs, self.cfg.action_dim, device=self.device)
        return self._plan_vec(obs, t0, eval_mode=eval_mode)

    @torch.no_grad()
    def _plan_vec(self, obs, t0, eval_mode=False):
        """
        Plan for N environments at once, by the same steps as `plan` takes for one.
        Tensors are laid out as (horizon, N, samples, action_dim).

        Args:
            obs (torch.Tensor): One observation from each environment (N, ...).
            t0 (torch.Tensor): Mask of environments that begin an episode (N,).
            eval_mode (bool): Whether to use the mean of the action distribution.

        Returns:
            torch.Tensor: One action for each environment (N, action_dim).
        """
        N, cfg = obs.shape[0], self.cfg
        num_new = cfg.num_samples - cfg.num_pi_trajs
        latent = self.model.encode(obs, None)
        actions = torch.empty(cfg.horizon, N, cfg.num_samples, cfg.action_dim, device=self.device)

        # Trajectories of the policy prior
        if cfg.num_pi_trajs > 0:
            z = latent.repeat_interleave(cfg.num_pi_trajs, dim=0)
            for t in range(cfg.horizon):
                _, action, *_ = self.model.pi(z, None)
                actions[t, :, :cfg.num_pi_trajs] = action.view(N, cfg.num_pi_trajs, cfg.action_dim)
                if t < cfg.horizon - 1:
                    z = self.model.next(z, action, None)

        # Warm start, except where an episode begins
        z = latent.repeat_interleave(cfg.num_samples, dim=0)
        mean = torch.zeros_like(self._prev_mean_vec)
        mean[:-1] = torch.where(t0.view(1, N, 1), mean[:-1], self._prev_mean_vec[1:])
        std = torch.full_like(mean, cfg.max_std)

        for _ in range(cfg.iterations):
            noise = torch.randn(cfg.horizon, N, num_new, cfg.action_dim, device=self.device)
            actions[:, :, cfg.num_pi_trajs:] = (mean.unsqueeze(2) + std.unsqueeze(2) * noise).clamp(-1, 1)

            # Elites of each environment
            flat_actions = actions.view(cfg.horizon, N * cfg.num_samples, cfg.action_dim)
            value = self._estimate_value(z, flat_actions, None).nan_to_num(0).view(N, cfg.num_samples)
            elite_value, elite_idx = value.topk(cfg.num_elites, dim=1)
            index = elite_idx.view(1, N, cfg.num_elites, 1).expand(cfg.horizon, -1, -1, cfg.action_dim)
            elites = actions.gather(2, index)

            # Fit the next distribution to them
            score = torch.exp(cfg.temperature * (elite_value - elite_value.amax(1, keepdim=True)))
            score = score / score.sum(1, keepdim=True)
            weight, total = score.view(1, N, cfg.num_elites, 1), score.sum(1).view(1, N, 1) + 1e-9
            mean = (weight * elites).sum(2) / total
            std = ((weight * (elites - mean.unsqueeze(2)) ** 2).sum(2) / total).sqrt()
            std = std.clamp(cfg.min_std, cfg.max_std)

        # One elite of each environment, drawn by its score
        choice = [np.random.choice(cfg.num_elites, p=p) for p in score.cpu().numpy()]
        action = elites[0, torch.arange(N, device=self.device), torch.tensor(choice, device=self.device)]
        if not eval_mode:
            action = action + std[0] * torch.randn(N, cfg.action_dim, device=self.device)
        self._prev_mean_vec.copy_(mean)
        return action.clamp(-1, 1)
