-- A post-dissector for RoCEv2: what Wireshark's own dissector does not say. ICRC right or wrong (IPv4 and IPv6), the AETH
-- in words, CNP, FLUSH and ATOMIC WRITE, links between requests and answers and within messages, gaps, and marks on packets
-- that are sent or acknowledged again. Wireshark 3.6 and later. Colours: the file `colorfilters` beside this one.
--
-- Install: cp tools/wireshark/uroce.lua ~/.local/lib/wireshark/plugins/     Once: tshark -X lua_script:uroce.lua ...
-- It judges by itself; why something was sent again tells `uroce explain`.

local uroce = Proto("uroce", "RoCEv2, explained by uroce")

local f_icrc = ProtoField.string("uroce.icrc", "ICRC")
local f_syndrome = ProtoField.string("uroce.syndrome", "AETH")
local f_again = ProtoField.framenum("uroce.again", "Sent before in", base.NONE, frametype.RETRANS_PREV)
local f_acked = ProtoField.framenum("uroce.acked_again", "Acknowledged before in", base.NONE, frametype.DUP_ACK)
local f_answers = ProtoField.framenum("uroce.answers", "Answers", base.NONE, frametype.REQUEST)
local f_answered = ProtoField.framenum("uroce.answered", "Answered in", base.NONE, frametype.RESPONSE)
local f_begins = ProtoField.framenum("uroce.begins", "Message begins in", base.NONE, frametype.NONE)
local f_gap = ProtoField.uint32("uroce.gap", "PSNs missing in front of it")
local f_operation = ProtoField.string("uroce.operation", "Operation")
local f_va = ProtoField.uint64("uroce.va", "Remote address", base.HEX)
local f_rkey = ProtoField.uint32("uroce.rkey", "R_Key", base.HEX)
local f_length = ProtoField.uint32("uroce.length", "DMA length")
local f_selectivity = ProtoField.uint32("uroce.flush.selectivity", "Selectivity", base.DEC,
                                        {[0] = "memory range", [1] = "memory region"}, 0x30)
local f_placement = ProtoField.uint32("uroce.flush.placement", "Placement", base.DEC,
                                      {[1] = "global visibility", [2] = "persistence", [3] = "global visibility and persistence"}, 0x0F)
local f_written = ProtoField.bytes("uroce.written", "Written at once")
local f_note = ProtoField.string("uroce.note", "Note")
uroce.fields = {f_icrc, f_syndrome, f_again, f_acked, f_answers, f_answered, f_begins, f_gap, f_operation, f_va, f_rkey, f_length,
                f_selectivity, f_placement, f_written, f_note}

local e_icrc = ProtoExpert.new("uroce.icrc.wrong", "ICRC wrong: the receiver drops it", expert.group.CHECKSUM, expert.severity.ERROR)
local e_again = ProtoExpert.new("uroce.retransmission", "Sent again", expert.group.SEQUENCE, expert.severity.NOTE)
local e_refused = ProtoExpert.new("uroce.refused", "NAK or RNR NAK", expert.group.RESPONSE_CODE, expert.severity.WARN)
local e_fatal = ProtoExpert.new("uroce.fatal", "The connection ends here", expert.group.RESPONSE_CODE, expert.severity.ERROR)
local e_gap = ProtoExpert.new("uroce.gap.seen", "PSNs are missing in front of it", expert.group.SEQUENCE, expert.severity.WARN)
local e_congestion = ProtoExpert.new("uroce.congestion", "Congestion", expert.group.SEQUENCE, expert.severity.NOTE)
local e_reserved = ProtoExpert.new("uroce.flush.reserved", "Reserved selectivity or placement", expert.group.PROTOCOL,
                                   expert.severity.WARN)
uroce.experts = {e_icrc, e_again, e_refused, e_fatal, e_gap, e_congestion, e_reserved}

-- CRC-32 as of Ethernet.
local crc_table = {}
for i = 0, 255 do
  local c = i
  for _ = 1, 8 do c = bit.band(c, 1) == 1 and bit.bxor(bit.rshift(c, 1), 0xEDB88320) or bit.rshift(c, 1) end
  crc_table[i] = c
