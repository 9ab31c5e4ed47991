import os

import cloudpickle
import elements
import jax
import numpy as np

from ..core.selectors import Uniform
from ..core.wrappers import Wrapper


class Exact:

  """
  What the rest of a run depends on besides step, agent and replay, which have
  files of their own in a checkpoint: environments, driver, carries, streams,
  clocks, the agent's pending work, and what is to be logged.
  """

  def __init__(
      self, args, agent, replay, driver, logger, streams, clocks, aggs,
      episodes, carries):
    self.agent = agent
    self.replay = replay
    self.driver = driver
    self.logger = logger
    self.logdir = elements.Path(args.logdir)
    self.streams = streams
    self.batches = [getattr(x.source, 'batches', None) for x in streams]
    self.clocks = clocks
    self.aggs = aggs
    self.episodes = episodes
    self.carries = carries  # A function that returns the current ones.
    self.data = None

  def save(self):
    agent, driver = self.agent, self.driver
    [x.wait() for x in self.logger.outputs if hasattr(x, 'wait')]
    logged = (
        [x.reducers for x in self.aggs],
        {k: x.reducers for k, x in self.episodes.items()},
        self.logger._metrics)
    return dict(
        agent=agent.save_pending(),
        carries=jax.device_get(self.carries()),
        acts=driver.acts,
        policy_carry=jax.device_get(driver.carry),
        envs=[env.save() for env in driver.envs],
        streams=[x.save() for x in self.streams],
        batches=[x and x.save() for x in self.batches],
        clocks=[x._prev for x in self.clocks],
        logged=cloudpickle.dumps(logged),
        logfiles={k: os.path.getsize(v) for k, v in self._logfiles().items()},
        uuid=elements.UUID.DEBUG_ID)

  def load(self, data):
    # Kept until everything that it goes into has been set up.
    self.data = data

  def restore(self):
    """
    To be called before the first step. Returns the carries to continue with.
    """
    if self.data is None:
      return self.carries()
    data, self.data = self.data, None
    agent, driver = self.agent, self.driver
    elements.UUID.DEBUG_ID = data['uuid']
    agent.load_pending(data['agent'])
    driver.acts = data['acts']
    if data['policy_carry'] is not None:
      driver.carry = jax.device_put(
          data['policy_carry'], agent.policy_mirrored)
    assert len(driver.envs) == len(data['envs']), 'run.envs has changed.'
    [env.load(x) for env, x in zip(driver.envs, data['envs'])]
    [x.load(state) for x, state in zip(self.streams, data['streams'])]
    [x and x.load(n) for x, n in zip(self.batches, data['batches'])]
    for clock, prev in zip(self.clocks, data['clocks']):
      clock._prev = prev
    aggs, episodes, metrics = cloudpickle.loads(data['logged'])
    for agg, reducers in zip(self.aggs, aggs):
      agg.reducers.update(reducers)
    for key, reducers in episodes.items():
      self.episodes[key].reducers.update(reducers)
    self.logger._metrics.extend(metrics)
    for name, path in self._logfiles().items():
      os.truncate(path, data['logfiles'].get(name, 0))
    return jax.device_put(data['carries'], agent.train_sharded)

  def _logfiles(self):
    # What was logged after the checkpoint is logged again.
    return {x.name: str(x) for x in self.logdir.glob('*.jsonl')}


class Repeatable(Wrapper):

  """
  An environment that can be brought back to where it was, by a reset to the
  random state with which the episode began and by repeating its actions.
  """

  def __init__(self, make):
    super().__init__(make())
    self._random = self._generator()
    self._begin = None
    self._actions = []
    self._obs = None

  def step(self, action):
    if action['reset']:
      self._begin = self._random.get_state()
      self._actions = []
    self._actions.append({k: np.array(v) for k, v in action.items()})
    self._obs = self.env.step(action)
    return self._obs

  def save(self):
    return dict(
        begin=self._begin, actions=self._actions, obs=self._obs,
        now=self._random.get_state())

  def load(self, data):
    if not data['actions']:
      self._random.set_state(data['now'])
      return
    self._random.set_state(data['begin'])
    for action in data['actions']:
      self.step(action)
    differ = [
        k for k in data['obs']
        if not np.array_equal(data['obs'][k], self._obs[k])]
    if differ or repr(self._random.get_state()) != repr(data['now']):
      raise RuntimeError(
          'The environment does not repeat its episode bit by bit, so this '
          f'run cannot be resumed exactly here (differs in: {differ}).')

  def _generator(self):
    env = self.env
    while isinstance(env, Wrapper):
      env = env.env
    for dmenv in vars(env).values():
      if isinstance(dmenv, Wrapper):
        continue
      for random in (
          getattr(getattr(dmenv, 'task', None), 'random', None),
          getattr(dmenv, '_random_state', None)):
        if isinstance(random, np.random.RandomState):
          return random
    raise NotImplementedError(
        'run.resume_exact works with the environments of the suite dmc only.')


def check(args, agent, replay):
  """
  Refuse settings with which a resumed run would not equal an uninterrupted one.
  """
  wrong = []
  if not args.debug:
    wrong.append('run.debug True: environments in this process')
  if args.clock != 'steps':
    wrong.append('run.clock steps: no wall clock')
  if not hasattr(agent, 'save_pending'):
    wrong.append('random_agent False: a random agent is not seeded')
  elif agent.jaxcfg.prefetch:
    wrong.append('jax.prefetch False: no batches drawn ahead')
  if args.replicas > 1 or jax.process_count() > 1:
    wrong.append('replicas 1')
  if not isinstance(replay.sampler, Uniform):
    wrong.append('replay.fracs.uniform 1.0')
  if wrong:
    raise ValueError('run.resume_exact needs ' + '; '.join(wrong))


def check_checkpoint(args, folder):
  """
  Refuse to resume a run from a checkpoint of the other kind.
  """
  if folder and (folder / 'run.pkl').exists() != args.resume_exact:
    raise ValueError(
        f'{folder} was saved with run.resume_exact {not args.resume_exact}: '
        'resume it with that setting, or start a run in another logdir.')
