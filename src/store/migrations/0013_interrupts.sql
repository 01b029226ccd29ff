-- Which later task interrupts a task, whether an attempt goes on in the engine's session, and how long was worked.
ALTER TABLE task_deliveries ADD COLUMN cancel_by BLOB;
ALTER TABLE task_deliveries ADD COLUMN is_continued INTEGER NOT NULL DEFAULT 0;
ALTER TABLE task_deliveries ADD COLUMN worked_micros INTEGER NOT NULL DEFAULT 0;