end

local function crc(bytes, from, to, masked, state)
  for i = from, to do
    local byte = masked[i] and 0xFF or bytes:get_index(i)
    state = bit.bxor(bit.rshift(state, 8), crc_table[bit.band(bit.bxor(state, byte), 0xFF)])
  end
  return state
end

-- The fields that routers may change count as ones (IBTA Annex A17.3.3). Offsets are those of the frame.
local function icrc_is_right(bytes, ip, is_v6, udp, size)
  local masked = {[udp + 6] = true, [udp + 7] = true, [udp + 12] = true}
  if is_v6 then
    for _, i in ipairs({1, 2, 3, 7}) do masked[ip + i] = true end
  else
    for _, i in ipairs({1, 8, 10, 11}) do masked[ip + i] = true end
  end
  local state = 0xFFFFFFFF
  for _ = 1, 8 do state = bit.bxor(bit.rshift(state, 8), crc_table[bit.band(bit.bxor(state, 0xFF), 0xFF)]) end
  if is_v6 then
    -- The upper half of the first byte is the version, the lower one a part of the traffic class.
    local first = bit.bor(bytes:get_index(ip), 0x0F)
    state = bit.bxor(bit.rshift(state, 8), crc_table[bit.band(bit.bxor(state, first), 0xFF)])
    state = crc(bytes, ip + 1, udp + size - 5, masked, state)
  else
    state = crc(bytes, ip, udp + size - 5, masked, state)
  end
  local value = bit.band(bit.bnot(state), 0xFFFFFFFF)
  for i = 0, 3 do
    if bytes:get_index(udp + size - 4 + i) ~= bit.band(bit.rshift(value, 8 * i), 0xFF) then return false end
  end
  return true
end

local NAKS = {[0] = "PSN sequence error", "invalid request", "remote access error", "remote operational error", "invalid RD request"}
-- In units of 0.01 ms.
local RNR = {[0] = 65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192,
             12288, 16384, 24576, 32768, 49152}

local function syndrome_words(value)
  local kind, low = bit.rshift(value, 5), bit.band(value, 31)
  if kind == 0 then return "ACK" .. (low == 31 and "" or ", credit code " .. low), false end
  if kind == 1 then return string.format("RNR NAK: wait %.2f ms at least", RNR[low] / 100), true end
  if kind == 3 and NAKS[low] then return "NAK: " .. NAKS[low], true end
  return string.format("reserved syndrome 0x%02x", value), true
end

local HAS_AETH = {[0x0D] = true, [0x0F] = true, [0x10] = true, [0x11] = true, [0x12] = true}
local FLUSH, ATOMIC_WRITE, READ = 0x1C, 0x1D, 0x0C
local function is_response(opcode) return opcode >= 0x0D and opcode <= 0x12 end
-- FIRST, MIDDLE and LAST of SENDs and WRITEs; the others are messages of one packet.
local BEGINS, GOES_ON = {[0x00] = true, [0x06] = true}, {[0x01] = true, [0x02] = true, [0x03] = true, [0x07] = true, [0x08] = true,
                                                         [0x09] = true, [0x16] = true}
local FULL = {[0x00] = true, [0x01] = true, [0x06] = true, [0x07] = true, [0x0D] = true, [0x0E] = true}
local MTUS = {[256] = true, [512] = true, [1024] = true, [2048] = true, [4096] = true}

-- What the first pass has found, by frame number.
local flows, marks = {}, {}
function uroce.init() flows, marks = {}, {} end

local function ahead(a, b)  -- a - b in a space of 24 bits.
  local d = (a - b) % 0x1000000
  return d >= 0x800000 and d - 0x1000000 or d
end

local function flow_of(key)
  if not flows[key] then flows[key] = {seen = {}} end
  return flows[key]
end

