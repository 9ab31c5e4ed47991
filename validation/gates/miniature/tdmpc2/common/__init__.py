"""Parts of the miniature (not TD-MPC2) that agent, environments and trainer share."""

# Networks by approximate millions of parameters; the miniature stops at 5.
MODEL_SIZE = {
	1: {'enc_dim': 256, 'mlp_dim': 384, 'latent_dim': 128, 'num_enc_layers': 2, 'num_q': 2},
	5: {'enc_dim': 256, 'mlp_dim': 512, 'latent_dim': 512, 'num_enc_layers': 2},
}

# Sets of tasks for multi-task training, of which the miniature has none.
TASK_SET = {}
