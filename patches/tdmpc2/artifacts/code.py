"""New code of the patch `artifacts`."""


def save_agent(self):
    if self.cfg.save_agent_every_eval:
        self.logger.save_agent(self.agent, identifier=f'{self._step}')


def record_for_files(cfg):
    cfg.save_video = cfg.save_video or cfg.save_video_files


def write_video(self, frames, step):
    if self.cfg.save_video_files:
        import imageio
        imageio.mimsave(self._save_dir / f'{step}.mp4', list(frames), fps=self.fps)
    if not self._wandb:
        return
