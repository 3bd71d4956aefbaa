-- A post-dissector for RoCEv2: what Wireshark's own dissector does not say. ICRC right or wrong (IPv4 and IPv6), the AETH
-- in words, CNP, FLUSH and ATOMIC WRITE, links between requests and answers and within messages, gaps, and marks on packets
-- that are sent or acknowledged again. Wireshark 3.6 and later. Colours: the file `colorfilters` beside this one.
--
-- Install: cp tools/wireshark/uroce.lua ~/.local/lib/wireshark/plugins/     Once: tshark -X lua_script:uroce.lua ...
-- It judges by itself; why something was sent again tells `uroce explain`.

local uroce = Proto("uroce", "RoCEv2, explained by uroce")

-- Tables, printed by tools/wireshark/tables.cc from proto/: do not edit.
local OPCODES = {
  [0x00] = {name = "RC SEND FIRST", service = "RC", kind = "message", position = "first", payload = true, bytes = 12, BTH = 0},
  [0x01] = {name = "RC SEND MIDDLE", service = "RC", kind = "message", position = "middle", payload = true, bytes = 12, BTH = 0},
  [0x02] = {name = "RC SEND LAST", service = "RC", kind = "message", position = "last", payload = true, bytes = 12, BTH = 0},
  [0x03] = {name = "RC SEND LAST IMM", service = "RC", kind = "message", position = "last", payload = true, bytes = 16, BTH = 0, ImmDt = 12},
  [0x04] = {name = "RC SEND ONLY", service = "RC", kind = "message", position = "only", payload = true, bytes = 12, BTH = 0},
  [0x05] = {name = "RC SEND ONLY IMM", service = "RC", kind = "message", position = "only", payload = true, bytes = 16, BTH = 0, ImmDt = 12},
  [0x06] = {name = "RC WRITE FIRST", service = "RC", kind = "message", position = "first", payload = true, bytes = 28, BTH = 0, RETH = 12},
  [0x07] = {name = "RC WRITE MIDDLE", service = "RC", kind = "message", position = "middle", payload = true, bytes = 12, BTH = 0},
  [0x08] = {name = "RC WRITE LAST", service = "RC", kind = "message", position = "last", payload = true, bytes = 12, BTH = 0},
  [0x09] = {name = "RC WRITE LAST IMM", service = "RC", kind = "message", position = "last", payload = true, bytes = 16, BTH = 0, ImmDt = 12},
  [0x0A] = {name = "RC WRITE ONLY", service = "RC", kind = "message", position = "only", payload = true, bytes = 28, BTH = 0, RETH = 12},
  [0x0B] = {name = "RC WRITE ONLY IMM", service = "RC", kind = "message", position = "only", payload = true, bytes = 32, BTH = 0, RETH = 12, ImmDt = 28},
  [0x0C] = {name = "RC READ REQUEST", service = "RC", kind = "read", position = "only", payload = false, bytes = 28, BTH = 0, RETH = 12},
  [0x0D] = {name = "RC READ RESPONSE FIRST", service = "RC", kind = "response", position = "first", payload = true, bytes = 16, BTH = 0, AETH = 12},
  [0x0E] = {name = "RC READ RESPONSE MIDDLE", service = "RC", kind = "response", position = "middle", payload = true, bytes = 12, BTH = 0},
  [0x0F] = {name = "RC READ RESPONSE LAST", service = "RC", kind = "response", position = "last", payload = true, bytes = 16, BTH = 0, AETH = 12},
  [0x10] = {name = "RC READ RESPONSE ONLY", service = "RC", kind = "response", position = "only", payload = true, bytes = 16, BTH = 0, AETH = 12},
  [0x11] = {name = "RC ACK", service = "RC", kind = "ack", position = "only", payload = false, bytes = 16, BTH = 0, AETH = 12},
  [0x12] = {name = "RC ATOMIC ACK", service = "RC", kind = "response", position = "only", payload = false, bytes = 24, BTH = 0, AETH = 12, AtomicAckETH = 16},
  [0x13] = {name = "RC COMPARE SWAP", service = "RC", kind = "atomic", position = "only", payload = false, bytes = 40, BTH = 0, AtomicETH = 12},
  [0x14] = {name = "RC FETCH ADD", service = "RC", kind = "atomic", position = "only", payload = false, bytes = 40, BTH = 0, AtomicETH = 12},
  [0x16] = {name = "RC SEND LAST INV", service = "RC", kind = "message", position = "last", payload = true, bytes = 16, BTH = 0, IETH = 12},
  [0x17] = {name = "RC SEND ONLY INV", service = "RC", kind = "message", position = "only", payload = true, bytes = 16, BTH = 0, IETH = 12},
  [0x1C] = {name = "RC FLUSH", service = "RC", kind = "flush", position = "only", payload = false, bytes = 32, BTH = 0, RETH = 16, FETH = 12},
  [0x1D] = {name = "RC ATOMIC WRITE", service = "RC", kind = "atomic_write", position = "only", payload = true, bytes = 28, BTH = 0, RETH = 12},
  [0x20] = {name = "UC SEND FIRST", service = "UC", kind = "message", position = "first", payload = true, bytes = 12, BTH = 0},
  [0x21] = {name = "UC SEND MIDDLE", service = "UC", kind = "message", position = "middle", payload = true, bytes = 12, BTH = 0},
  [0x22] = {name = "UC SEND LAST", service = "UC", kind = "message", position = "last", payload = true, bytes = 12, BTH = 0},
  [0x23] = {name = "UC SEND LAST IMM", service = "UC", kind = "message", position = "last", payload = true, bytes = 16, BTH = 0, ImmDt = 12},
  [0x24] = {name = "UC SEND ONLY", service = "UC", kind = "message", position = "only", payload = true, bytes = 12, BTH = 0},
  [0x25] = {name = "UC SEND ONLY IMM", service = "UC", kind = "message", position = "only", payload = true, bytes = 16, BTH = 0, ImmDt = 12},
  [0x26] = {name = "UC WRITE FIRST", service = "UC", kind = "message", position = "first", payload = true, bytes = 28, BTH = 0, RETH = 12},
  [0x27] = {name = "UC WRITE MIDDLE", service = "UC", kind = "message", position = "middle", payload = true, bytes = 12, BTH = 0},
  [0x28] = {name = "UC WRITE LAST", service = "UC", kind = "message", position = "last", payload = true, bytes = 12, BTH = 0},
  [0x29] = {name = "UC WRITE LAST IMM", service = "UC", kind = "message", position = "last", payload = true, bytes = 16, BTH = 0, ImmDt = 12},
  [0x2A] = {name = "UC WRITE ONLY", service = "UC", kind = "message", position = "only", payload = true, bytes = 28, BTH = 0, RETH = 12},
  [0x2B] = {name = "UC WRITE ONLY IMM", service = "UC", kind = "message", position = "only", payload = true, bytes = 32, BTH = 0, RETH = 12, ImmDt = 28},
  [0x64] = {name = "UD SEND ONLY", service = "UD", kind = "message", position = "only", payload = true, bytes = 20, BTH = 0, DETH = 12},
  [0x65] = {name = "UD SEND ONLY IMM", service = "UD", kind = "message", position = "only", payload = true, bytes = 24, BTH = 0, DETH = 12, ImmDt = 20},
  [0x81] = {name = "CNP", service = "CNP", kind = "cnp", position = "only", payload = false, bytes = 28, BTH = 0, CNP = 12},
}
local HEADERS = {
  BTH = {opcode = {0, 8}, se = {8, 1}, m = {9, 1}, pad = {10, 2}, tver = {12, 4}, pkey = {16, 16}, fecn = {32, 1}, becn = {33, 1}, resv6 = {34, 6}, dqpn = {40, 24}, a = {64, 1}, resv7 = {65, 7}, psn = {72, 24}},
  DETH = {qkey = {0, 32}, resv8 = {32, 8}, sqpn = {40, 24}},
  RETH = {va = {0, 64}, rkey = {64, 32}, len = {96, 32}},
  AtomicETH = {va = {0, 64}, rkey = {64, 32}, swap_add = {96, 64}, compare = {160, 64}},
  AETH = {syndrome = {0, 8}, msn = {8, 24}},
  AtomicAckETH = {original = {0, 64}},
  ImmDt = {imm = {0, 32}},
  IETH = {rkey = {0, 32}},
  CNP = {resv_hi = {0, 64}, resv_lo = {64, 64}},
  FETH = {resv26 = {0, 26}, selectivity = {26, 2}, placement = {28, 4}},
}
local SYNDROMES = {
  [0x00] = {words = "ACK, 0 receives posted (credit code 0)", refused = false, fatal = false},
  [0x01] = {words = "ACK, 1 receives posted (credit code 1)", refused = false, fatal = false},
  [0x02] = {words = "ACK, 2 receives posted (credit code 2)", refused = false, fatal = false},
  [0x03] = {words = "ACK, 3 receives posted (credit code 3)", refused = false, fatal = false},
  [0x04] = {words = "ACK, 4 receives posted (credit code 4)", refused = false, fatal = false},
  [0x05] = {words = "ACK, 6 receives posted (credit code 5)", refused = false, fatal = false},
  [0x06] = {words = "ACK, 8 receives posted (credit code 6)", refused = false, fatal = false},
  [0x07] = {words = "ACK, 12 receives posted (credit code 7)", refused = false, fatal = false},
  [0x08] = {words = "ACK, 16 receives posted (credit code 8)", refused = false, fatal = false},
  [0x09] = {words = "ACK, 24 receives posted (credit code 9)", refused = false, fatal = false},
  [0x0A] = {words = "ACK, 32 receives posted (credit code 10)", refused = false, fatal = false},
  [0x0B] = {words = "ACK, 48 receives posted (credit code 11)", refused = false, fatal = false},
  [0x0C] = {words = "ACK, 64 receives posted (credit code 12)", refused = false, fatal = false},
  [0x0D] = {words = "ACK, 96 receives posted (credit code 13)", refused = false, fatal = false},
  [0x0E] = {words = "ACK, 128 receives posted (credit code 14)", refused = false, fatal = false},
  [0x0F] = {words = "ACK, 192 receives posted (credit code 15)", refused = false, fatal = false},
  [0x10] = {words = "ACK, 256 receives posted (credit code 16)", refused = false, fatal = false},
  [0x11] = {words = "ACK, 384 receives posted (credit code 17)", refused = false, fatal = false},
  [0x12] = {words = "ACK, 512 receives posted (credit code 18)", refused = false, fatal = false},
  [0x13] = {words = "ACK, 768 receives posted (credit code 19)", refused = false, fatal = false},
  [0x14] = {words = "ACK, 1024 receives posted (credit code 20)", refused = false, fatal = false},
  [0x15] = {words = "ACK, 1536 receives posted (credit code 21)", refused = false, fatal = false},
  [0x16] = {words = "ACK, 2048 receives posted (credit code 22)", refused = false, fatal = false},
  [0x17] = {words = "ACK, 3072 receives posted (credit code 23)", refused = false, fatal = false},
  [0x18] = {words = "ACK, 4096 receives posted (credit code 24)", refused = false, fatal = false},
  [0x19] = {words = "ACK, 6144 receives posted (credit code 25)", refused = false, fatal = false},
  [0x1A] = {words = "ACK, 8192 receives posted (credit code 26)", refused = false, fatal = false},
  [0x1B] = {words = "ACK, 12288 receives posted (credit code 27)", refused = false, fatal = false},
  [0x1C] = {words = "ACK, 16384 receives posted (credit code 28)", refused = false, fatal = false},
  [0x1D] = {words = "ACK, 24576 receives posted (credit code 29)", refused = false, fatal = false},
  [0x1E] = {words = "ACK, 32768 receives posted (credit code 30)", refused = false, fatal = false},
  [0x1F] = {words = "ACK", refused = false, fatal = false},
  [0x20] = {words = "RNR NAK: wait 655.36 ms at least", refused = true, fatal = false},
  [0x21] = {words = "RNR NAK: wait 0.01 ms at least", refused = true, fatal = false},
  [0x22] = {words = "RNR NAK: wait 0.02 ms at least", refused = true, fatal = false},
  [0x23] = {words = "RNR NAK: wait 0.03 ms at least", refused = true, fatal = false},
  [0x24] = {words = "RNR NAK: wait 0.04 ms at least", refused = true, fatal = false},
  [0x25] = {words = "RNR NAK: wait 0.06 ms at least", refused = true, fatal = false},
  [0x26] = {words = "RNR NAK: wait 0.08 ms at least", refused = true, fatal = false},
  [0x27] = {words = "RNR NAK: wait 0.12 ms at least", refused = true, fatal = false},
  [0x28] = {words = "RNR NAK: wait 0.16 ms at least", refused = true, fatal = false},
  [0x29] = {words = "RNR NAK: wait 0.24 ms at least", refused = true, fatal = false},
  [0x2A] = {words = "RNR NAK: wait 0.32 ms at least", refused = true, fatal = false},
  [0x2B] = {words = "RNR NAK: wait 0.48 ms at least", refused = true, fatal = false},
  [0x2C] = {words = "RNR NAK: wait 0.64 ms at least", refused = true, fatal = false},
  [0x2D] = {words = "RNR NAK: wait 0.96 ms at least", refused = true, fatal = false},
  [0x2E] = {words = "RNR NAK: wait 1.28 ms at least", refused = true, fatal = false},
  [0x2F] = {words = "RNR NAK: wait 1.92 ms at least", refused = true, fatal = false},
  [0x30] = {words = "RNR NAK: wait 2.56 ms at least", refused = true, fatal = false},
  [0x31] = {words = "RNR NAK: wait 3.84 ms at least", refused = true, fatal = false},
  [0x32] = {words = "RNR NAK: wait 5.12 ms at least", refused = true, fatal = false},
  [0x33] = {words = "RNR NAK: wait 7.68 ms at least", refused = true, fatal = false},
  [0x34] = {words = "RNR NAK: wait 10.24 ms at least", refused = true, fatal = false},
  [0x35] = {words = "RNR NAK: wait 15.36 ms at least", refused = true, fatal = false},
  [0x36] = {words = "RNR NAK: wait 20.48 ms at least", refused = true, fatal = false},
  [0x37] = {words = "RNR NAK: wait 30.72 ms at least", refused = true, fatal = false},
  [0x38] = {words = "RNR NAK: wait 40.96 ms at least", refused = true, fatal = false},
  [0x39] = {words = "RNR NAK: wait 61.44 ms at least", refused = true, fatal = false},
  [0x3A] = {words = "RNR NAK: wait 81.92 ms at least", refused = true, fatal = false},
  [0x3B] = {words = "RNR NAK: wait 122.88 ms at least", refused = true, fatal = false},
  [0x3C] = {words = "RNR NAK: wait 163.84 ms at least", refused = true, fatal = false},
  [0x3D] = {words = "RNR NAK: wait 245.76 ms at least", refused = true, fatal = false},
  [0x3E] = {words = "RNR NAK: wait 327.68 ms at least", refused = true, fatal = false},
  [0x3F] = {words = "RNR NAK: wait 491.52 ms at least", refused = true, fatal = false},
  [0x60] = {words = "NAK: PSN sequence error", refused = true, fatal = false},
  [0x61] = {words = "NAK: invalid request", refused = true, fatal = true},
  [0x62] = {words = "NAK: remote access error", refused = true, fatal = true},
  [0x63] = {words = "NAK: remote operational error", refused = true, fatal = true},
  [0x64] = {words = "NAK: invalid RD request", refused = true, fatal = true},
}
local FLUSH = {
  selectivity = {[0] = "memory range", [1] = "memory region"},
  placement = {[1] = "global visibility", [2] = "persistence", [3] = "global visibility and persistence"},
}
-- End of the tables.

