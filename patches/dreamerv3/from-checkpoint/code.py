"""New code of the patch `from-checkpoint`."""


def load_folder(args, agent, REGEX):
    load_agent = bind(agent.load, regex=REGEX)
    elements.checkpoint.load(args.from_checkpoint, {'agent': load_agent})
