// The ladder: two lifelines, one row for each packet. Only the rows on the screen exist as elements, so that long captures
// stay smooth; beyond PAGE packets the capture is shown in pages.
'use strict';

const PAGE = 10000;
const ROW = 22;
const LADDER = {width: 250, left: 20, right: 230, middle: 125};
const byId = (id) => document.getElementById(id);
const view = byId('view');
const rows = byId('rows');

// One packet: [place, time in ns, connection, from the left, what, psn, part, why, kind, problem, fate, cause (index or
// -1), way in ns, reason, fields].
const PLACE = 0, TIME = 1, CONNECTION = 2, LEFT = 3, WHAT = 4, PSN = 5, PART = 6, WHY = 7, KIND = 8, PROBLEM = 9, FATE = 10,
      CAUSE = 11, WAY = 12, REASON = 13, HEAD = 14, NETWORK = 15;

const places = new Map(DATA.packets.map((packet, i) => [packet[PLACE], i]));
let shown = [];    // Indices of DATA.packets, as the filters leave them.
let tops = [];     // Where each of them is, in pixels.
let picked = -1;   // Index of DATA.packets.
let came = [];     // From where links were followed.
let zoom = 1;      // For the distances by time.

function text(element, content) {
  element.textContent = content;
  return element;
}

function make(tag, className, content) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (content !== undefined) element.textContent = content;
  return element;
}

function duration(ns) {
  const size = Math.abs(ns);
  if (size < 1e3) return ns + ' ns';
  if (size < 1e6) return (ns / 1e3).toFixed(2) + ' us';
  if (size < 1e9) return (ns / 1e6).toFixed(2) + ' ms';
  return (ns / 1e9).toFixed(3) + ' s';
}

function matches(packet, words) {
  const line = (packet[PLACE] + ' ' + packet[WHAT] + ' PSN ' + packet[PSN] + ' ' + packet[PART] + ' ' + packet[WHY]).toLowerCase();
  return words.every((word) => line.includes(word));
}

// For the packets of the page that is shown.
function* pageIndices() {
  const first = Number(byId('page').value || 0) * PAGE;
  for (let i = first; i < Math.min(first + PAGE, DATA.packets.length); ++i) yield i;
}

function filter() {
  const connection = Number(byId('connection').value);
  const problems = byId('problems').checked;
  const words = byId('search').value.toLowerCase().split(/\s+/).filter(Boolean);
  shown = [];
  for (const i of pageIndices()) {
    const packet = DATA.packets[i];
    if (connection && packet[CONNECTION] !== connection) continue;
    if (problems && !packet[PROBLEM]) continue;
    if (words.length && !matches(packet, words)) continue;
    shown.push(i);
  }
  text(byId('found'), shown.length === DATA.packets.length ? '' : shown.length + ' of ' + DATA.packets.length);
  place();
}

// By order: row under row. By time: a pause adds to the distance, as its length says (a screen for the longest one, or
// `zoom` screens).
function place() {
  tops = new Array(shown.length);
  const timed = byId('spacing').value === 'time';
  let longest = 1;
  for (let i = 1; timed && i < shown.length; ++i) {
    longest = Math.max(longest, DATA.packets[shown[i]][TIME] - DATA.packets[shown[i - 1]][TIME]);
  }
  let top = ROW;
  for (let i = 0; i < shown.length; ++i) {
    if (timed && i > 0) {
      top += Math.max(0, DATA.packets[shown[i]][TIME] - DATA.packets[shown[i - 1]][TIME]) / longest * 600 * zoom;
    }
    tops[i] = top;
    top += ROW;
  }
  rows.style.height = (top + ROW) + 'px';
  draw();
}

function rowAt(top) {
  let low = 0, high = tops.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (tops[middle] < top) low = middle + 1; else high = middle;
  }
  return low;
}

