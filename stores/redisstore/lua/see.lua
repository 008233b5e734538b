-- Adds sightings of the records of a key to the third key, and drops those of records that are gone. ARGV has six for
-- each: 1 first fence as it is in a record, 2 kind as a byte, 3 count, 4 age of the first and 5 of the last one in
-- microseconds, 6 code.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local existing, till = {}, 0
local function look(v)
	if v == '' then return end
	if v:byte(1) ~= 1 then return redis.error_reply('FORMAT of a record is unknown') end
	if #v < 67 then return end
	existing[v:sub(60, 67)] = true
	local ended, _, key, audit = struct.unpack('>I8I8I8I8', v, 28)
	till = math.max(till, ended + math.max(key, audit))
end
local bad = look(redis.call('GETRANGE', KEYS[1], 0, 66))
if bad then return bad end
for _, older in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do look(older) end
local seen = redis.call('HGETALL', KEYS[3])
local known = {}
for i = 1, #seen, 2 do
	if existing[seen[i]:sub(1, 8)] then known[seen[i]] = seen[i + 1] else redis.call('HDEL', KEYS[3], seen[i]) end
end
local added = false
for i = 1, #ARGV, 6 do
	local field = ARGV[i] .. ARGV[i + 1]
	if existing[ARGV[i]] then
		local count, first, last, code = tonumber(ARGV[i + 2]), now - ARGV[i + 3], now - ARGV[i + 4], tonumber(ARGV[i + 5])
		if known[field] then
			local n, f, l, c = struct.unpack('>I8I8I8i4', known[field])
			if l > last then last, code = l, c end
			count, first = count + n, math.min(first, f)
		end
		known[field] = struct.pack('>I8I8I8i4', count, math.max(first, 0), math.max(last, 0), code)
		redis.call('HSET', KEYS[3], field, known[field])
		added = true
	end
end
-- A day more, because a heartbeat may move the end of the record, which does not know of this key.
if added then redis.call('PEXPIREAT', KEYS[3], math.floor(till / 1000) + 600000 + 86400000) end
return 1
