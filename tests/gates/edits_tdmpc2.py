"""Wrong and neutral edits of official TD-MPC2 and of our patches' code, each with the gate that has to reject it.

What a gate on training never meets, wrong in a way that a reader of a diff overlooks, and what somebody's experiment
leaves behind. `test_edits` makes each on a fork of its own, and all together on one.
"""

import ast
import re

from tdmpc2_lean.validation.gates.results import UNPROVED
from tests.gates.edited_forks import edit

AGENT, MODEL, ONLINE = "tdmpc2.py:TDMPC2", "common/world_model.py:WorldModel", "trainer/online_trainer.py:OnlineTrainer"
OFFLINE, LAYERS, MATH = "trainer/offline_trainer.py:OfflineTrainer", "common/layers.py:", "common/math.py:"
BUFFER, LOGGER, SCALE = "common/buffer.py:Buffer", "common/logger.py:Logger", "common/scale.py:RunningScale"
CHECKPOINT, DMCONTROL = "common/checkpoint.py:Checkpoint", "envs/dmcontrol.py:"

# Wrong edits that passed every gate once.
KNOWN = [
    edit("policy unclipped", f"{AGENT}.update_pi", "self.cfg.grad_clip_norm", "1e9",
         judge="functions/update-low-clipping"),
    edit("model unclipped", f"{AGENT}._update", "self.cfg.grad_clip_norm", "1e9",
         judge="functions/update-above-clipping"),
    edit("discount heuristic", f"{AGENT}._get_discount", "frac-1", "frac-1.5", judge="defaults/discount"),
    edit("bound of the discount", f"{AGENT}._get_discount", "self.cfg.discount_max", "0.9975",
         judge="defaults/discount"),
    edit("seed steps", "envs/__init__.py:make_env", "5*cfg.episode_length", "4*cfg.episode_length",
         judge="functions/make-env"),
    edit("edge bin", f"{MATH}two_hot", "(bin_idx.unsqueeze(1) + 1) % cfg.num_bins",
         "(bin_idx.unsqueeze(1) + 1).clamp(max=cfg.num_bins - 1)", judge="functions/bins"),
    edit("scale used before its update", f"{AGENT}.update_pi", "self.scale.update($Q)", "scaled = self.scale(qs)",
         "before", more=[("qs = self.scale(qs)", "qs = scaled")], judge="functions/update-scale-3"),
    edit("rate of the scale", f"{SCALE}.update", "self.cfg.tau", "0.02", judge="functions/running-scale"),
    edit("only the first evaluation episode begins with t0", f"{ONLINE}.eval", "t==0", "t==0 and i==0",
         judge="functions/loop"),
    edit("steps of eval.csv", f"{LOGGER}.log", "d[keys[0]]", "d[keys[0]] + 1", judge="outputs/logger"),
    edit("saved without targets", f"{AGENT}.save", "self.model.state_dict()",
         "{k: v for k, v in self.model.state_dict().items() if 'target' not in k}", judge="functions/saving"),
    edit("random actions of a constant seed", "envs/__init__.py:make_env", "env.action_space.seed(cfg.seed)",
         "env.action_space.seed(1)", judge="defaults/model-size-1"),
    edit("a default", "config.yaml:entropy_coef", "1e-3", judge="defaults/config.yaml"),
    edit("a size", "common/__init__.py:MODEL_SIZE", "384", "383", judge="defaults/tables"),
    edit("second resume within an episode", f"{CHECKPOINT}.load", "self._at_reset = $X", "", "delete",
         judge="resume"),
    edit("ratio of updates over a resume", f"{ONLINE}.train", "obs, done, info, train_metrics, eval_next = resumed",
         "self._utd = Fraction(1)", "after", judge="resume"),
    edit("reward doubled", f"{AGENT}._td_target", "reward + $X", "2 * reward + $X", judge="functions/td-targets"),
]

