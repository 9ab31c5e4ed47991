"""Wrong edits of official DreamerV3, each of which has to be rejected, or unproved by name (see `edits_tdmpc2`)."""

from tests.gates.edited_forks import edit

AGENT, RSSM, JAX = "dreamerv3/agent.py:", "dreamerv3/rssm.py:RSSM", "embodied/jax/"
JUDGE = "default-identity"  # with its blind spots; what it cannot see is unproved

WRONG = [
    edit("no uniform part in latents", f"{RSSM}._dist", "self.unimix", "0.0", judge=JUDGE),
    edit("no free nats for the posterior", f"{RSSM}.loss", "rep = jnp.maximum(rep, self.free_nats)", "rep = 1.0 * rep",
         judge=JUDGE),
    edit("prior's loss reaches the posterior", f"{RSSM}.loss", "self._dist(sg(post)).kl(self._dist(prior))",
         "self._dist(post).kl(self._dist(prior))", judge=JUDGE),
    edit("gate of the recurrent cell", f"{RSSM}._core", "jax.nn.sigmoid(update - 1)", "jax.nn.sigmoid(update)",
         judge=JUDGE),
    edit("returns below the limit", f"{JAX}utils.py:Normalize.stats", "jnp.maximum(self.limit, hi - lo)", "(hi - lo)",
         judge=JUDGE),
    edit("slow target twice as fast", f"{JAX}utils.py:SlowModel.update", "jnp.where($C, self.rate, 0)",
         "jnp.where($C, 2 * self.rate, 0)", judge=JUDGE),
    edit("values beyond the last bin", f"{JAX}outs.py:TwoHot.loss", "jnp.clip(above, 0, len(self.bins) - 1)",
         "jnp.clip(above, 0, len(self.bins) - 2)", judge=JUDGE),
    edit("clipping by absolute norm", f"{JAX}opt.py:clip_by_agc", "clip * jnp.maximum(pmin, pnorm)", "clip",
         judge=JUDGE),
    edit("entropy left out", f"{AGENT}imag_loss", "actent * sum(ents.values())", "0.0", judge=JUDGE),
    edit("returns go on beyond the last step", f"{AGENT}lambda_return", "(1 - f32(last))[:, 1:] * lam",
         "jnp.full_like(rew[:, 1:], lam)", judge=JUDGE),
    edit("continuation undiscounted", f"{AGENT}Agent.loss", "1 - 1 / self.config.horizon", "1.0", judge=JUDGE),
    edit("sampler of a constant seed", "embodied/core/selectors.py:Uniform.__init__", "np.random.default_rng(seed)",
         "np.random.default_rng(1)", judge=JUDGE),
    edit("sequences of the step before", "embodied/core/replay.py:Replay._insert",
         "self.items[itemid] = (chunkid, index)", "self.items[itemid] = (chunkid, max(0, index - 1))", judge=JUDGE),
    edit("actions after the last step kept", "embodied/core/driver.py:Driver._step", "obs['is_last'].any()", "False",
         judge=JUDGE),
    edit("reward of the last repeat", "embodied/core/wrappers.py:ActionRepeat.step", "reward += obs['reward']",
         "reward = obs['reward']", judge=JUDGE),
    edit("trains a sequence later", "embodied/run/train.py:train", "len(replay) < args.batch_size * args.batch_length",
         "len(replay) <= args.batch_size * args.batch_length", judge=JUDGE),
    edit("checkpoints without replay", "embodied/run/train.py:train", "cp.replay = replay", "", "delete", judge=JUDGE),
    edit("scores averaged", "embodied/run/train.py:train", "episode.add('score', tran['reward'], agg='sum')",
         "episode.add('score', tran['reward'], agg='avg')", judge=JUDGE),
    edit("a default", "dreamerv3/configs.yaml:defaults.run.train_ratio", "64.0", judge=JUDGE),
]  # fmt: skip