-- The bits of a field in the last word that it lies in.
local function mask_of(header, name)
  local first, bits = HEADERS[header][name][1], HEADERS[header][name][2]
  -- `bit` counts from -2^31 on; a mask is never negative.
  return bit.lshift(bit.lshift(1, bits) - 1, 32 - first % 32 - bits) % 0x100000000
end

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
local f_selectivity = ProtoField.uint32("uroce.flush.selectivity", "Selectivity", base.DEC, FLUSH.selectivity,
                                        mask_of("FETH", "selectivity"))
local f_placement = ProtoField.uint32("uroce.flush.placement", "Placement", base.DEC, FLUSH.placement, mask_of("FETH", "placement"))
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

-- A field of a header that begins at `at`, and its bytes.
local function field(tvb, at, header, name)
  local first, bits = HEADERS[header][name][1], HEADERS[header][name][2]
  local from = math.floor(first / 8)
  local range = tvb(at + from, math.ceil((first + bits) / 8) - from)
  return range:bitfield(first % 8, bits), range
end

local function is_response(op) return op.kind == "response" or op.kind == "ack" end
-- Packets of a message that others follow are full.
local function is_full(op)
  return (op.kind == "message" or op.kind == "response") and (op.position == "first" or op.position == "middle")
end
local MTUS = {[256] = true, [512] = true, [1024] = true, [2048] = true, [4096] = true}

