-- What HAProxy's own configuration cannot say. The limits above this line come from the plan.
--
-- Trap: a client that leaves may end the coroutine that holds its request, at the next sleep. So the held requests are not
-- counted up and down; each one signs in at every look, and those that no longer do are forgotten.

local LOOK_MS = 100
local FORGET_S = 2

local held = {}

local function now()
    local time = core.now()
    return time.sec + time.usec / 1000000
end

local function count_held()
    local oldest, count = now() - FORGET_S, 0
    for request, seen in pairs(held) do
        if seen < oldest then
            held[request] = nil
        else
            count = count + 1
        end
    end
    return count
end

-- Holds a request while no replica is up. Leaves in txn.hold: `over`, it may go on, to a replica or to the 503 that there
-- is none; `held`, its client left meanwhile. Nothing where there was no need to hold.
core.register_action("hold", { "http-req" }, function(txn)
    if txn.f:nbsrv("engine") > 0 then
        return
    end
    local request, start = {}, now()
    txn:set_var("txn.hold", "held")
    while txn.f:nbsrv("engine") == 0 and now() - start < HOLD_S do
        held[request] = now()
        core.msleep(LOOK_MS)
    end
    held[request] = nil
    txn:set_var("txn.hold", "over")
end)

core.register_fetches("held", count_held)

-- The wake-up signal. Connections that idle, and requests without the key or to a closed path, are no part of it.
core.register_service("held", "http", function(applet)
    local body = "# HELP servingstack_held_requests Requests held while no replica is up.\n"
        .. "# TYPE servingstack_held_requests gauge\n"
        .. "servingstack_held_requests " .. count_held() .. "\n"
    applet:set_status(200)
    applet:add_header("content-type", "text/plain; version=0.0.4")
    applet:add_header("content-length", tostring(#body))
    applet:start_response()
    applet:send(body)
end)

-- Ends a response that takes longer in total than it may, and a body sent in chunks that is larger than it may be.
-- An error is the only way: what http_payload returns is taken for a number of bytes, filter.ERROR and CONTINUE too.
local Limits = {}
Limits.id = "limits"
Limits.flags = filter.FLT_CFG_FL_HTX
Limits.__index = Limits

function Limits:new()
    return setmetatable({ received = 0, start = now(), limit = REQUEST_S }, Limits)
end

function Limits:start_analyze(txn, channel)
    filter.register_data_filter(self, channel)
end

function Limits:http_headers(txn, message)
    if message.channel:is_resp() then
        local types = message:get_headers()["content-type"]
        if types ~= nil and types[0]:find("text/event-stream", 1, true) == 1 then
            self.limit = STREAM_S
        end
    else
        self.start = now()
    end
    return filter.CONTINUE
end

function Limits:http_payload(txn, message)
    if message.channel:is_resp() then
        if now() - self.start > self.limit then
            error("response cut: it took longer than " .. self.limit .. " s", 0)
        end
    else
        self.received = self.received + message:input()
        if self.received > MAX_BODY_BYTES then
            error("request cut: its body is larger than " .. MAX_BODY_BYTES .. " bytes", 0)
        end
    end
end

core.register_filter("limits", Limits, function(limits, _)
    return limits
end)
