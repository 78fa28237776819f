-- Times of a streamed answer, for the log line of its request: how long until its first piece, and how many pieces came.
--
-- Trap: a piece of the network is no piece of the stream: several events come in one, and one in several. So events are
-- counted by the empty line that ends each. JSON writes a line's end as `\n`, so no event has such a line inside.

local Timing = {}
Timing.id = "timing"
Timing.flags = filter.FLT_CFG_FL_HTX
Timing.__index = Timing

local function now_ms()
    local time = core.now()
    return time.sec * 1000 + math.floor(time.usec / 1000)
end

function Timing:new()
    return setmetatable({ start = now_ms(), first = nil, events = 0, streams = false, last = "" }, Timing)
end

function Timing:start_analyze(txn, channel)
    if channel:is_resp() then
        filter.register_data_filter(self, channel)
    end
end

function Timing:http_headers(txn, message)
    if not message.channel:is_resp() then
        return filter.CONTINUE
    end
    local types = message:get_headers()["content-type"]
    self.streams = types ~= nil and types[0]:find("text/event-stream", 1, true) == 1
    return filter.CONTINUE
end

function Timing:http_payload(txn, message)
    if not self.streams or not message.channel:is_resp() then
        return
    end
    local piece = message:body()
    if piece == nil or #piece == 0 then
        return
    end
    if self.first == nil then
        self.first = now_ms() - self.start
        txn:set_var("txn.ttft_ms", self.first)
    end
    local text = self.last .. piece
    for _ in text:gmatch("\n\n") do
        self.events = self.events + 1
    end
    self.last = text:sub(-1) == "\n" and text:sub(-2) ~= "\n\n" and "\n" or ""
    txn:set_var("txn.events", self.events)
    txn:set_var("txn.last_ms", now_ms() - self.start)
end

core.register_filter("timing", Timing, function(timing, _)
    return timing
end)