-- Requests take one PSN each, a READ as many as it has responses. `high`: the last one so far; nil: not known.
local function note_request(flow, packet, mark)
  local psn, opcode = packet.psn, packet.opcode
  local is_new = not flow.high or ahead(psn, flow.high) > 0
  if flow.seen[psn] and not is_new then mark.again = flow.seen[psn] end
  if is_new then
    if flow.high and flow.sure and ahead(psn, flow.high) > 1 then mark.gap = ahead(psn, flow.high) - 1 end
    local low = opcode % 0x20
    if BEGINS[low] then flow.begins = packet.number elseif not GOES_ON[low] or mark.gap then flow.begins = nil end
    if GOES_ON[low] then mark.begins = flow.begins end
    flow.high, flow.sure = psn, true
    if opcode == READ then
      local mtu = flows[packet.pair] and flows[packet.pair].mtu
      if mtu and packet.length then
        flow.high = (psn + math.max(1, math.ceil(packet.length / mtu)) - 1) % 0x1000000
      else
        flow.sure = false
      end
    end
  elseif flow.seen[psn] and marks[flow.seen[psn]] then
    mark.begins = marks[flow.seen[psn]].begins
  end
  flow.seen[psn] = packet.number
end

local function note_response(flow, asked, packet, mark)
  mark.answers = asked and asked.seen[packet.psn]
  if mark.answers and marks[mark.answers] then marks[mark.answers].answered = packet.number end
  if packet.opcode ~= 0x11 or packet.refused then return end
  if flow.acked and ahead(packet.psn, flow.acked) <= 0 then mark.acked = flow.acked_in end
  if not flow.acked or ahead(packet.psn, flow.acked) > 0 then flow.acked, flow.acked_in = packet.psn, packet.number end
end

local function first_pass(packet)
  local mark = {}
  marks[packet.number] = mark
  if packet.opcode >= 0x40 then return end  -- Datagrams, and CNPs.
  local way, back = packet.from .. ">" .. packet.to, packet.to .. ">" .. packet.from
  packet.pair = "mtu" .. (way < back and way or back)
  if FULL[packet.opcode % 0x20] and MTUS[packet.payload] then flow_of(packet.pair).mtu = packet.payload end
  if packet.opcode < 0x20 and is_response(packet.opcode) then
    note_response(flow_of("<" .. way .. packet.qp), flows["?" .. back], packet, mark)
  else
    local flow = flow_of(">" .. way .. packet.qp)
    note_request(flow, packet, mark)
    if packet.opcode < 0x20 then flows["?" .. way] = flow end  -- The peer's answers name another QP.
  end
end

-- Where the headers of RoCE are, whatever link layer, tags and tunnels are in front: an IP header, and UDP to port 4791 of a
-- length that fits. The fields that other dissectors have found would tell it too, but not in the first of two passes, where
-- the links between packets are made.
local SEARCHED = 180
local function find_headers(tvb)
  local bytes = tvb:bytes(0, math.min(tvb:len(), SEARCHED))
  local function half(at) return bytes:get_index(at) * 256 + bytes:get_index(at + 1) end
  local function is_udp(at, size) return half(at + 2) == 4791 and half(at + 4) == size end
  for at = 0, bytes:len() - 28 do
    local first = bytes:get_index(at)
    if first == 0x45 and bytes:get_index(at + 9) == 17 and is_udp(at + 20, half(at + 2) - 20) then return at, false, at + 20 end
    if bit.rshift(first, 4) == 6 and at + 48 <= bytes:len() and bytes:get_index(at + 6) == 17 and
       is_udp(at + 40, half(at + 4)) then
      return at, true, at + 40
    end
  end
end

