#!lua flags=allow-oom
-- Saves the result and ends the attempt. ARGV: 1 owner and fence, 2 state, 3 flags as a number, 4 the longer of the Key
-- and Audit windows in microseconds, 5 the three windows packed, 6 code and length of Meta packed, 7 Meta and Body,
-- 8 the name of the index, or ''.
-- Returns 1, or 0 if the lease is lost.
local v = redis.call('GET', KEYS[1])
if v and v:byte(1) ~= 1 then return redis.error_reply('FORMAT of a record is unknown') end
if not v or v:sub(4, 27) ~= ARGV[1] then return 0 end
local state = v:byte(2)
if state == 0 or state == 2 then return 0 end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local ended, _, key = struct.unpack('>I8I8I8', v, 28)
if now >= ended + key then return 0 end
if state > 2 then return 1 end
local flags = v:byte(3)
local till = math.floor((now + ARGV[4]) / 1000) + 600000
redis.call('SET', KEYS[1], '\1' .. ARGV[2] .. string.char(flags + ARGV[3]) .. ARGV[1] .. struct.pack('>I8', now)
	.. ARGV[5] .. v:sub(60, 83) .. ARGV[6] .. v:sub(92) .. ARGV[7],
	'PXAT', till)
keep(ARGV[8], flags, struct.unpack('>I8', v, 60), now, till)
if flags % 4 > 1 then redis.call('SPUBLISH', KEYS[1], '') end
return 1
