"""New code of the patch `seeding`."""


def seed_env(env, cfg, gym):
    env.action_space.seed(cfg.seed)
    if isinstance(env.unwrapped, gym.Env): # dm_control's are seeded when they are loaded
        env.unwrapped.reset(seed=cfg.seed)


def warm_start(self, torch):
    self._prev_mean = torch.zeros(self.cfg.horizon, self.cfg.action_dim, device=self.device)


class OnlineTrainer:
    def eval_apart(self):
        """
        Evaluate in an environment and a random stream that are determined by the
        seed and the step, and leave training as if nothing had happened.
        """
        cfg = deepcopy(self.cfg)
        cfg.seed = int(np.random.SeedSequence([cfg.seed, self._step]).generate_state(1)[0])
        train_env, prev_mean = self.env, self.agent._prev_mean.clone()
        device = self.agent.device
        with torch.random.fork_rng([device] if device.type == 'cuda' else []):
            torch.manual_seed(cfg.seed)
            try:
                self.env = make_env(cfg)
                return self.eval()
            finally:
                self.env = train_env
                self.agent._prev_mean.copy_(prev_mean)


def import_deepcopy():
    from copy import deepcopy


def import_make_env():
    from envs import make_env
