-- Payloads that are kept outside the database. An object is named by its content, so several namespaces that keep their
-- payloads in one place may share it; a payload is one namespace's claim to an object; a use is a run whose history names
-- the payload, and the namespace in which it may be read for that.
CREATE TABLE external_payload_objects (
    object_uri text COLLATE "C" PRIMARY KEY,
    disk text,
    review_at timestamptz,
    is_doomed boolean NOT NULL DEFAULT false,
    CHECK (NOT is_doomed OR review_at IS NOT NULL)
);
CREATE INDEX external_payload_objects_review ON external_payload_objects (review_at) WHERE review_at IS NOT NULL;

CREATE TABLE external_payloads (
    reference_id text COLLATE "C" PRIMARY KEY,
    namespace text COLLATE "C" NOT NULL,
    codec text NOT NULL,
    size_bytes bigint NOT NULL CHECK (size_bytes >= 0),
    sha256 text COLLATE "C" NOT NULL,
    object_uri text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    review_at timestamptz
);
-- What has no namespace was left by one that has been deleted, for runs of others that use it.
CREATE UNIQUE INDEX external_payloads_object ON external_payloads (object_uri, namespace) WHERE namespace <> '';
CREATE INDEX external_payloads_claims ON external_payloads (object_uri);
CREATE INDEX external_payloads_review ON external_payloads (review_at) WHERE review_at IS NOT NULL;
CREATE INDEX external_payloads_namespace ON external_payloads (namespace);

CREATE TABLE external_payload_uses (
    run_id text COLLATE "C" NOT NULL,
    reference_id text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    PRIMARY KEY (run_id, reference_id)
);
CREATE INDEX external_payload_uses_reference ON external_payload_uses (reference_id, namespace);
