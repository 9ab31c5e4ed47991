import json
import os
import random
from collections import defaultdict
from pathlib import Path
from time import monotonic, time

import numpy as np
import torch
from tensordict.tensordict import TensorDict


# Settings that say where and how a run is made, not what it computes
MAY_DIFFER = (
    'checkpoint', 'checkpoint_mid_episode', 'checkpoint_minutes', 'compile', 'data_dir', 'device',
    'enable_wandb', 'exp_name', 'save_agent', 'save_agent_every_eval', 'save_csv', 'save_video',
    'save_video_files', 'wandb_entity', 'wandb_project', 'wandb_silent', 'work_dir',
)


class Checkpoint:
    """
    Everything that the rest of an online run depends on, in one file of its
    folder: agent with optimisers, replay buffer, environment, counters and
    random states.
    """

    def __init__(self, cfg, env):
        self.path = Path(cfg.work_dir) / 'checkpoint.pt'
        self.enabled = cfg.checkpoint_minutes is not None
        if not self.enabled:
            return
        self._cfg, self._env = cfg, env
        self._settings = {k: str(v) for k, v in vars(cfg).items() if k not in MAY_DIFFER}
        self._random = environment_random(env)
        self._at_reset = None
        self._last = monotonic()

    def is_due(self, done):
        """
        Whether to save now, after a step that did or did not end its episode.
        """
        if not self.enabled or not (done or self._cfg.checkpoint_mid_episode):
            return False
        return monotonic() - self._last >= 60 * self._cfg.checkpoint_minutes

    def episode_begins(self):
        """
        To be told before the training environment is reset.
        """
        if self.enabled:
            self._at_reset = random_state(self._random)

    def save(self, trainer, done, info, train_metrics, eval_next):
        """
        Replace the earlier file in one step. A failure leaves that as it is.
        """
        agent = trainer.agent
        for name, x in agent_tensors(agent).items():
            if x.is_floating_point() and not torch.isfinite(x).all():
                raise FloatingPointError(f'{name} is not finite at step {trainer._step}: training has diverged.')
        state = dict(
            settings=self._settings,
            step=trainer._step,
            episode=trainer._ep_idx,
            elapsed_time=time() - trainer._start_time,
            evaluations=[[float(x) for x in row] for row in trainer.logger._eval],
            done=bool(done),
            success=float(info['success']),
            terminated=float(info['terminated']),
            train_metrics={k: v.detach() if torch.is_tensor(v) else float(v) for k, v in train_metrics.items()},
            eval_next=bool(eval_next),
            episode_rows=as_dict(torch.cat(trainer._tds)),
            agent=agent_tensors(agent),
            optim=agent.optim.state_dict(),
            pi_optim=agent.pi_optim.state_dict(),
            buffer={k: as_dict(v) for k, v in trainer.buffer.state_dict().items()},
            environment=dict(at_reset=self._at_reset, now=random_state(self._random)),
            action_space=random_state(self._env.action_space.np_random),
            python=json.dumps(random.getstate()),
            numpy=random_state(np.random),
            torch=torch.get_rng_state(),
            cuda=torch.cuda.get_rng_state(agent.device) if agent.device.type == 'cuda' else None,
        )
        temporary = self.path.with_suffix('.new')
        try:
            with open(temporary, 'wb') as f:
                torch.save(state, f)
                f.flush()
                os.fsync(f.fileno())
            os.replace(temporary, self.path)
        finally:
            temporary.unlink(missing_ok=True)
        folder = os.open(self.path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)
        self._last = monotonic()

    def load(self, trainer):
        """
        Bring a new trainer to where the saved one was.

        Returns:
            tuple: obs, done, info, train_metrics and eval_next of the training
                loop; None if nothing was saved.
        """
        if not self.enabled or not self.path.exists():
            return None
        state = torch.load(self.path, map_location='cpu', weights_only=True)
        keys = sorted(set(self._settings) | set(state['settings']))
        differ = [k for k in keys if self._settings.get(k) != state['settings'].get(k)]
        if 'steps' in differ and int(self._settings['steps']) > int(state['settings']['steps']):
            differ.remove('steps') # A run may be extended
        if differ:
            raise ValueError(f'{self.path} was saved with other settings: ' + ', '.join(
                f'{k}={state["settings"].get(k)} (now {self._settings.get(k)})' for k in differ))
        agent = trainer.agent
        trainer._step, trainer._ep_idx = state['step'], state['episode']
        trainer._start_time = time() - state['elapsed_time']
        trainer.logger._eval = [tuple(row) for row in state['evaluations']]
        with torch.no_grad():
            for name, x in agent_tensors(agent).items():
                x.copy_(state['agent'][name])
        agent.optim.load_state_dict(state['optim'])
        agent.pi_optim.load_state_dict(state['pi_optim'])
        trainer.buffer.load_state_dict({k: as_tensordict(v) for k, v in state['buffer'].items()})
        rows = as_tensordict(state['episode_rows'])
        trainer._tds = list(rows.split(1))
        obs, info = None, defaultdict(float, success=state['success'], terminated=torch.tensor(state['terminated']))
        self._at_reset = state['environment']['at_reset']
        if state['done']: # The environment is reset next
            set_random_state(self._random, state['environment']['now'])
        else:
            obs = self._repeat(rows)
            if random_state(self._random) != state['environment']['now']:
                raise RuntimeError('The environment drew other random numbers than before.')
        set_random_state(self._env.action_space.np_random, state['action_space'])
        version, internal, gauss = json.loads(state['python'])
        random.setstate((version, tuple(internal), gauss))
        set_random_state(np.random, state['numpy'])
        torch.set_rng_state(state['torch'])
        if agent.device.type == 'cuda' and state['cuda'] is not None:
            torch.cuda.set_rng_state(state['cuda'], agent.device)
        print(f'Resumed at step {trainer._step:,} from {self.path}')
        return obs, state['done'], info, state['train_metrics'], state['eval_next']

    def _repeat(self, rows):
        """
        Bring the environment to where it was by repeating the episode so far.
        """
        set_random_state(self._random, self._at_reset)
        obs = self._env.reset()
        for i in range(len(rows)):
            if i > 0:
                obs, *_ = self._env.step(rows['action'][i])
            if not same(obs, rows['obs'][i]):
                raise RuntimeError(f'Step {i} of the episode gives another observation than before. A run that was '
                    'saved within an episode can be resumed only where its environment computes the same bits.')
        return obs


