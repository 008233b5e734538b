-- oldest: 1
-- Repairs of the procedures: they notice a change that KILL QUERY has interrupted.
DELIMITER //