-- What the first pass has found, by frame number. `askers`: of each way, the keys of the flows of requests.
local flows, marks, askers = {}, {}, {}
function uroce.init() flows, marks, askers = {}, {}, {} end

local function ahead(a, b)  -- a - b in a space of 24 bits.
  local d = (a - b) % 0x1000000
  return d >= 0x800000 and d - 0x1000000 or d
end

local function flow_of(key)
  if not flows[key] then flows[key] = {seen = {}, reads = {}, acked = {}} end
  return flows[key]
end

-- So many PSNs are no gap: the QP begins anew (the same as in `uroce explain`).
local FAR = 0x100000

-- A READ takes as many PSNs as it has responses; where the path MTU is not known, those of the smallest one.
local function psns_of(length, mtu) return math.max(1, math.ceil(length / (mtu or 256))) end

-- The frame of the request that has this PSN, or whose responses have it.
local READS = 256  -- More than a QP has outstanding.
local function request_of(flow, psn, mtu)
  if flow.seen[psn] then return flow.seen[psn] end
  for i = #flow.reads, math.max(1, #flow.reads - READS + 1), -1 do
    local read = flow.reads[i]
    local offset = ahead(psn, read.psn)
    if offset > 0 and offset < psns_of(read.length, mtu) then return read.number end
  end
