-- A post-dissector for RoCEv2: what Wireshark's own dissector does not say. ICRC right or wrong (IPv4 and IPv6), the AETH
-- in words, CNP, and marks on packets that are sent or acknowledged again. Wireshark 3.6 and later.
--
-- Install: cp tools/wireshark/uroce.lua ~/.local/lib/wireshark/plugins/     Once: tshark -X lua_script:uroce.lua ...
-- It judges by itself; why something was sent again tells `uroce explain`.

local uroce = Proto("uroce", "RoCEv2, explained by uroce")

local f_icrc = ProtoField.string("uroce.icrc", "ICRC")
local f_syndrome = ProtoField.string("uroce.syndrome", "AETH")
local f_again = ProtoField.framenum("uroce.again", "Sent before in", base.NONE, frametype.RETRANS_PREV)
local f_acked = ProtoField.framenum("uroce.acked_again", "Acknowledged before in", base.NONE, frametype.DUP_ACK)
local f_answers = ProtoField.framenum("uroce.answers", "Answers", base.NONE, frametype.REQUEST)
local f_note = ProtoField.string("uroce.note", "Note")
uroce.fields = {f_icrc, f_syndrome, f_again, f_acked, f_answers, f_note}

local e_icrc = ProtoExpert.new("uroce.icrc.wrong", "ICRC wrong: the receiver drops it", expert.group.CHECKSUM, expert.severity.ERROR)
local e_again = ProtoExpert.new("uroce.retransmission", "Sent again", expert.group.SEQUENCE, expert.severity.NOTE)
local e_refused = ProtoExpert.new("uroce.refused", "NAK or RNR NAK", expert.group.RESPONSE_CODE, expert.severity.WARN)
uroce.experts = {e_icrc, e_again, e_refused}

local ip_version, ipv6_version, udp_port = Field.new("ip.version"), Field.new("ipv6.version"), Field.new("udp.dstport")

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
local function is_response(opcode) return opcode >= 0x0D and opcode <= 0x12 end

-- What the first pass has found, by frame number.
local flows, marks = {}, {}
function uroce.init() flows, marks = {}, {} end

local function ahead(a, b)  -- a - b in a space of 24 bits.
  local d = (a - b) % 0x1000000
  return d >= 0x800000 and d - 0x1000000 or d
end

local function first_pass(number, from, to, qp, opcode, psn, refused)
  local mark = {}
  marks[number] = mark
  if opcode >= 0x20 then return end  -- RC alone acknowledges.
  local key = (is_response(opcode) and "<" or ">") .. from .. to .. qp
  local flow = flows[key]
  if not flow then flow = {seen = {}}; flows[key] = flow end
  if not is_response(opcode) then
    if flow.seen[psn] and flow.high and ahead(psn, flow.high) <= 0 then mark.again = flow.seen[psn] end
    if not flow.high or ahead(psn, flow.high) > 0 then flow.high = psn end
    flow.seen[psn] = number
    flows["?" .. from .. to] = flow  -- The peer's answers name another QP.
    return
  end
  local asked = flows["?" .. to .. from]
  mark.answers = asked and asked.seen[psn]
  if opcode == 0x11 and not refused then
    if flow.acked and ahead(psn, flow.acked) <= 0 then mark.acked = flow.acked_in end
    if not flow.acked or ahead(psn, flow.acked) > 0 then flow.acked, flow.acked_in = psn, number end
  end
end

function uroce.dissector(tvb, pinfo, root)
  local port = udp_port()
  if not port or port.value ~= 4791 then return end
  local is_v6 = ipv6_version() ~= nil
  local version = ipv6_version() or ip_version()
  if not version then return end
  local ip = version.offset
  local udp = ip + (is_v6 and 40 or 20)
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
    text, refused = syndrome_words(tvb(udp + 20, 1):uint())
    local item = tree:add(f_syndrome, tvb(udp + 20, 4), text .. ", MSN " .. tvb(udp + 21, 3):uint())
    if refused then
      item:add_proto_expert_info(e_refused, text)
      words[#words + 1] = text
    end
  end
  if opcode == 0x81 then
    tree:add(f_note, "CNP: the receiver asks for fewer packets a second")
    words[#words + 1] = "CNP"
  end

  if not pinfo.visited then first_pass(pinfo.number, tostring(pinfo.src), tostring(pinfo.dst), qp, opcode, psn, refused) end
  local mark = marks[pinfo.number]
  if mark and mark.again then
    tree:add(f_again, mark.again):add_proto_expert_info(e_again)
    words[#words + 1] = "sent again"
  end
  if mark and mark.acked then
    tree:add(f_acked, mark.acked)
    words[#words + 1] = "acknowledged again"
  end
  if mark and mark.answers then tree:add(f_answers, mark.answers) end
  if #words > 0 then pinfo.cols.info:append(" [" .. table.concat(words, ", ") .. "]") end
end

register_postdissector(uroce)