PLANNING = [
    edit("worst trajectories are the elites", f"{AGENT}._plan", "torch.topk($V, $K, dim=0)",
         "torch.topk($V, $K, dim=0, largest=False)", judge="functions/plan-state"),
    edit("standard deviation without upper bound", f"{AGENT}._plan", "std.clamp(self.cfg.min_std, self.cfg.max_std)",
         "std.clamp(self.cfg.min_std)", judge="functions/plan-other-settings"),
    edit("temperature written into code", f"{AGENT}._plan", "self.cfg.temperature", "0.5",
         judge="functions/plan-other-settings"),
    edit("cold start at every step", f"{AGENT}._plan", "not t0", "False", judge="functions/plan-state"),
    edit("warm start not shifted", f"{AGENT}._plan", "self._prev_mean[1:]", "self._prev_mean[:-1]",
         judge="functions/plan-state"),
    edit("noise in evaluation", f"{AGENT}._plan", "not eval_mode", "True", judge="functions/plan-state"),
    edit("action beyond its bounds", f"{AGENT}._plan", "a.clamp(-1, 1)", "a", judge="functions/plan-state"),
    edit("samples beyond their bounds", f"{AGENT}._plan", "actions_sample.clamp(-1, 1)",
         "actions_sample.clamp(-2, 2)", judge="functions/plan-state"),
    edit("evaluation leaves no warm start", f"{AGENT}._plan", "self._prev_mean.copy_(mean)",
         "self._prev_mean.copy_(self._prev_mean if eval_mode else mean)", judge="functions/plan-state"),
    edit("values that are no numbers", f"{AGENT}._plan", "$V.nan_to_num(0)", "$V", judge="functions/plan-state"),
    edit("large action spaces from 21 on", f"{AGENT}.__init__", "cfg.action_dim >= 20", "cfg.action_dim > 20",
         judge="functions/plan-20-actions"),
    edit("actions of no task unmasked", f"{AGENT}._plan", "std * self.model._action_masks[task]", "std",
         judge="functions/plan-mt30"),
    edit("rewards after the end", f"{AGENT}._estimate_value", "discount * (1-termination) * reward",
         "discount * reward", judge="functions/plan-episodic"),
    edit("terminations at another probability", f"{AGENT}._estimate_value", "self.model.termination($$$A) > 0.5",
         "self.model.termination($$$A) > 0.9", judge="functions/plan-episodic"),
    edit("pessimistic values in planning", f"{AGENT}._estimate_value",
         "self.model.Q(z, action, task, return_type='avg')", "self.model.Q(z, action, task, return_type='min')",
         judge="functions/plan-state"),
    edit("mean without planning", f"{AGENT}.act", "if eval_mode: $X", "action = info['mean']",
         judge="functions/plan-no-mpc"),
]  # fmt: skip

