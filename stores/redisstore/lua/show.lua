-- Returns the time, the record whose first fence is ARGV[1], without what follows its tags, and its sightings: kind and
-- numbers of each. The record is '' if there is none, and what is there if that is of an unknown format.
local t = redis.call('TIME')
local function head(get)
	local h = get(1, 97)
	if h ~= '' and h:byte(1) ~= 1 then return h end
	if #h < 97 or h:sub(60, 67) ~= ARGV[1] then return '' end
	local a, b, c = struct.unpack('>HHH', h, 92)
	local at = 97 + a + b + c
	return get(1, at + tags(get, at + 1))
end
local start = redis.call('GETRANGE', KEYS[1], 0, 1023)
local v = head(function(from, to)
	if to <= #start or #start < 1024 then return start:sub(from, to) end
	return redis.call('GETRANGE', KEYS[1], from - 1, to - 1)
end)
if v == '' then
	for _, older in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do
		if v == '' then v = head(function(from, to) return older:sub(from, to) end) end
	end
end
local seen = redis.pcall('HGETALL', KEYS[3])
return {t[1] * 1000000 + t[2], v, seen.err and {} or seen}
