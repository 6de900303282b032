-- Message streams, which bring repeated input to workflows, and output streams, which runs leave for readers.

CREATE TABLE workflow_message_streams (
    namespace text COLLATE "C" NOT NULL,
    workflow_id text COLLATE "C" NOT NULL,
    stream_name text COLLATE "C" NOT NULL,
    last_position bigint NOT NULL DEFAULT 0,
    cursor_position bigint NOT NULL DEFAULT 0,
    pending_wait json,
    duplicate_count bigint NOT NULL DEFAULT 0,
    last_input_outcome text,
    last_input_message_id text,
    last_input_at timestamptz,
    PRIMARY KEY (namespace, workflow_id, stream_name),
    CHECK (0 <= cursor_position AND cursor_position <= last_position)
) WITH (fillfactor = 70);

-- A message outlives the run that it was accepted for: its id names it for the life of the workflow id.
CREATE TABLE workflow_stream_messages (
    namespace text COLLATE "C" NOT NULL,
    workflow_id text COLLATE "C" NOT NULL,
    stream_name text COLLATE "C" NOT NULL,
    position bigint NOT NULL CHECK (position > 0),
    message_id text COLLATE "C" NOT NULL,
    fingerprint text NOT NULL,
    arguments text NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    command_id text COLLATE "C" NOT NULL,
    command_sequence bigint NOT NULL,
    accepted_at timestamptz NOT NULL,
    PRIMARY KEY (namespace, workflow_id, stream_name, position),
    UNIQUE (namespace, workflow_id, stream_name, message_id)
);

CREATE TABLE workflow_output_streams (
    run_id text COLLATE "C" NOT NULL,
    stream_name text COLLATE "C" NOT NULL,
    status text NOT NULL CHECK (status IN ('open', 'closed', 'errored')),
    total_items bigint NOT NULL DEFAULT 0,
    pending_items bigint NOT NULL DEFAULT 0,
    opened_at timestamptz NOT NULL,
    last_appended_at timestamptz,
    closed_at timestamptz,
    error_reason text,
    retention_seconds integer,
    expires_at timestamptz,
    PRIMARY KEY (run_id, stream_name),
    CHECK ((closed_at IS NULL) = (status = 'open')),
    CHECK (0 <= pending_items AND pending_items <= total_items)
) WITH (fillfactor = 70);
CREATE INDEX workflow_output_streams_expiry ON workflow_output_streams (expires_at) WHERE pending_items > 0;

CREATE TABLE workflow_output_items (
    run_id text COLLATE "C" NOT NULL,
    stream_name text COLLATE "C" NOT NULL,
    item_offset bigint NOT NULL CHECK (item_offset >= 0),
    idempotency_key text COLLATE "C",
    origin text NOT NULL,
    origin_reference text,
    item_type text,
    content_type text,
    payload text,
    payload_reference text,
    emitted_at timestamptz NOT NULL,
    PRIMARY KEY (run_id, stream_name, item_offset)
);
CREATE UNIQUE INDEX workflow_output_items_key ON workflow_output_items (run_id, stream_name, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