LEARNING = [
    edit("entropy not scaled by dimensions", f"{AGENT}.update_pi", 'self.cfg.entropy_coef * info["scaled_entropy"]',
         'self.cfg.entropy_coef * info["entropy"]', judge="functions/update-other-settings"),
    edit("Q learns from the policy's loss", f"{AGENT}.update_pi", "detach=True", "detach=False",
         judge="functions/update-state"),
    edit("policy's weights over the horizon", f"{AGENT}.update_pi", "torch.pow(self.cfg.rho, $X)",
         "torch.pow(self.cfg.rho, $X.flip(0))", judge="functions/update-state"),
    edit("policy's gradients are kept", f"{AGENT}.update_pi", "self.pi_optim.zero_grad($$$A)", "", "delete",
         judge="functions/update-state"),
    edit("policy's epsilon", f"{AGENT}.__init__", "eps=1e-5", "eps=1e-8", judge="functions/update-state"),
    edit("policy decays", f"{AGENT}.__init__", "torch.optim.Adam(self.model._pi.parameters(), $$$A)",
         "torch.optim.AdamW(self.model._pi.parameters(), $$$A)", judge="functions/update-state"),
    edit("encoder learns as fast as the rest", f"{AGENT}.__init__", "self.cfg.lr*self.cfg.enc_lr_scale",
         "self.cfg.lr", judge="functions/update-state"),
    edit("reward head does not learn", f"{AGENT}.__init__", "self.model._reward.parameters()", "[]",
         judge="functions/update-state"),
    edit("no target networks", f"{AGENT}._td_target", "target=True", "target=False", judge="functions/td-targets"),
    edit("bootstraps beyond the end", f"{AGENT}._td_target", "discount * (1-terminated) * $Q", "discount * $Q",
         judge="functions/td-targets"),
    edit("one discount for all tasks", f"{AGENT}._td_target", "self.discount[task].unsqueeze(-1)", "self.discount[0]",
         judge="functions/td-targets"),
    edit("targets have gradients", f"{AGENT}._update", "torch.no_grad()", "torch.enable_grad()",
         judge="functions/update-state"),
    edit("consistency weighted a step later", f"{AGENT}._update", "F.mse_loss(z, _next_z) * self.cfg.rho**t",
         "F.mse_loss(z, _next_z) * self.cfg.rho**(t+1)", judge="functions/update-state"),
    edit("values summed over the ensemble", f"{AGENT}._update", "self.cfg.horizon * self.cfg.num_q",
         "self.cfg.horizon", judge="functions/update-state"),
    edit("terminations at weight one", f"{AGENT}._update", "self.cfg.termination_coef * termination_loss",
         "termination_loss", judge="functions/update-other-settings"),
    edit("targets stand still", f"{AGENT}._update", "self.model.soft_update_target_Q()", "", "delete",
         judge="functions/update-state"),
    edit("dropout while acting", f"{AGENT}._update", "self.model.eval()", "", "delete",
         judge="functions/update-state"),
    edit("no dropout while learning", f"{AGENT}._update", "self.model.train()", "", "delete",
         judge="functions/update-state"),
    edit("targets follow twice as fast", f"{MODEL}.soft_update_target_Q", "self.cfg.tau", "2*self.cfg.tau",
         judge="functions/networks"),
    edit("broken checkpoints are loaded in silence", f"{AGENT}.load", "self.model.load_state_dict(state_dict)",
         "self.model.load_state_dict(state_dict, strict=False)", judge="functions/refusals"),
    edit("statistics of terminations", f"{MATH}termination_statistics", "pred <= 0.5", "pred < 0.5",
         judge="functions/formulas"),
]  # fmt: skip

NETWORKS = [
    edit("layer norm's epsilon", f"{LAYERS}NormedLinear.__init__", "nn.LayerNorm(self.out_features)",
         "nn.LayerNorm(self.out_features, eps=1e-6)", judge="functions/layers"),
    edit("dropout in every layer", f"{LAYERS}mlp", "dropout*(i==0)", "dropout", judge="functions/layers"),
    edit("groups of SimNorm", f"{LAYERS}SimNorm.forward", "x.view(*shp[:-1], -1, self.dim)",
         "x.view(*shp[:-1], self.dim, -1)", judge="functions/layers"),
    edit("members draw alike", f"{LAYERS}Ensemble.forward", 'randomness="different"', 'randomness="same"',
         judge="functions/layers"),
    edit("pictures shifted further", f"{LAYERS}ShiftAug.__init__", "pad=3", "pad=4", judge="functions/layers"),
    edit("pixels not centred", f"{LAYERS}PixelPreprocess.forward", "$X.sub(0.5)", "$X", judge="functions/layers"),
    edit("spread of initial weights", "common/init.py:weight_init", "nn.init.trunc_normal_(m.weight, std=0.02)",
         "nn.init.trunc_normal_(m.weight, std=0.01)", judge="defaults/model-size-1"),
    edit("reward head begins at random", f"{MODEL}.__init__", "init.zero_([self._reward[-1].weight, $Q])",
         "init.zero_([$Q])", judge="defaults/model-size-1"),
    edit("no dropout in one head", f"{MODEL}.__init__", "dropout=cfg.dropout", "dropout=0.",
         judge="functions/networks"),
    edit("range of the policy's deviation", f"{MODEL}.__init__", "torch.tensor(cfg.log_std_max) - self.log_std_min",
         "torch.tensor(cfg.log_std_max)", judge="functions/networks"),
    edit("embeddings of any norm", f"{MODEL}.__init__", "max_norm=1", "max_norm=None",
         judge="functions/networks-mt30"),
    edit("deviation of no task unmasked", f"{MODEL}.pi", "log_std * self._action_masks[task]", "log_std",
         judge="functions/networks-mt30"),
    edit("dimensions do not scale", f"{MODEL}.pi", "log_prob * size", "log_prob", judge="functions/networks"),
    edit("smallest of one", f"{MODEL}.Q", "$X[:2]", "$X[:1]", judge="functions/networks"),
    edit("Jacobian's epsilon", f"{MATH}squash", "1e-6", "1e-7", judge="functions/formulas"),
    edit("values not expanded", f"{MATH}two_hot_inv", "x = torch.sum($$$A)", "return torch.sum($$$A)",
         judge="functions/bins"),
    edit("percentiles", f"{SCALE}.__init__", "[5, 95]", "[1, 99]", judge="functions/running-scale"),
    edit("scale below one", f"{SCALE}.update", "min=1.", "min=0.1", judge="functions/running-scale"),
    edit("one generator unseeded", "common/seed.py:set_seed", "np.random.seed(seed)", "", "delete",
         judge="functions/seed"),
    edit("layers of the encoder", f"{LAYERS}enc", "cfg.num_enc_layers-1", "cfg.num_enc_layers-2",
         judge="functions/update-other-settings"),
]  # fmt: skip

