-- The audit trail: who has given which command, from where, and what became of it. entry_id is a ULID, so that its order
-- is that of time.
CREATE TABLE audit_entries (
    entry_id text COLLATE "C" PRIMARY KEY,
    recorded_at timestamptz NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    subject text COLLATE "C",
    role text,
    auth_method text,
    address text,
    request_id text,
    command text COLLATE "C" NOT NULL,
    target text COLLATE "C" NOT NULL,
    run_id text COLLATE "C",
    outcome text NOT NULL CHECK (outcome IN ('accepted', 'rejected')),
    reason text,
    before jsonb,
    after jsonb
);
CREATE INDEX audit_entries_namespace ON audit_entries (namespace, entry_id);
CREATE INDEX audit_entries_target ON audit_entries (namespace, target, entry_id);

-- A transaction that serves a request says whose it is in the setting dw.audit, with the table whose change it is about;
-- then each row of that table that it changes is recorded with it, the second one under the id followed by .1.
CREATE FUNCTION dw_audit() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    request json := NULLIF(current_setting('dw.audit', true), '')::json;
BEGIN
    IF request ->> 'relation' = TG_TABLE_NAME THEN
        INSERT INTO audit_entries (
            entry_id, recorded_at, namespace, subject, role, auth_method, address, request_id, command, target, outcome,
            before, after
        )
        VALUES (
            request ->> 'entry_id' || COALESCE((
                SELECT '.' || count(*)
                FROM audit_entries a
                WHERE a.entry_id >= request ->> 'entry_id' AND a.entry_id < request ->> 'entry_id' || '~'
                HAVING count(*) > 0
            ), ''), dw_now(), request ->> 'namespace', request ->> 'subject', request ->> 'role',
            request ->> 'auth_method', request ->> 'address', request ->> 'request_id', request ->> 'command',
            request ->> 'target', 'accepted',
            CASE WHEN TG_OP <> 'INSERT' THEN to_jsonb(OLD) END, CASE WHEN TG_OP <> 'DELETE' THEN to_jsonb(NEW) END
        );
    END IF;
    RETURN NULL;
END
$$;

CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON workflow_namespaces
    FOR EACH ROW EXECUTE FUNCTION dw_audit();
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON workflow_service_endpoints
    FOR EACH ROW EXECUTE FUNCTION dw_audit();
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON workflow_services
    FOR EACH ROW EXECUTE FUNCTION dw_audit();
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON workflow_service_operations
    FOR EACH ROW EXECUTE FUNCTION dw_audit();
CREATE TRIGGER audit AFTER INSERT OR UPDATE OR DELETE ON build_id_rollouts
    FOR EACH ROW EXECUTE FUNCTION dw_audit();
CREATE TRIGGER audit AFTER DELETE ON worker_registrations
    FOR EACH ROW EXECUTE FUNCTION dw_audit();
