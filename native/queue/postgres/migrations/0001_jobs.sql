CREATE TABLE toolgate_queues (
	name text PRIMARY KEY,
	key  text NOT NULL
);

CREATE TABLE toolgate_jobs (
	id        text PRIMARY KEY,
	seq       bigint GENERATED ALWAYS AS IDENTITY,
	queue     text NOT NULL,
	principal text NOT NULL,
	priority  smallint NOT NULL,
	turn      bigint NOT NULL,
	repeats   boolean NOT NULL,
	key       text NOT NULL,
	deadline  timestamptz NOT NULL,
	-- waiting, leased, or how the job has ended
	state     text NOT NULL DEFAULT 'waiting',
	attempt   integer NOT NULL DEFAULT 0,
	lease     text NOT NULL DEFAULT '',
	worker    text NOT NULL DEFAULT '',
	until     timestamptz,
	ended_at  timestamptz,
	reason    text NOT NULL DEFAULT '',
	-- the sealed job; of one that has ended its sealed answer
	body      bytea NOT NULL
);

CREATE INDEX toolgate_jobs_waiting ON toolgate_jobs (queue, priority DESC, turn, seq) WHERE state = 'waiting';
CREATE INDEX toolgate_jobs_of ON toolgate_jobs (queue, principal, priority, turn DESC) WHERE state = 'waiting';
CREATE INDEX toolgate_jobs_leased ON toolgate_jobs (until) WHERE state = 'leased';
CREATE INDEX toolgate_jobs_deadline ON toolgate_jobs (deadline) WHERE ended_at IS NULL;
CREATE INDEX toolgate_jobs_ended ON toolgate_jobs (ended_at) WHERE ended_at IS NOT NULL;