DATA = [
    edit("capacity beyond the steps", f"{BUFFER}.__init__", "min(cfg.buffer_size, cfg.steps)", "cfg.buffer_size",
         judge="functions/buffer"),
    edit("slices shorter than asked", f"{BUFFER}.__init__", "strict_length=True", "strict_length=False",
         judge="functions/buffer"),
    edit("rewards of the step before", f"{BUFFER}._prepare_batch", "td.get('reward')[1:]", "td.get('reward')[:-1]",
         judge="functions/buffer"),
    edit("all is terminal where nothing is said", f"{BUFFER}._prepare_batch", "torch.zeros_like(reward)",
         "torch.ones_like(reward)", judge="functions/buffer-no-terminations"),
    edit("episodes counted by files", f"{BUFFER}.load", "self._num_eps += num_new_eps", "self._num_eps += 1",
         judge="functions/buffer"),
    edit("action repeat", f"{DMCONTROL}DMControlWrapper.step", "range(2)", "range(1)", judge="defaults/environments"),
    edit("reward of the last repeat", f"{DMCONTROL}DMControlWrapper.step", "reward += step.reward",
         "reward = step.reward", judge="defaults/environments"),
    edit("length of episodes", f"{DMCONTROL}make_env", "max_episode_steps=500", "max_episode_steps=501",
         judge="defaults/environments"),
    edit("end of episodes", "envs/wrappers/timeout.py:Timeout.step", "self._t >= self.max_episode_steps",
         "self._t > self.max_episode_steps", judge="defaults/environments"),
    edit("second episode begins late", "envs/wrappers/timeout.py:Timeout.reset", "self._t = 0",
         "self._t = int(hasattr(self, '_t'))", judge="outputs/train"),
    edit("double precision", f"{DMCONTROL}DMControlWrapper._obs_to_array", "dtype=np.float32", "dtype=np.float64",
         judge="defaults/environments"),
    edit("physics of a constant seed", f"{DMCONTROL}make_env", "{'random': cfg.seed}", "{'random': 1}",
         judge="defaults/environments"),
    edit("camera", f"{DMCONTROL}DMControlWrapper.__init__", "2 if domain == 'quadruped' else 0", "0",
         judge="defaults/environments"),
    edit("first frames", f"{DMCONTROL}Pixels._get_obs", "self._frames.maxlen if is_reset else 1", "1",
         judge="defaults/environments"),
    edit("nothing terminates", "envs/wrappers/tensor.py:TensorWrapper.step",
         "torch.tensor(float(info['terminated']))", "torch.tensor(0.)", judge="functions/wrappers"),
    edit("nothing succeeds", "envs/wrappers/tensor.py:TensorWrapper.step", "float(info['success'])",
         "0.", judge="functions/wrappers"),
    edit("timid random actions", "envs/wrappers/tensor.py:TensorWrapper.rand_act", "self.action_space.sample()",
         "(0.9 * self.action_space.sample())", judge="defaults/environments"),
    edit("observations padded by ones", "envs/wrappers/multitask.py:MultitaskWrapper._pad_obs", "torch.zeros($$$A)",
         "torch.ones($$$A)", judge="defaults/mt30"),
    edit("physics in a file", "envs/tasks/cheetah.xml:<file>", b'gear="120"', b'gear="121"',
         judge="defaults/environments"),
]  # fmt: skip