-- FLUSH and ATOMIC WRITE (IBTA Annex A19): Wireshark does not know their headers. `at`: where BTH ends.
local function extensions(tvb, tree, opcode, at, words)
  local reth = opcode == FLUSH and at + 4 or at
  if (opcode ~= FLUSH and opcode ~= ATOMIC_WRITE) or tvb:len() < reth + 16 then return end
  words[#words + 1] = opcode == FLUSH and "FLUSH" or "ATOMIC WRITE"
  tree:add(f_operation, tvb(at), words[#words])
  if opcode == FLUSH then
    local feth = tvb(at, 4)
    local placement, selectivity = bit.band(feth:uint(), 0xF), bit.band(bit.rshift(feth:uint(), 4), 3)
    tree:add(f_selectivity, feth)
    local item = tree:add(f_placement, feth)
    if placement == 0 or placement > 3 or selectivity > 1 then item:add_proto_expert_info(e_reserved) end
  end
  tree:add(f_va, tvb(reth, 8))
  tree:add(f_rkey, tvb(reth + 8, 4))
  tree:add(f_length, tvb(reth + 12, 4))
  if opcode == ATOMIC_WRITE and tvb:len() >= reth + 24 then tree:add(f_written, tvb(reth + 16, 8)) end
end

function uroce.dissector(tvb, pinfo, root)
  local ip, is_v6, udp = find_headers(tvb)
  if not ip then return end
  if tvb:reported_length_remaining() < udp + 24 or tvb:len() < udp + 20 then return end
  local size = tvb(udp + 4, 2):uint()
  if size < 24 then return end
  local opcode, qp, psn = tvb(udp + 8, 1):uint(), tvb(udp + 13, 3):uint(), tvb(udp + 17, 3):uint()
  local tree = root:add(uroce, tvb(udp + 8))
  local words = {}

  if tvb:len() >= udp + size then
    local bytes = tvb:bytes()
    local right = icrc_is_right(bytes, ip, is_v6, udp, size)
    local item = tree:add(f_icrc, tvb(udp + size - 4, 4), right and "right" or "WRONG")
    if not right then
      item:add_proto_expert_info(e_icrc)
      words[#words + 1] = "ICRC WRONG"
    end
  else
    tree:add(f_icrc, "not captured")
  end

  local refused = false
  if HAS_AETH[opcode] and tvb:len() >= udp + 24 then
    local text
    local syndrome = tvb(udp + 20, 1):uint()
    text, refused = syndrome_words(syndrome)
    local item = tree:add(f_syndrome, tvb(udp + 20, 4), text .. ", MSN " .. tvb(udp + 21, 3):uint())
    if refused then
      item:add_proto_expert_info(e_refused, text)
      words[#words + 1] = text
      if syndrome > 0x60 then item:add_proto_expert_info(e_fatal) end
    end
  end
  extensions(tvb, tree, opcode, udp + 20, words)
  if opcode == 0x81 then
    tree:add(f_note, "CNP: the receiver asks for fewer packets a second"):add_proto_expert_info(e_congestion)
    words[#words + 1] = "CNP"
  end
  local class = is_v6 and bit.rshift(tvb(ip, 2):uint(), 4) or tvb(ip + 1, 1):uint()
  if bit.band(class, 3) == 3 then
    tree:add(f_note, "Marked by the network: congestion experienced"):add_proto_expert_info(e_congestion)
  end

  if not pinfo.visited then
    local address = is_v6 and {ip + 8, ip + 24, 16} or {ip + 12, ip + 16, 4}
    local has_reth = opcode == READ and tvb:len() >= udp + 36
    first_pass({number = pinfo.number, opcode = opcode, qp = qp, psn = psn, refused = refused,
                from = tvb(address[1], address[3]):bytes():tohex(), to = tvb(address[2], address[3]):bytes():tohex(),
                length = has_reth and tvb(udp + 32, 4):uint() or nil,
                payload = size - 24 - (opcode == 0x06 and 16 or opcode == 0x0D and 4 or 0)})
  end
  local mark = marks[pinfo.number]
  if mark and mark.gap then
    tree:add(f_gap, mark.gap):add_proto_expert_info(e_gap)
    words[#words + 1] = "PSNs missing in front: " .. mark.gap
  end
  if mark and mark.again then
    tree:add(f_again, mark.again):add_proto_expert_info(e_again)
    words[#words + 1] = "sent again"
  end
  if mark and mark.acked then
    tree:add(f_acked, mark.acked)
    words[#words + 1] = "acknowledged again"
  end
  if mark and mark.begins then tree:add(f_begins, mark.begins) end
  if mark and mark.answers then tree:add(f_answers, mark.answers) end
  if mark and mark.answered then tree:add(f_answered, mark.answered) end
  if #words > 0 then pinfo.cols.info:append(" [" .. table.concat(words, ", ") .. "]") end
end

register_postdissector(uroce)
