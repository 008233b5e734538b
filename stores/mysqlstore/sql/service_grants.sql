-- What {{role}} needs to call the procedures for services: it has no right to any table.
GRANT EXECUTE ON PROCEDURE {{claim}} TO {{role}};
GRANT EXECUTE ON PROCEDURE {{extend}} TO {{role}};
GRANT EXECUTE ON PROCEDURE {{step}} TO {{role}};
GRANT EXECUTE ON PROCEDURE {{save_step}} TO {{role}};
GRANT EXECUTE ON PROCEDURE {{complete}} TO {{role}};
GRANT EXECUTE ON PROCEDURE {{fail}} TO {{role}};
GRANT EXECUTE ON PROCEDURE {{release}} TO {{role}};
GRANT EXECUTE ON PROCEDURE {{child_key}} TO {{role}};
