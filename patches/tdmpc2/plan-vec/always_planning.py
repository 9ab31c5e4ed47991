"""New code of the patch `plan-vec` for the first commits, whose `act` always plans."""


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
        return self.plan_vec(obs, t0=t0, eval_mode=eval_mode, task=task).cpu()
