"""New code of the patch `device`."""


def free_memory(self, torch):
    # Elsewhere the storage lies in main memory
    mem_free = torch.cuda.mem_get_info(self._device)[0] if self._device.type == 'cuda' else 0


def device_is_there(cfg, torch):
    assert not str(cfg.device).startswith('cuda') or torch.cuda.is_available(), \
        f'CUDA is not available, but device={cfg.device}. Set e.g. device=cpu.'