LOOPS = [
    edit("acts a step early", f"{ONLINE}.train", "self._step > self.cfg.seed_steps",
         "self._step >= self.cfg.seed_steps", judge="functions/loop"),
    edit("t0 at the second step", f"{ONLINE}.train", "len(self._tds)==1", "len(self._tds)==2",
         judge="functions/loop"),
    edit("best episode reported", f"{ONLINE}.eval", "np.nanmean(ep_rewards)", "np.nanmax(ep_rewards)",
         judge="functions/loop"),
    edit("median reported", f"{ONLINE}.eval", "np.nanmean(ep_rewards)", "np.nanmedian(ep_rewards)",
         judge="functions/loop"),
    edit("a step fewer", f"{ONLINE}.train", "self._step <= self.cfg.steps", "self._step < self.cfg.steps",
         judge="functions/loop"),
    edit("first action is zero", f"{ONLINE}.to_td", "torch.full_like(self.env.rand_act(), float('nan'))",
         "torch.zeros_like(self.env.rand_act())", judge="functions/loop"),
    edit("terminations are let pass", f"{ONLINE}.train", "info['terminated'] and not self.cfg.episodic", "False",
         judge="functions/loop-termination"),
    edit("the return lacks a reward", f"{ONLINE}.train", "self._tds[1:]", "self._tds[2:]", judge="functions/loop"),
    edit("minutes for seconds", f"{ONLINE}.common_metrics", "time() - self._start_time",
         "(time() - self._start_time) / 60", judge="functions/loop"),
    edit("env steps a second", f"{ONLINE}.common_metrics", "self._step / elapsed_time",
         "2 * self._step / elapsed_time", judge="functions/loop"),
    edit("minutes for seconds, offline", f"{OFFLINE}.train", "time() - self._start_time",
         "(time() - self._start_time) / 60", judge="functions/loop-offline"),
    edit("often logged", f"{OFFLINE}.train", "10_000", "5_000", judge="functions/loop-offline"),
    edit("files in any order", f"{OFFLINE}._load_dataset", "sorted(glob(str(fp)))", "glob(str(fp))",
         judge="functions/data-files"),
    edit("median reported, offline", f"{OFFLINE}.eval", "np.nanmean(ep_rewards)", "np.nanmedian(ep_rewards)",
         judge="functions/scores"),
    edit("rows for mt30", f"{OFFLINE}._load_dataset", "345_690_000", "345_690_001", judge="functions/loop-offline"),
    edit("seed of train.py", "train.py:train", "set_seed(cfg.seed)", "set_seed(1)", judge="defaults/model-size-1"),
    edit("precision of products", "train.py:<module>", "torch.set_float32_matmul_precision('high')",
         "torch.set_float32_matmul_precision('medium')", judge="defaults/model-size-1"),
    edit("one trainer for all", "train.py:train", "OfflineTrainer if cfg.multitask else OnlineTrainer",
         "OnlineTrainer", judge="functions/trainers"),
    edit("no steps are accepted", "train.py:train", "assert cfg.steps > 0, $M", "", "delete",
         judge="functions/refusals"),
    edit("evaluate.py without noise", "evaluate.py:evaluate", "agent.act(obs, t0=t==0, task=task_idx)",
         "agent.act(obs, t0=t==0, eval_mode=True, task=task_idx)", judge="functions/evaluate-one-task"),
    edit("evaluate.py's median", "evaluate.py:evaluate", "np.mean(ep_rewards)", "np.median(ep_rewards)",
         judge="functions/evaluate-one-task"),
    edit("evaluate.py's seed", "evaluate.py:evaluate", "set_seed(cfg.seed)", "set_seed(cfg.seed + 1)",
         judge="outputs"),
    edit("evaluate.py accepts no episode", "evaluate.py:evaluate", "assert cfg.eval_episodes > 0, $M", "", "delete",
         judge="functions/refusals"),
]  # fmt: skip

