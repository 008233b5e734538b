-- Returns the time, the record and the older records of a key, which are in the second key, and their sightings, which
-- are in the third one. A user who may not read those sees none.
local t = redis.call('TIME')
local seen = redis.pcall('HGETALL', KEYS[3])
return {t[1] * 1000000 + t[2], redis.call('GET', KEYS[1]) or '', redis.call('LRANGE', KEYS[2], 0, -1),
	seen.err and {} or seen}
