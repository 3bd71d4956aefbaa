// PSN and MSN over time, for one direction of a connection: what the requester sends rises, what is sent again falls back,
// answers follow. The wheel zooms, dragging moves, a click picks the packet.
'use strict';

const tracks = {canvas: byId('chart'), points: [], from: 0, to: 1, moved: false};
const TRACK = {left: 66, right: 12, top: 6, axis: 16, msn: 0.28};  // Pixels, and the part of the height that MSNs have.

function isResponse(packet) {
  const opcode = parseInt(packet[HEAD].substr(0, 2), 16);
  return opcode >= 0x0D && opcode <= 0x12;
}

// The packets of the direction that is chosen: [index, PSN counted on over its wraps, MSN or null, is a response].
function trackData() {
  const [connection, left] = byId('asks').value.split(' ').map(Number);
  const found = [];
  let base = null;
  for (const index of pageIndices()) {
    const packet = DATA.packets[index];
    if (packet[CONNECTION] !== connection || !packet[PSN]) continue;
    const response = isResponse(packet);
    if ((packet[LEFT] === left) === response) continue;
    const psn = parseInt(packet[PSN], 16);
    if (base === null) base = psn;
    const msn = / msn (\d+)/.exec(packet[PSN]);
    found.push([index, base + ((psn - base + 0x1800000) % 0x1000000 - 0x800000), msn ? Number(msn[1]) : null, response]);
  }
  return found;
}

function range(values) {
  const least = Math.min(...values), most = Math.max(...values);
  return [least, most > least ? most : least + 1];
}

function drawTracks() {
  tracks.points = [];
  if (!byId('tracks').open) return;
  const {canvas} = tracks, ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const paint = canvas.getContext('2d');
  paint.scale(ratio, ratio);
  paint.font = '11px system-ui, sans-serif';
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue('--' + name).trim();
  const all = trackData();
  if (all.length === 0) return;
  const times = all.map(([index]) => DATA.packets[index][TIME]);
  const [first, last] = range(times);
  const x = (time) => TRACK.left + ((time - first) / (last - first) - tracks.from) / (tracks.to - tracks.from) *
                                       (width - TRACK.left - TRACK.right);
  const inside = all.filter((_, i) => x(times[i]) >= TRACK.left - 1 && x(times[i]) <= width - TRACK.right + 1);
  const msns = inside.filter(([, , msn]) => msn !== null);
  const split = TRACK.top + (height - TRACK.top - TRACK.axis) * (1 - TRACK.msn);
  const scale = (values, top, bottom) => {
    const [least, most] = range(values);
    return [least, Math.max(...values), (value) => bottom - (value - least) / (most - least) * (bottom - top)];
  };

  paint.fillStyle = color('dim');
  paint.strokeStyle = color('line');
  for (const y of [split + 4, height - TRACK.axis]) {
    paint.beginPath();
    paint.moveTo(TRACK.left, y);
    paint.lineTo(width - TRACK.right, y);
    paint.stroke();
  }
  const at = (part) => duration(first + (tracks.from + (tracks.to - tracks.from) * part) * (last - first) - DATA.start);
  paint.fillText(at(0), TRACK.left, height - 4);
  paint.textAlign = 'right';
  paint.fillText(at(1), width - TRACK.right, height - 4);

  const dots = (list, value, y, size) => {
    for (const entry of list) {
      const packet = DATA.packets[entry[0]];
      const px = x(packet[TIME]), py = y(value(entry));
      paint.fillStyle = paint.strokeStyle = color(packet[KIND]);
      paint.beginPath();
      if (packet[FATE] === 'lost') {
        paint.strokeStyle = color('bad');
        paint.moveTo(px - 4, py - 4); paint.lineTo(px + 4, py + 4);
        paint.moveTo(px + 4, py - 4); paint.lineTo(px - 4, py + 4);
        paint.stroke();
      } else {
        paint.arc(px, py, size, 0, 7);
        if (entry[3]) paint.stroke(); else paint.fill();
      }
      if (entry[0] === picked) {
        paint.strokeStyle = color('text');
        paint.strokeRect(px - 6, py - 6, 12, 12);
      }
      tracks.points.push([px, py, entry[0]]);
    }
  };
  const label = (text, y) => { paint.fillStyle = color('dim'); paint.fillText(text, TRACK.left - 6, y); };
  if (inside.length) {
    const [least, most, y] = scale(inside.map((entry) => entry[1]), TRACK.top + 6, split - 4);
    label('PSN', TRACK.top + 22);
    label('0x' + (most & 0xFFFFFF).toString(16), TRACK.top + 10);
    label('0x' + (least & 0xFFFFFF).toString(16), split);
    dots(inside, (entry) => entry[1], y, 2.5);
  }
  if (msns.length) {
    const [least, most, y] = scale(msns.map((entry) => entry[2]), split + 12, height - TRACK.axis - 5);
    label('MSN ' + most, split + 16);
    if (least !== most) label(String(least), height - TRACK.axis - 2);
    dots(msns, (entry) => entry[2], y, 2);
  }
  byId('zoomed').textContent = tracks.to - tracks.from < 0.999 ? (1 / (tracks.to - tracks.from)).toFixed(1) + ' times as wide' : '';
}

