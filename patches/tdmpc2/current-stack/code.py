"""New code of the patch `current-stack`."""


def template(self, modules):
    self.module = self._without_params(deepcopy(modules[0]))


class Ensemble:
    @staticmethod
    def _without_params(module):
        """
        Replaces a module's parameters by unregistered meta tensors, the places
        into which a call swaps the parameters of one member.
        """
        for submodule in module.modules():
            for name, p in list(submodule.named_parameters(recurse=False)):
                delattr(submodule, name)
                setattr(submodule, name, torch.empty_like(p, device='meta', requires_grad=False))
        return module


def match_metadata(target_state_dict, source_state_dict, episodic):
    """
    Adds or drops the entries for batch size and device that tensordict keeps in
    a state dict or not, depending on its version, and drops entries without a value.
    Likewise with the termination head where it is not used: some versions have it
    for every task, others for episodic ones only.
    """
    metadata = ('.__batch_size', '.__device')
    unused = () if episodic else ('_termination.',)
    state_dict = {
        k: v for k, v in source_state_dict.items()
        if v is not None and not k.endswith(metadata) and (k in target_state_dict or not k.startswith(unused))
    }
    state_dict.update({
        k: v for k, v in target_state_dict.items()
        if k.endswith(metadata) or k.startswith(unused) and k not in state_dict
    })
    return state_dict


def with_metadata(state_dict):
    """
    The state dict with all entries that the conversion of old checkpoints expects,
    those without a value that this model does not have.
    """
    prefixes = ('_Qs.params.', '_detach_Qs_params.', '_target_Qs_params.')
    expected = [p + k for p in prefixes for k in ('__batch_size', '__device')] + ['_action_masks']
    return {**dict.fromkeys(expected), **state_dict}


def metadata(self, state_dict, match_metadata):
    state_dict = match_metadata(self.model.state_dict(), state_dict, self.cfg.episodic)


def metadata_without_termination(self, state_dict, match_metadata):
    state_dict = match_metadata(self.model.state_dict(), state_dict, episodic=False)


def log_level(gym, LEVEL):
    if hasattr(gym.logger, 'set_level'):
        gym.logger.set_level(LEVEL)
    else:
        gym.logger.min_level = LEVEL


def import_gym():
    try:
        import gym
    except ImportError: # gymnasium has taken its place
        import gymnasium as gym


def maniskill_if_there():
    try:
        from envs.maniskill import make_env as make_maniskill_env
    except ImportError:
        def make_maniskill_env(cfg):
            raise UnknownTaskError(cfg.task)


def metaworld_if_there():
    try:
        from envs.metaworld import make_env as make_metaworld_env
    except ImportError:
        def make_metaworld_env(cfg):
            raise UnknownTaskError(cfg.task)


def myosuite_if_there():
    try:
        from envs.myosuite import make_env as make_myosuite_env
    except ImportError:
        def make_myosuite_env(cfg):
            raise UnknownTaskError(cfg.task)


def import_match_metadata():
    from common.layers import match_metadata, with_metadata


class TensorWrapper:
    @property
    def max_episode_steps(self):
        return self.env.max_episode_steps

    def render(self, *args, **kwargs):
        return self.env.render(*args, **kwargs)


class PixelWrapper:
    def rand_act(self):
        return self.env.rand_act()
