"""New code of the patch `seed-steps`."""


def seed_steps(cfg, env, STEPS):
    if cfg.get('seed_steps', '???') in {None, '???'}: # Not given
        cfg.seed_steps = STEPS