// `part`: where the zoom keeps its place, 0 to 1 of what is to be seen.
function zoomTracks(factor, part) {
  const middle = tracks.from + (tracks.to - tracks.from) * part;
  const span = Math.min(1, Math.max(1e-6, (tracks.to - tracks.from) * factor));
  moveTracks(middle - span * part, span);
}

function moveTracks(from, span) {
  tracks.from = Math.min(Math.max(0, from), 1 - span);
  tracks.to = tracks.from + span;
  drawTracks();
}

function startTracks() {
  for (const [number, name] of DATA.connections) {
    if (name.startsWith('UD')) continue;
    for (const left of [1, 0]) {
      const option = new Option(`${number}: ${left ? 'A asks' : 'B asks'}`, `${number} ${left}`);
      byId('asks').append(option);
      byId('asks').value = option.value;
      if (trackData().length === 0) option.remove();
    }
  }
  byId('asks').selectedIndex = 0;
  if (byId('asks').options.length === 0) byId('tracks').style.display = 'none';
  const {canvas} = tracks;
  const part = (event) => Math.min(1, Math.max(0, (event.offsetX - TRACK.left) / (canvas.clientWidth - TRACK.left - TRACK.right)));
  byId('asks').onchange = () => { tracks.from = 0; tracks.to = 1; drawTracks(); };
  byId('tracks').ontoggle = drawTracks;
  byId('whole').onclick = () => moveTracks(0, 1);
  canvas.addEventListener('wheel', (event) => {
    event.preventDefault();
    zoomTracks(event.deltaY < 0 ? 0.8 : 1.25, part(event));
  }, {passive: false});
  canvas.onpointerdown = (event) => {
    canvas.setPointerCapture(event.pointerId);
    tracks.drag = {x: event.offsetX, from: tracks.from};
    tracks.moved = false;
  };
  canvas.onpointermove = (event) => {
    if (!tracks.drag) return;
    const span = tracks.to - tracks.from, by = event.offsetX - tracks.drag.x;
    tracks.moved = tracks.moved || Math.abs(by) > 3;
    if (tracks.moved) moveTracks(tracks.drag.from - by / (canvas.clientWidth - TRACK.left - TRACK.right) * span, span);
  };
  canvas.onpointerup = (event) => {
    tracks.drag = undefined;
    if (tracks.moved) return;
    let best = null, least = 12 * 12;
    for (const [x, y, index] of tracks.points) {
      const distance = (x - event.offsetX) ** 2 + (y - event.offsetY) ** 2;
      if (distance < least) [best, least] = [index, distance];
    }
    if (best !== null) { follow(best); details(true); }
  };
  new ResizeObserver(drawTracks).observe(canvas);
}

startTracks();
