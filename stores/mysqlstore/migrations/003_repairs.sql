-- oldest: 1
-- Repairs of the procedures: a claim of another request's record shows none of it, and what has committed is not run again.
DELIMITER //
