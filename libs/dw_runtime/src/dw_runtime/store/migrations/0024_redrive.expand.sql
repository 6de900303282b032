-- The failed run whose completed activities this one takes over.
ALTER TABLE workflow_runs ADD COLUMN IF NOT EXISTS redrive_of text;
