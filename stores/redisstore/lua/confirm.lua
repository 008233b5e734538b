-- Follows the function answer(), the script of a call that waits for replicas. WAIT waits for the last write of its
-- connection, since Redis 7.2 for nothing else, and so every call must write. This write changes nothing: it sets the
-- expiry that is there, or makes an empty key and deletes it. A full server (maxmemory) accepts the former.
local answered = answer()
local till = redis.call('PEXPIRETIME', KEYS[1])
if till > 0 then
	redis.call('PEXPIREAT', KEYS[1], till)
else
	redis.call('APPEND', KEYS[1], '')
	if till == -2 then redis.call('PEXPIREAT', KEYS[1], 1) end
end
return answered