end

local function is_within(flow, psn) return ahead(psn, flow.low) >= 0 and ahead(psn, flow.high) <= 0 end

-- The requests that an answer fits: those sent last, those that the answer before has fit, or any. An ACK may also lie
-- between them: some were not captured. A NAK may be for a PSN that nobody has sent.
local function asked_by(flow, way, packet)
  local psn, mtu = packet.psn, packet.mtu
  if way.newest.seen[psn] then return way.newest end
  if packet.refused then return end
  if flow.asked and request_of(flow.asked, psn, mtu) then return flow.asked end
  local best, newest = nil, 0
  for _, key in ipairs(way) do
    local number = request_of(flows[key], psn, mtu)
    if number and number > newest then best, newest = flows[key], number end
  end
  if best then return best end
  if flow.asked and is_within(flow.asked, psn) then return flow.asked end
  for _, key in ipairs(way) do
    if is_within(flows[key], psn) then return flows[key] end
  end
end

-- Requests take one PSN each, a READ as many as it has responses. `low`, `high`: the first and the last one so far.
local function note_request(flow, packet, mark)
  local psn, op = packet.psn, packet.op
  local is_new = not flow.high or ahead(psn, flow.high) > 0
  if flow.seen[psn] and not is_new then mark.again = flow.seen[psn] end
  if is_new then
    if flow.high and flow.sure and ahead(psn, flow.high) > 1 then mark.gap = ahead(psn, flow.high) - 1 end
    local goes_on = op.position == "middle" or op.position == "last"
    if op.position == "first" then flow.begins = packet.number elseif not goes_on or mark.gap then flow.begins = nil end
    if goes_on then mark.begins = flow.begins end
    flow.high, flow.sure = psn, true
    if op.kind == "read" then
      if packet.mtu and packet.length then
        flow.high = (psn + psns_of(packet.length, packet.mtu) - 1) % 0x1000000
      else
        flow.sure = false
      end
    end
  elseif flow.seen[psn] and marks[flow.seen[psn]] then
    mark.begins = marks[flow.seen[psn]].begins
  end
  if not flow.low or ahead(psn, flow.low) < 0 then flow.low = psn end
  if ahead(flow.high, flow.low) > 4 * FAR then flow.low = (flow.high - 4 * FAR) % 0x1000000 end
  if packet.dropped and flow.seen[psn] then return end  -- The other one is answered.
  flow.seen[psn] = packet.number
  if packet.length and not packet.dropped then
    flow.reads[#flow.reads + 1] = {psn = psn, number = packet.number, length = packet.length}
  end
end

-- `way`: of the requests that go the other way; nil: the capture has none. ACKs of other requests are those of another
-- connection: `acked` is kept for each.
local function note_response(flow, way, packet, mark)
  local asked = way and asked_by(flow, way, packet)
  flow.asked = asked or flow.asked
  mark.answers = asked and request_of(asked, packet.psn, packet.mtu)
  local completes = packet.op.position == "last" or packet.op.position == "only"
  if mark.answers and completes then marks[mark.answers].answered = packet.number end
  if packet.op.kind ~= "ack" or packet.refused or (way and not asked) then return end
  local key = asked or flow
  local acked = flow.acked[key]
  if acked and ahead(packet.psn, acked.psn) <= 0 then
    mark.acked = acked.number
  else
    flow.acked[key] = {psn = packet.psn, number = packet.number}
  end
end

-- The flow of a request. A QP that begins anew has a new one. Nothing: a PSN far away that may be damaged.
local function request_flow(way, packet)
  local key = ">" .. way .. packet.qp
  local flow = flow_of(key)
  local step = flow.high and ahead(packet.psn, flow.high) or 1
  if packet.dropped and (step > 1 or step < -FAR) then return end
  local starts = packet.op.position == "first" or packet.op.position == "only"
  if flow.high and flow.sure and starts and math.abs(step) > FAR then
    flows[key] = nil
    flow = flow_of(key)
  elseif not flow.high and packet.op.service == "RC" then  -- The peer's answers name another QP.
    askers[way] = askers[way] or {}
    table.insert(askers[way], key)
  end
  if packet.op.service == "RC" then askers[way].newest = flow end
  return flow
end

local function first_pass(packet)
  local mark = {}
  marks[packet.number] = mark
  local op = packet.op
  if not op or (op.service ~= "RC" and op.service ~= "UC") then return end  -- Datagrams, CNPs, opcodes that nobody knows.
  local way, back = packet.from .. ">" .. packet.to, packet.to .. ">" .. packet.from
  local pair = flow_of("mtu" .. (way < back and way or back))
  if is_full(op) and MTUS[packet.payload] and not packet.dropped then pair.mtu = packet.payload end
  packet.mtu = pair.mtu
  if not is_response(op) then
    local flow = request_flow(way, packet)
    if flow then note_request(flow, packet, mark) end
  elseif not packet.dropped then  -- Else it answers nothing.
    note_response(flow_of("<" .. way .. packet.qp), askers[back], packet, mark)
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

-- FLUSH and ATOMIC WRITE (IBTA Annex A19): Wireshark does not know their headers. `at`: where BTH begins.
local function extensions(tvb, tree, op, at, words)
  if (op.kind ~= "flush" and op.kind ~= "atomic_write") or tvb:len() < at + op.bytes then return end
  words[#words + 1] = op.kind == "flush" and "FLUSH" or "ATOMIC WRITE"
  tree:add(f_operation, tvb(at, op.bytes), words[#words])
  if op.FETH then
    local feth = tvb(at + op.FETH, 4)
    local placement, selectivity = field(tvb, at + op.FETH, "FETH", "placement"), field(tvb, at + op.FETH, "FETH", "selectivity")
    tree:add(f_selectivity, feth)
    local item = tree:add(f_placement, feth)
    if not FLUSH.placement[placement] or not FLUSH.selectivity[selectivity] then item:add_proto_expert_info(e_reserved) end
  end
  for _, part in ipairs({{f_va, "va"}, {f_rkey, "rkey"}, {f_length, "len"}}) do
    local _, range = field(tvb, at + op.RETH, "RETH", part[2])
    tree:add(part[1], range)
  end
  if op.kind == "atomic_write" and tvb:len() >= at + op.bytes + 8 then tree:add(f_written, tvb(at + op.bytes, 8)) end
end

function uroce.dissector(tvb, pinfo, root)
  local ip, is_v6, udp = find_headers(tvb)
  if not ip then return end
  if tvb:reported_length_remaining() < udp + 24 or tvb:len() < udp + 20 then return end
  local size = tvb(udp + 4, 2):uint()
  if size < 24 then return end
  local bth = udp + 8
  local qp, psn = field(tvb, bth, "BTH", "dqpn"), field(tvb, bth, "BTH", "psn")
  local op = OPCODES[field(tvb, bth, "BTH", "opcode")]
  local tree = root:add(uroce, tvb(udp + 8))
  local words = {}
  local dropped = field(tvb, bth, "BTH", "tver") ~= 0  -- By the receiver.

  if tvb:len() >= udp + size then
    local bytes = tvb:bytes()
    local right = icrc_is_right(bytes, ip, is_v6, udp, size)
    local item = tree:add(f_icrc, tvb(udp + size - 4, 4), right and "right" or "WRONG")
    if not right then
      dropped = true
      item:add_proto_expert_info(e_icrc)
      words[#words + 1] = "ICRC WRONG"
    end
  else
    tree:add(f_icrc, "not captured")
  end

  local refused = false
  if op and op.AETH and tvb:len() >= bth + op.AETH + 4 then
    local at = bth + op.AETH
    local value = field(tvb, at, "AETH", "syndrome")
    local syndrome = SYNDROMES[value] or {words = string.format("reserved syndrome 0x%02x", value), refused = true}
    refused = syndrome.refused
    local item = tree:add(f_syndrome, tvb(at, 4), syndrome.words .. ", MSN " .. field(tvb, at, "AETH", "msn"))
    if refused then
      item:add_proto_expert_info(e_refused, syndrome.words)
      words[#words + 1] = syndrome.words
      if syndrome.fatal then item:add_proto_expert_info(e_fatal) end
    end
  end
  if op then extensions(tvb, tree, op, bth, words) end
  if op and op.kind == "cnp" then
    tree:add(f_note, "CNP: the receiver asks for fewer packets per second"):add_proto_expert_info(e_congestion)
    words[#words + 1] = "CNP"
  end
  local class = is_v6 and bit.rshift(tvb(ip, 2):uint(), 4) or tvb(ip + 1, 1):uint()
  if bit.band(class, 3) == 3 then
    tree:add(f_note, "Marked by the network: congestion experienced"):add_proto_expert_info(e_congestion)
  end

  if not pinfo.visited then
    local address = is_v6 and {ip + 8, ip + 24, 16} or {ip + 12, ip + 16, 4}
    local has_length = op and op.kind == "read" and tvb:len() >= bth + op.bytes
    first_pass({number = pinfo.number, op = op, qp = qp, psn = psn, refused = refused, dropped = dropped,
                from = tvb(address[1], address[3]):bytes():tohex(), to = tvb(address[2], address[3]):bytes():tohex(),
                length = has_length and field(tvb, bth + op.RETH, "RETH", "len") or nil,
                payload = op and size - 12 - op.bytes})
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
