#!lua flags=allow-oom
-- Gives a key up. ARGV: 1 owner and fence, 2 the name of the index, or '', 3 digest, 4 by what the record is found
-- beside its tags. Returns 1, also if no attempt has the key, or 0 if the lease is lost.
local h = redis.call('GETRANGE', KEYS[1], 0, 96)
if h ~= '' and h:byte(1) ~= 1 then return redis.error_reply('FORMAT of a record is unknown') end
local state = h:byte(2)
if not state or state == 0 or state == 2 then return 1 end
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local ended, _, key = struct.unpack('>I8I8I8', h, 28)
if now >= ended + key then return 1 end
if state > 2 or h:sub(4, 27) ~= ARGV[1] then return 0 end
local flags = h:byte(3)
local watched = flags % 4 > 1
local steps, found = struct.unpack('>I4', h, 80), ''
if steps > 0 then
	local a, b, c = struct.unpack('>HHH', h, 92)
	local n
	n, found = tags(function(from, to) return redis.call('GETRANGE', KEYS[1], from - 1, to - 1) end, 98 + a + b + c)
	steps = steps - n
end
if steps == 0 then
	-- Only the fence stays, and whether there are watches. Watches hold for an hour.
	redis.call('SET', KEYS[1], '\1\0' .. string.char(flags % 4) .. h:sub(4, 27),
		'PXAT', math.floor(now / 1000) + (watched and 3600000 or 600000))
	drop(ARGV[2], flags, struct.unpack('>I8', h, 60), ARGV[3], ARGV[4], found)
else
	redis.call('SETRANGE', KEYS[1], 1, '\2' .. h:sub(3, 27) .. struct.pack('>I8', now))
	redis.call('PEXPIREAT', KEYS[1], math.floor((now + key) / 1000) + 600000)
end
if watched then redis.call('SPUBLISH', KEYS[1], '') end
return 1
