-- The first due message of each sender of a topic. The index may be there, because MySQL commits it at once, and a
-- migration that was killed is repeated. MySQL has no IF NOT EXISTS for that.
SET @retrysafe_index = (
	SELECT IF(COUNT(*) > 0, 'DO 0', 'CREATE INDEX {{index sender}} ON {{messages}} (state, topic, saved_by, due_at)')
	FROM information_schema.statistics
	WHERE table_schema = COALESCE(NULLIF({{schema}}, ''), DATABASE())
		AND SUBSTRING_INDEX('{{messages}}', '.', -1) = CONCAT('`', table_name, '`')
		AND CONCAT('`', index_name, '`') = '{{index sender}}');

PREPARE retrysafe_index FROM @retrysafe_index;

EXECUTE retrysafe_index;

DEALLOCATE PREPARE retrysafe_index;
