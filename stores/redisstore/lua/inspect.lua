-- Returns the time, the record and the older records of a key, which are in the second key.
local t = redis.call('TIME')
return {t[1] * 1000000 + t[2], redis.call('GET', KEYS[1]) or '', redis.call('LRANGE', KEYS[2], 0, -1)}
