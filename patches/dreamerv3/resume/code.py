"""New code of the patch `resume`."""


class Agent:
    def save_pending(self):
        """
        What later steps depend on besides parameters and counters: the policy's
        own copy of its parameters, the one that replaces it next, and the outputs
        of the last update.
        """
        with self.train_lock, self.policy_lock:
            return jax.device_get({
                'batches': int(self.n_batches),
                'policy': self.policy_params,
                'sync': self.pending_sync,
                'outs': self.pending_outs,
                'mets': self.pending_mets,
            })

    def load_pending(self, data):
        put = lambda x: internal.device_put(x, self.policy_params_sharding)
        with self.train_lock, self.policy_lock:
            self.n_batches.load(int(data['batches']))
            jax.tree.map(lambda x: x.delete(), self.policy_params)
            self.policy_params = put(data['policy'])
            self.pending_sync = data['sync'] and put(data['sync'])
            self.pending_outs = data['outs']
            self.pending_mets = data['mets']


class Replay:
    def save_all(self):
        """
        All that later samples depend on: first an index, then the chunks as they
        are now, none of which is ended by this.
        """
        place = lambda x: (x[0].value, x[1])
        number = {uuid: i for i, uuid in enumerate(self.chunks)}
        items = [(k, number[u], i) for k, (u, i) in self.items.items()]
        yield {
            'chunks': [uuid.value for uuid in self.chunks],
            'refs': {k.value: v for k, v in self.refs.items()},
            'items': np.array(items, np.int64).reshape((-1, 3)),
            'itemid': self.itemid,
            'sampler': self.sampler.save(),
            'report_rng': self.report_rng and self.report_rng.bit_generator.state,
            'current': {k: place(v) for k, v in self.current.items()},
            'streams': {
                k: [place(x) for x in v] for k, v in self.streams.items()},
            'online': self.online and (
                dict(self.lengths), [place(x) for x in self.queue]),
            'metrics': self.metrics,
        }
        for chunk in self.chunks.values():
            yield chunk.save_all()

    def load_all(self, shards):
        assert not self.chunks, 'The replay holds chunks already.'
        place = lambda x: (elements.UUID(x[0]), x[1])
        shards = iter(shards)
        index = next(shards)
        chunks = {x.uuid: x for x in map(chunklib.Chunk.load_all, shards)}
        uuids = [elements.UUID(x) for x in index['chunks']]
        self.chunks = {uuid: chunks[uuid] for uuid in uuids}
        self.refs = {elements.UUID(k): v for k, v in index['refs'].items()}
        self.items = {k: (uuids[u], i) for k, u, i in index['items'].tolist()}
        self.fifo = deque(self.items)
        self.itemid = index['itemid']
        self.sampler.load(index['sampler'])
        if self.report_rng:
            self.report_rng.bit_generator.state = index['report_rng']
        self.current = {k: place(v) for k, v in index['current'].items()}
        for worker, places in index['streams'].items():
            self.streams[worker].extend(place(x) for x in places)
        if self.online:
            lengths, queue = index['online']
            self.lengths.update(lengths)
            self.queue.extend(place(x) for x in queue)
        self.metrics.update(index['metrics'])


class Chunk:
    def save_all(self):
        data = self.data and {
            k: v[:self.length].copy() for k, v in self.data.items()}
        return {
            'time': self.time, 'uuid': self.uuid.value, 'succ': self.succ.value,
            'length': self.length, 'size': self.size, 'data': data}

    @classmethod
    def load_all(cls, state):
        chunk = cls(state['size'])
        chunk.time = state['time']
        chunk.uuid = elements.UUID(state['uuid'])
        chunk.succ = elements.UUID(state['succ'])
        chunk.length = state['length']
        if state['data']:
            chunk.data = {
                k: np.empty((chunk.size, *v.shape[1:]), v.dtype)
                for k, v in state['data'].items()}
            chunk.update(0, chunk.length, state['data'])
        return chunk


class Uniform:
    def save(self):
        return {'keys': list(self.keys), 'rng': self.rng.bit_generator.state}

    def load(self, data):
        self.keys = list(data['keys'])
        self.indices = {key: i for i, key in enumerate(self.keys)}
        self.rng.bit_generator.state = data['rng']


def consec_state(self, STATE):
    current = self.current if 0 < self.index < self.consec else None
    return {**STATE, 'current': current}


def consec_current(self, data):
    self.current = data.get('current')


def import_resume():
    from . import resume as resumelib


def refuse(args, agent, replay, resumelib):
    if args.resume_exact:
        resumelib.check(args, agent, replay)


def repeatable(args, fns, resumelib):
    if args.resume_exact:
        fns = [bind(resumelib.Repeatable, fn) for fn in fns]


def save_exactly(args, cp, resumelib, agent, replay, driver, logger, stream_train, stream_report, should_train,
                 should_log, should_report, should_save, train_agg, epstats, episodes, carry_train, carry_report):
    if args.resume_exact:
        exact = resumelib.Exact(
                args, agent, replay, driver, logger,
                streams=[stream_train, stream_report],
                clocks=[should_train, should_log, should_report, should_save],
                aggs=[train_agg, epstats], episodes=episodes,
                carries=lambda: (carry_train[0], carry_report))
        cp.replay = elements.Saveable(
                save=replay.save_all, load=replay.load_all)
        cp.run = exact


def check_checkpoint(args, cp, resumelib):
    resumelib.check_checkpoint(args, cp.latest())


def restore(args, exact):
    if args.resume_exact:
        carry_train[0], carry_report = exact.restore()
