"""New code of the patch `seeding` where planning draws from NumPy's random stream too."""


class OnlineTrainer:
    def eval_apart(self):
        """
        Evaluate in an environment and random streams that are determined by the
        seed and the step, and leave training as if nothing had happened.
        """
        cfg = deepcopy(self.cfg)
        cfg.seed = int(np.random.SeedSequence([cfg.seed, self._step]).generate_state(1)[0])
        train_env, prev_mean, numpy_state = self.env, self.agent._prev_mean.clone(), np.random.get_state()
        device = self.agent.device
        with torch.random.fork_rng([device] if device.type == 'cuda' else []):
            torch.manual_seed(cfg.seed)
            np.random.seed(cfg.seed)
            try:
                self.env = make_env(cfg)
                return self.eval()
            finally:
                self.env = train_env
                self.agent._prev_mean.copy_(prev_mean)
                np.random.set_state(numpy_state)
