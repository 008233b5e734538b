-- oldest: 1
-- The procedures for services in any language. The procedure complete of version 1 is called store_complete from here on: a
-- Store that still calls complete, with more arguments, gets an error, and completes in another way.
DELIMITER //
