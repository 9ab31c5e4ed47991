"""Wrong code, for a negative control."""


def shift(BATCH):
    obs, action, reward, terminated, task = BATCH
