-- oldest: 1
-- The view retrysafe_activity, which procedures.sql has.
DELIMITER //