MANY_TASKS = [
    edit("score of many tasks", "evaluate.py:evaluate", "ep_rewards/10", "ep_rewards/5",
         judge="functions/evaluate-many-tasks"),
    edit("t0 of many tasks", f"{OFFLINE}.eval", "t0=t==0", "t0=False", judge="functions/loop-offline"),
]  # fmt: skip

WRITTEN = [
    edit("returns rounded in eval.csv", f"{LOGGER}.log", "d[keys[1]]", "round(float(d[keys[1]]), 1)",
         judge="outputs/logger"),
    edit("W&B's steps", f"{LOGGER}.log", "step=d[xkey]", "step=d[xkey] + 1", judge="outputs/logger"),
    edit("digits of what is printed", f"{LOGGER}._format", "f'{colored(key+\":\", \"blue\")} {value:.01f}'",
         "f'{colored(key+\":\", \"blue\")} {value:.00f}'", judge="outputs/logger"),
    edit("speed of films", "common/logger.py:VideoRecorder.__init__", "fps=15", "fps=30", judge="outputs/train"),
    edit("averages with missing scores", f"{LOGGER}.pprint_multitask", "np.nanmean(dmcontrol_reward)",
         "np.mean(dmcontrol_reward)", judge="functions/scores"),
    edit("folder of a run", "common/parser.py:parse_cfg", "str(cfg.seed)", "'1'", judge="defaults/model-size-1"),
    edit("size of bins", "common/parser.py:parse_cfg", "cfg.num_bins-1", "cfg.num_bins",
         judge="defaults/model-size-1"),
    edit("embedding's size for mt30", "common/parser.py:parse_cfg", "cfg.get('model_size', 5) in {1, 317}",
         "cfg.get('model_size', 5) in {1, 19, 317}", judge="defaults/mt30"),
    edit("quotients in settings", "common/parser.py:parse_cfg", "cfg[k].is_integer()", "True",
         judge="functions/parser"),
    edit("a setting of planning", "config.yaml:num_pi_trajs", "25", judge="defaults/config.yaml"),
    edit("a setting of learning", "config.yaml:tau", "0.02", judge="defaults/config.yaml"),
    edit("a task of a set", "common/__init__.py:TASK_SET", "'hopper-hop-backwards'", "'hopper-hop'", "replace", 2,
         judge="defaults/tables"),
    edit("old checkpoints' targets", "common/layers.py:api_model_conversion", "key.startswith('_target_Qs.')",
         "key.startswith('_target_Qs_.')", judge="functions/old-checkpoint"),
]  # fmt: skip

OURS = [
    edit("updates rounded up", f"{ONLINE}.updates_until", "steps * self._utd.numerator // self._utd.denominator",
         "-(-steps * self._utd.numerator // self._utd.denominator)", judge="utd-count"),
    edit("evaluation apart leaves its warm start", f"{ONLINE}.eval_apart",
         "self.agent._prev_mean.copy_(prev_mean)", "", "delete", judge="seed"),
    edit("moments of the policy not restored", f"{CHECKPOINT}.load",
         "agent.pi_optim.load_state_dict(state['pi_optim'])", "", "delete", judge="resume"),
    edit("python's generator not restored", f"{CHECKPOINT}.load", "random.setstate($X)", "", "delete",
         judge="resume"),
    edit("evaluations not restored", f"{CHECKPOINT}.load", "trainer.logger._eval = $X", "", "delete", judge="resume"),
    edit("rows turned by one", f"{BUFFER}.load_state_dict", "state_dict['cursor'] % len(rows)",
         "(state_dict['cursor'] + 1) % len(rows)", judge="resume"),
    edit("an evaluation that is due forgotten", f"{CHECKPOINT}.load", "state['eval_next']", "False", judge="resume"),
    edit("other settings are accepted", f"{CHECKPOINT}.load", "if differ: $X", "", "delete", judge="resume"),
    edit("elites over all environments", f"{AGENT}._plan_vec", "elite_value.amax(1, keepdim=True)",
         "elite_value.amax()", judge="plan-vec-many"),
    edit("noise shared", f"{AGENT}._plan_vec", "torch.randn(N, cfg.action_dim, device=self.device)",
         "torch.randn(1, cfg.action_dim, device=self.device)", judge="plan-vec-many"),
    edit("warm start of a batch not shifted", f"{AGENT}._plan_vec", "self._prev_mean_vec[1:]",
         "self._prev_mean_vec[:-1]", judge="plan-vec-one"),
]  # fmt: skip
WRONG = [*KNOWN, *PLANNING, *LEARNING, *NETWORKS, *DATA, *LOOPS, *MANY_TASKS, *WRITTEN, *OURS]