def agent_tensors(agent):
    """
    All tensors of an agent but those of its optimisers: model, target networks,
    running scale and warm start.
    """
    return {k: v.detach() for k, v in [*agent.named_parameters(), *agent.named_buffers()]}


def as_dict(x):
    """
    A TensorDict of one batch dimension as nested dicts, which can be loaded
    without executing code; anything else as it is.
    """
    return dict(size=len(x), tensors=x.to_dict()) if isinstance(x, TensorDict) else x


def as_tensordict(x):
    """
    The reverse of `as_dict`.
    """
    return TensorDict(x['tensors'], batch_size=(x['size'],)) if isinstance(x, dict) else x


def environment_random(env):
    """
    The generator on which an environment's resets depend.
    """
    base = env.unwrapped
    generator = getattr(getattr(base, 'task', None), 'random', None) # DMControl
    if isinstance(generator, np.random.RandomState):
        return generator
    if type(base).__module__.startswith('gymnasium.'):
        return base.np_random
    raise NotImplementedError(f'Runs with {type(base).__name__} cannot be resumed: set checkpoint_minutes=null.')


def random_state(generator):
    """
    State of NumPy's global generator, a RandomState or a Generator, as a string.
    """
    if isinstance(generator, np.random.Generator):
        state = generator.bit_generator.state
    else:
        state = generator.get_state(legacy=False)
    return json.dumps(state, default=np.ndarray.tolist)


def set_random_state(generator, state):
    """
    The reverse of `random_state`.
    """
    state = json.loads(state)
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    else:
        key = np.array(state['state']['key'], dtype=np.uint32)
        generator.set_state((state['bit_generator'], key, state['state']['pos'], state['has_gauss'], state['gauss']))


def same(obs, other):
    """
    Whether two observations are equal, bit for bit.
    """
    if torch.is_tensor(obs):
        return torch.equal(obs, other)
    return all(same(obs[k], other[k]) for k in obs)
