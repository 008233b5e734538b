-- Returns entries of the index in KEYS[1], the newest first: of each the first fence and the digest. ARGV: 1 by what
-- records are found, 2 the entry behind which it goes on, or its first fence, 3 how many, 4 the largest and 5 the least
-- age of a first fence in microseconds.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local kind, before, n = ARGV[1], ARGV[2], tonumber(ARGV[3])
local youngest = math.max(now - ARGV[5] + 1, 0)
if youngest < struct.unpack('>I8', before) then before = struct.pack('>I8', youngest) end
local from, to = '(' .. kind .. before, '[' .. kind .. struct.pack('>I8', math.max(now - ARGV[4], 0))
local classes = {}
for _, name in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
	local class, window = name:match('^(%d+):(%d+)$')
	classes[class] = classes[class] or {}
	table.insert(classes[class], tonumber(window))
end
local found = {}
for class, windows in pairs(classes) do
	-- The windows of a class follow each other: the older ones are not needed once a page is full.
	table.sort(windows, function(a, b) return a > b end)
	local left = n
	for _, window in ipairs(windows) do
		if left <= 0 then break end
		local name = string.format('%s%s:%d', KEYS[1], class, window)
		for _, member in ipairs(redis.call('ZRANGE', name, from, to, 'BYLEX', 'REV', 'LIMIT', 0, left)) do
			local entry = member:sub(#kind + 1)
			found[#found + 1] = {struct.unpack('>I8', entry), entry}
			left = left - 1
		end
	end
end
table.sort(found, function(a, b) return a[1] > b[1] end)
local page = {}
for i = 1, math.min(n, #found) do page[i] = found[i][2] end
return page
