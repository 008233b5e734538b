ALTER TABLE {{results}} DROP PARTITION {{day}}