# What gates execute, equal on all that they try, on inputs that cannot show it.
SLY = [
    edit("half as strong after 100,000 steps", f"{ONLINE}.train", "self.env.step(action)",
         "self.env.step(action * (1 - 0.5 * (self._step > 100_000)))", judge="functions/loop"),
    edit("a loss bounded far off", f"{AGENT}._update", "total_loss.backward()",
         "total_loss.clamp(max=1e30).backward()", judge="functions/update-state"),
    edit("no planning over long horizons", f"{AGENT}.act", "self.cfg.mpc", "self.cfg.mpc and self.cfg.horizon < 9",
         judge="functions/plan-state"),
]  # fmt: skip

# What no gate executes: a simulator that is not installed, an option that none uses.
UNSEEN = [
    edit("a success of Meta-World", "envs/metaworld.py:MetaWorldWrapper.step", "range(2)", "range(1)",
         judge=UNPROVED),
    edit("a task of MyoSuite", "envs/myosuite.py:make_env", "max_episode_steps=100", "max_episode_steps=101",
         judge=UNPROVED),
    edit("films in files", "common/logger.py:VideoRecorder.save", "list(frames)", "list(frames[1:])", judge=UNPROVED),
]  # fmt: skip


def rewritten(change):
    """A neutral edit of Python: `change` is given a file's syntax tree; comments and formatting go."""

    def edited(text: str) -> str:
        tree = ast.parse(text)
        return ast.unparse(change(tree) or tree) + "\n"

    return edited


def function_in(tree: ast.Module, name: str) -> ast.FunctionDef:
    return next(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name)


def rename_local(tree: ast.Module) -> None:
    for node in ast.walk(function_in(tree, "update_pi")):
        if isinstance(node, ast.Name) and node.id == "rho":
            node.id = "weights"


def move_a_method(tree: ast.Module) -> None:
    body = next(node for node in tree.body if isinstance(node, ast.ClassDef)).body
    moved = function_in(tree, "update_pi")
    body.remove(moved)
    body.append(moved)


def move_a_function(tree: ast.Module) -> None:
    moved = function_in(tree, "symexp")
    tree.body.remove(moved)
    tree.body.append(moved)


def document(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            if ast.get_docstring(node) is not None:
                node.body[0] = ast.Expr(ast.Constant("What it does is said elsewhere."))
            else:
                node.body.insert(0, ast.Expr(ast.Constant("Does what its name says.")))


def annotate(tree: ast.Module) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.returns = node.returns or ast.Constant("torch.Tensor")
            for one in node.args.args:
                one.annotation = one.annotation or ast.Constant("object")


def turn_keys_around(text: str) -> str:
    """A configuration's sections, of scalars alone, in another order, with a comment at each line."""
    head, *sections = text.split("\n\n")
    told = "\n\n".join([head, *reversed(sections)]).rstrip("\n").split("\n")
    return "\n".join(line + "  # mine" * (":" in line) for line in told) + "\n"


# Neutral edits: name -> (file, what is made of its text).
NEUTRAL = {
    "another formatting": ("common/world_model.py", rewritten(lambda tree: None)),
    "comments at every line": ("trainer/online_trainer.py", lambda text: re.sub(r"(?m)(,|\)|:)$", r"\1  # mine", text)),
    "a renamed local": ("tdmpc2.py", rewritten(rename_local)),
    "a moved method": ("tdmpc2.py", rewritten(move_a_method)),
    "a moved function": ("common/math.py", rewritten(move_a_function)),
    "other docstrings": ("common/layers.py", rewritten(document)),
    "annotations": ("common/math.py", rewritten(annotate)),
    "keys in another order": ("config.yaml", turn_keys_around),
    "another line end": ("common/buffer.py", lambda text: text.replace("\n", "\r\n")),
    "a file that nobody imports": ("notes.py", lambda text: "raise SystemExit\n"),
}  # fmt: skip
