-- oldest: 1
-- Lists by state, which need not read the records that have succeeded. A sweep gives the others a row in retrysafe_tags:
-- '=unfinished' while they are pending or released, and '=failed'. No tag of a client is without a name. An index on the
-- state would be written twice for each key.
--
-- 'indexed' is the lowest id that no sweep has looked at for that, and 'again' the one from which on the next sweep looks
-- at records again.
INSERT INTO retrysafe_meta VALUES ('indexed', 0), ('again', 0);