const SVG = 'http://www.w3.org/2000/svg';  // A name, not an address: nothing is fetched.
function shape(name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

function arrow(packet, above, below) {
  const svg = shape('svg', {width: LADDER.width, height: ROW, role: 'img'});
  const life = {stroke: 'var(--life)', 'stroke-width': 1};
  for (const x of [LADDER.left, LADDER.right]) svg.append(shape('line', {x1: x, x2: x, y1: -above, y2: ROW + below, ...life}));
  const [from, to] = packet[LEFT] ? [LADDER.left, LADDER.right] : [LADDER.right, LADDER.left];
  const sign = packet[LEFT] ? 1 : -1;
  const lost = packet[FATE] === 'lost', damaged = packet[FATE] === 'damaged';
  const end = lost ? LADDER.middle : to;
  const color = `var(--${packet[KIND]})`;
  const dash = packet[REASON] === 'network_copy' ? '2 3' : damaged ? '7 4' : 'none';
  svg.append(shape('line', {x1: from, y1: 7, x2: end - sign * (lost ? 0 : 2), y2: 14, stroke: color, 'stroke-width': packet[PROBLEM] ? 2.2 : 1.5,
                            'stroke-dasharray': dash, class: 'arrow'}));
  if (lost || damaged) {
    const x = LADDER.middle, y = lost ? 14 : 10.5;
    svg.append(shape('path', {d: `M${x - 4} ${y - 4}L${x + 4} ${y + 4}M${x + 4} ${y - 4}L${x - 4} ${y + 4}`, stroke: 'var(--bad)', 'stroke-width': 2.2,
                              class: lost ? 'lost' : 'damaged'}));
  }
  if (!lost) svg.append(shape('path', {d: `M${to} 14l${-sign * 8} -5v8z`, fill: color}));
  return svg;
}

// "#4" in a sentence becomes a link to that packet.
function linked(sentence) {
  const span = make('span', 'why');
  for (const part of sentence.split(/([a-z]?#\d+)/)) {
    const target = /#/.test(part) ? places.get(part) : undefined;
    if (target === undefined) { span.append(part); continue; }
    const link = make('a', '', part);
    link.onclick = (event) => { event.stopPropagation(); follow(target); };
    span.append(link);
  }
  return span;
}

function row(at) {
  const index = shown[at];
  const packet = DATA.packets[index];
  const element = make('div', 'row' + (packet[PROBLEM] ? ' problem' : '') + (index === picked ? ' pick' : ''));
  if (picked >= 0 && DATA.packets[picked][CAUSE] === index) element.classList.add('cause');
  element.style.top = tops[at] + 'px';
  element.dataset.index = index;
  element.append(make('span', 'number', packet[PLACE]), make('span', 'time', ((packet[TIME] - DATA.start) / 1e6).toFixed(3) + ' ms'));
  element.append(make('span', 'number', packet[CONNECTION] || ''));
  const above = at > 0 ? Math.min(tops[at] - tops[at - 1] - ROW, 700 * Math.max(1, zoom)) : ROW;
  element.append(arrow(packet, above, 0));
  const words = make('span', 'words');
  const name = make('span', 'name', packet[WHAT]);
  name.style.color = `var(--${packet[KIND]})`;
  words.append(name, ' ' + (packet[PSN] ? 'PSN ' + packet[PSN] : '') + (packet[PART] ? ' · ' + packet[PART] : '') + ' ', linked(packet[WHY]));
  words.title = packet[WHY];
  element.append(words);
  element.onclick = () => { pick(index); details(true); };
  return element;
}

// The rows that the last one has left on the screen stay, unless they may look different now.
let drawn = new Map();
function draw(again = true) {
  const from = Math.max(0, rowAt(view.scrollTop - rows.offsetTop) - 10);
  const to = Math.min(shown.length, rowAt(view.scrollTop + view.clientHeight) + 10);
  const next = new Map();
  for (let at = from; at < to; ++at) next.set(at, (!again && drawn.get(at)) || row(at));
  drawn = next;
  rows.replaceChildren(...drawn.values());
}

function pick(index) {
  picked = index;
  const at = shown.indexOf(index);
  if (at >= 0) {
    const top = tops[at];
    if (top < view.scrollTop + ROW || top > view.scrollTop + view.clientHeight - 3 * ROW) view.scrollTop = Math.max(0, top - view.clientHeight / 2);
  }
  draw();
  if (byId('details').classList.contains('open')) details(true);
  drawTracks();
}

// To a packet that the filters may hide.
function follow(index) {
  if (picked >= 0) came.push(picked);
  if (!shown.includes(index)) {
    byId('search').value = '';
    byId('problems').checked = false;
    byId('connection').value = '0';
    byId('page').value = String(Math.floor(index / PAGE));
    filter();
  }
  pick(index);
}

// The row at the top of the screen stays there.
function zoomRows(factor) {
  byId('spacing').value = 'time';
  const at = Math.min(rowAt(view.scrollTop), Math.max(0, shown.length - 1));
  const below = tops.length ? tops[at] - view.scrollTop : 0;
  zoom = Math.min(64, Math.max(1 / 16, zoom * factor));
  place();
  if (tops.length) view.scrollTop = tops[at] - below;
  draw();
}

function step(by, wanted) {
  let at = shown.indexOf(picked);
  if (at < 0) at = by > 0 ? -1 : shown.length;
  do at += by; while (at >= 0 && at < shown.length && wanted && !wanted(DATA.packets[shown[at]]));
  if (at >= 0 && at < shown.length) pick(shown[at]);
}

// The value of a field: `bit` and `width` as in the specification's drawings.
function field(head, offset, bit, width) {
  let value = 0n;
  for (let i = bit; i < bit + width; ++i) {
    const byte = parseInt(head.substr(2 * (offset + (i >> 3)), 2), 16);
    value = value << 1n | BigInt(byte >> (7 - i % 8) & 1);
  }
  return value;
}

function table(title, lines) {
  const heading = make('h3', '', title);
  const body = make('table');
  for (const [name, value, means] of lines) {
    const line = make('tr');
    line.append(make('td', '', name), make('td', '', value), make('td', 'means', means));
    body.append(line);
  }
  return [heading, body];
}

function details(open) {
  const pane = byId('details');
  pane.classList.toggle('open', open && picked >= 0);
  if (!open || picked < 0) return draw();
  const packet = DATA.packets[picked];
  pane.replaceChildren(make('h2', '', packet[PLACE] + ' ' + packet[WHAT]), linked(packet[WHY] || 'as it should be'));
  const network = DATA.networks[packet[NETWORK]];
  pane.append(...table('IP and UDP', network));
  if (packet[WAY] !== 0) pane.append(...table('Both ends', [['on the way', duration(packet[WAY]), 'from one capture to the other']]));
  let offset = 0;
  for (const id of DATA.opcodes[parseInt(packet[HEAD].substr(0, 2), 16)] || []) {
    const header = DATA.headers[id];
    pane.append(...table(header.name, header.fields.map(([name, bit, width, means]) => {
      const value = field(packet[HEAD], offset, bit, width);
      return [name, width > 7 ? '0x' + value.toString(16) : value.toString(), means];
    })));
    offset += header.size;
  }
}

function keys(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target === byId('search')) {
    if (event.key === 'Escape' || event.key === 'Enter') view.focus();
    return;
  }
  const actions = {
    j: () => step(1), ArrowDown: () => step(1), k: () => step(-1), ArrowUp: () => step(-1),
    n: () => step(1, (p) => p[PROBLEM]), p: () => step(-1, (p) => p[PROBLEM]),
    c: () => { if (picked >= 0 && DATA.packets[picked][CAUSE] >= 0) follow(DATA.packets[picked][CAUSE]); },
    b: () => { if (came.length) pick(came.pop()); },
    t: () => { const s = byId('spacing'); s.value = s.value === 'time' ? 'order' : 'time'; place(); },
    '+': () => zoomRows(2), '=': () => zoomRows(2), '-': () => zoomRows(0.5),
    g: () => { byId('tracks').open = !byId('tracks').open; },
    Enter: () => details(!byId('details').classList.contains('open')), Escape: () => details(false),
    '/': () => byId('search').focus(),
  };
  if (!actions[event.key] || event.target.tagName === 'SELECT') return;
  event.preventDefault();
  actions[event.key]();
}

function start() {
  text(byId('title'), DATA.title);
  text(byId('summary'), DATA.summary);
  byId('story').open = DATA.packets.length > 0;
  const connection = byId('connection');
  connection.append(new Option('all', '0'));
  for (const [number, name] of DATA.connections) connection.append(new Option(number + ': ' + name, number));
  const pages = Math.max(1, Math.ceil(DATA.packets.length / PAGE));
  for (let i = 0; i < pages; ++i) {
    byId('page').append(new Option((i * PAGE + 1) + ' to ' + Math.min((i + 1) * PAGE, DATA.packets.length), i));
  }
  byId('pages').style.display = pages > 1 ? '' : 'none';
  for (const id of ['connection', 'problems', 'page']) byId(id).onchange = filter;
  byId('spacing').onchange = place;
  byId('search').oninput = filter;
  byId('page').onchange = () => { filter(); drawTracks(); };
  byId('look').onclick = () => {
    const root = document.documentElement;
    const dark = root.dataset.look ? root.dataset.look === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.look = dark ? 'light' : 'dark';
    drawTracks();
  };
  let waiting = false;
  view.onscroll = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(false); });
  };
  new ResizeObserver(() => draw(false)).observe(view);
  document.addEventListener('keydown', keys);
  // On paper everything is to be seen.
  addEventListener('beforeprint', () => {
    rows.replaceChildren(...shown.slice(0, 3000).map((_, at) => row(at)));
  });
  addEventListener('afterprint', () => draw());
  filter();
  view.focus();
}

start();
