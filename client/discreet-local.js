/**
 * Reports under local differential privacy: the JavaScript client of discreet.local. One file, no dependency; an ES module for
 * browsers and Node 20 or later.
 *
 *     import { Client, StringStore } from "./discreet-local.js";
 *     const client = new Client(collectionText, pinnedId, new StringStore(load, save));
 *     fetch(address, { method: "POST", body: client.report("red", "2026-11-17") });
 *
 * A report is a function of the value and of integers that are drawn before the value is looked at. Every integer is drawn by
 * `below`; all arithmetic is on integers below 2**53, on BigInt where a product could be larger. The same bytes of randomness
 * give the same report as the Python client: `discreet local vectors` writes the test vectors that hold both to it.
 *
 * From a shell, `node discreet-local.js collection.json` reads JSON lines such as {"value":"red"} and answers each with its
 * report; `runLines` says what a line may hold.
 */

const FORMAT = 1;
const WIRE_VERSION = 1;
const NONCE_BYTES = 16;
const WORD_BITS = 32;
const MAX_MODULUS = 2 ** 53;

/** Between what a lifetime's ε holds, in words, by what it counts. */
const CONDITIONS = {
  report: "any two histories of values",
  once: "any two values; a device reports once",
  state: "histories with the same pattern of equal states over time; when a value changes is not protected",
};

/** What a client refuses; `code` is one of: collection, value, budget, occasion, tape, bound, state. */
export class Refused extends Error {
  constructor(code, message) {
    super(message);
    this.name = "Refused";
    this.code = code;
  }
}

// ---------------------------------------------------------------------------------------------------------------- bytes

const utf8 = (text) => new TextEncoder().encode(text);
const isWellFormed = (text) => !/\p{Surrogate}/u.test(text);

export function toHex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function fromHex(text) {
  if (typeof text !== "string" || !/^(?:[0-9a-f]{2})*$/.test(text)) throw new Refused("state", "not hexadecimal");
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

function join(...parts) {
  const joined = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let place = 0;
  for (const part of parts) {
    joined.set(part, place);
    place += part.length;
  }
  return joined;
}

// SHA-256 and HMAC (FIPS 180-4, RFC 2104). WebCrypto offers them only as promises and only on secure pages.

const ROUND_CONSTANTS = new Uint32Array(64);
const INITIAL_HASH = new Uint32Array(8);

/** The first 32 bits of the fractional part of the square or cube root of a prime, by integers. */
function fractionOfRoot(prime, degree) {
  const scaled = BigInt(prime) << BigInt(32 * degree);
  let low = 0n;
  let high = 1n << 40n;
  while (high - low > 1n) {
    const middle = (low + high) >> 1n;
    if (middle ** BigInt(degree) <= scaled) low = middle;
    else high = middle;
  }
  return Number(low & 0xffffffffn);
}

for (let number = 2, found = 0; found < 64; number++) {
  let prime = true;
  for (let factor = 2; factor * factor <= number; factor++) if (number % factor === 0) prime = false;
  if (!prime) continue;
  if (found < 8) INITIAL_HASH[found] = fractionOfRoot(number, 2);
  ROUND_CONSTANTS[found++] = fractionOfRoot(number, 3);
}

export function sha256(bytes) {
  const blocks = Math.ceil((bytes.length + 9) / 64);
  const padded = new Uint8Array(blocks * 64);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(padded.length - 4, (bytes.length * 8) >>> 0);
  const hash = INITIAL_HASH.slice();
  const w = new Uint32Array(64);
  const turn = (word, bits) => (word >>> bits) | (word << (32 - bits));
  for (let start = 0; start < padded.length; start += 64) {
    for (let i = 0; i < 16; i++) w[i] = view.getUint32(start + 4 * i);
    for (let i = 16; i < 64; i++) {
      const one = turn(w[i - 15], 7) ^ turn(w[i - 15], 18) ^ (w[i - 15] >>> 3);
      const two = turn(w[i - 2], 17) ^ turn(w[i - 2], 19) ^ (w[i - 2] >>> 10);
      w[i] = w[i - 16] + one + w[i - 7] + two;
    }
    let [a, b, c, d, e, f, g, h] = hash;
    for (let i = 0; i < 64; i++) {
      const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + ROUND_CONSTANTS[i] + w[i]) | 0;
      const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => (hash[i] += word));
  }
  const digest = new DataView(new ArrayBuffer(32));
  hash.forEach((word, i) => digest.setUint32(4 * i, word));
  return new Uint8Array(digest.buffer);
}

export function hmacSha256(key, message) {
  const block = new Uint8Array(64);
  block.set(key.length > 64 ? sha256(key) : key);
  const inner = sha256(join(block.map((byte) => byte ^ 0x36), message));
  return sha256(join(block.map((byte) => byte ^ 0x5c), inner));
}

// ---------------------------------------------------------------------------------------------------------------- draws

/** The system's random bytes, for reports that leave the device. */
export class SystemDraws {
  take(count) {
    const bytes = new Uint8Array(count);
    if (!globalThis.crypto?.getRandomValues) throw new Refused("state", "there is no secure source of random bytes");
    for (let start = 0; start < count; start += 65536) {
      globalThis.crypto.getRandomValues(bytes.subarray(start, Math.min(count, start + 65536)));
    }
    return bytes;
  }
}

/** Bytes from a given tape: for conformance tests, never for reports. */
export class TapeDraws {
  constructor(tape) {
    this.tape = tape;
    this.consumed = 0;
  }

  take(count) {
    const end = this.consumed + count;
    if (end > this.tape.length) throw new Refused("tape", "the tape is too short for the report");
    const taken = this.tape.subarray(this.consumed, end);
    this.consumed = end;
    return taken;
  }
}

/** Bytes that a secret and a label determine: HMAC-SHA256 of the label and a counter. */
export class KeyedDraws {
  constructor(secret, label) {
    if (secret.length < 32) throw new Refused("state", "the secret has fewer than 32 bytes");
    this.secret = secret;
    this.prefix = join(bigEndian(label.length), label);
    this.counter = 0;
    this.rest = new Uint8Array(0);
  }

  take(count) {
    while (this.rest.length < count) {
      this.rest = join(this.rest, hmacSha256(this.secret, join(this.prefix, bigEndian(this.counter++))));
    }
    const taken = this.rest.subarray(0, count);
    this.rest = this.rest.subarray(count);
    return taken;
  }
}

function bigEndian(number) {
  return Uint8Array.of(number >>> 24, number >>> 16, number >>> 8, number);
}

/** Draw an integer that is uniform on 0 … bound−1: see the Python module `draws`. */
export function below(draws, bound) {
  if (!Number.isInteger(bound) || bound < 1 || bound > MAX_MODULUS) throw new Refused("bound", "not a bound for draws");
  let bits = 0;
  while (2 ** bits < bound) bits++;
  const size = Math.ceil(bits / 8);
  const mask = 2 ** (bits - 8 * (size - 1)) - 1; // of the first byte alone: & is a matter of 32 bits
  for (;;) {
    const bytes = draws.take(size);
    let number = 0;
    for (let i = 0; i < size; i++) number = number * 256 + (i ? bytes[i] : bytes[i] & mask);
    if (number < bound) return number;
  }
}

export const drawAll = (draws, moduli) => moduli.map((modulus) => below(draws, modulus));

// ------------------------------------------------------------------------------------------------------------- integers

/** x // y for 0 ≤ x < 2**53: the remainder is exact, and so is the division that follows. */
const divide = (x, y) => (x - (x % y)) / y;

function multiplyModulo(x, y, modulus) {
  const product = x * y;
  return product < MAX_MODULUS ? product % modulus : Number((BigInt(x) * BigInt(y)) % BigInt(modulus));
}

function greatestDivisor(x, y) {
  while (y) [x, y] = [y, x % y];
  return x;
}

function powerModulo(base, exponent, modulus) {
  let result = 1;
  for (; exponent; exponent = divide(exponent, 2)) {
    if (exponent % 2) result = multiplyModulo(result, base, modulus);
    base = multiplyModulo(base, base, modulus);
  }
  return result;
}

function writeDigits(number, base, length) {
  const digits = [];
  for (let i = 0; i < length; i++) {
    digits.push(number % base);
    number = divide(number, base);
  }
  return digits;
}

function countPoints(q, dimensions) {
  let points = 0;
  for (let i = 0; i < dimensions; i++) points = points * q + 1;
  return points;
}

function pointVector(point, q, dimensions) {
  let length = 0;
  for (let more = 1; more < dimensions; more++) if (countPoints(q, more) <= point) length++; // as many steps for every point
  const digits = writeDigits(point - countPoints(q, length), q, dimensions - 1).slice(0, length).reverse();
  return [...Array(dimensions - 1 - length).fill(0), 1, ...digits];
}

function vectorPoint(vector, q) {
  const first = vector.findIndex((digit) => digit);
  const inverse = powerModulo(vector[first], q - 2, q);
  let number = 0;
  for (const digit of vector.slice(first + 1)) number = number * q + multiplyModulo(digit, inverse, q);
  return countPoints(q, vector.length - 1 - first) + number;
}

/** Whether two integers below 2**53 share an odd number of ones. */
function sharesOddly(one, two) {
  let word = (one & two) ^ ((one / 2 ** 32) & (two / 2 ** 32));
  for (const bits of [16, 8, 4, 2, 1]) word ^= word >>> bits;
  return word & 1;
}

function readFraction(text) {
  const [top, bottom] = /^(?:0|[1-9][0-9]*)\/[1-9][0-9]*$/.test(text) ? text.split("/").map(BigInt) : [0n, 0n];
  if (!bottom || greatestDivisor(top, bottom) !== 1n) throw new Refused("collection", "not a fraction in lowest terms");
  return [top, bottom];
}

function readOdds(spec) {
  const [a, b] = readFraction(spec.odds).map(Number);
  if (!Number.isSafeInteger(a) || !(a > b)) throw new Refused("collection", "not odds above 1 that this client can count");
  return [a, b];
}

// ----------------------------------------------------------------------------------------------------------- mechanisms
// Each has: values; fields (what each integer of a report stays below); moduli (what one report draws below, whatever the
// value); select(value, drawn). The proofs stand in the Python module `oracles`. With memo there are deviceModuli,
// permanentModuli, encode(value, device) and selectPermanent(state, drawn) too, and select takes the permanent state.

const wordFields = (bits) =>
  Array.from({ length: Math.ceil(bits / WORD_BITS) }, (_, word) => 2 ** Math.min(WORD_BITS, bits - WORD_BITS * word));

function packBits(bits) {
  const words = Array(Math.ceil(bits.length / WORD_BITS)).fill(0);
  bits.forEach((bit, place) => (words[divide(place, WORD_BITS)] += bit ? 2 ** (place % WORD_BITS) : 0));
  return words;
}

function keepOrReplace(true_, number, a, b) {
  if (number < a) return true_;
  const other = divide(number - a, b);
  return other + (other >= true_ ? 1 : 0);
}

function direct(spec) {
  const [a, b] = readOdds(spec);
  return {
    fields: [spec.values],
    moduli: [a + b * (spec.values - 1)],
    select: (value, [number]) => [keepOrReplace(value, number, a, b)],
  };
}

function unary(spec) {
  const [a, b] = readFraction(spec.odds);
  const [p, q] = readFraction(spec.bit_share);
  let [top, bottom] = [a * p, b * q + (a - b) * p]; // the probability of the true bit, X·s/(1 + (X − 1)·s)
  const shared = greatestDivisor(top, bottom);
  [top, bottom] = [top / shared, bottom / shared];
  const modulus = (bottom * q) / greatestDivisor(bottom, q);
  const truth = Number((top * modulus) / bottom);
  const other = Number((p * modulus) / q);
  return {
    fields: wordFields(spec.values),
    moduli: Array(spec.values).fill(Number(modulus)),
    select: (value, drawn) => packBits(drawn.map((number, place) => number < (place === value ? truth : other))),
  };
}

function subset(spec) {
  const [a, b] = readOdds(spec);
  const { values, size } = spec;
  const ends = Array.from({ length: size }, (_, i) => values - size + i);
  return {
    fields: Array(size).fill(values),
    moduli: [size * a + (values - size) * b, ...ends, size],
    select(value, drawn) {
      const chosen = [];
      ends.forEach((end, i) => chosen.push(chosen.includes(drawn[i + 1]) ? end - 1 : drawn[i + 1]));
      const report = chosen.map((other) => other + (other >= value ? 1 : 0));
      if (drawn[0] < size * a) report[drawn[size + 1]] = value;
      return report.sort((one, two) => one - two);
    },
  };
}

function linearHash(fn, value, g) {
  let total = 0;
  for (; fn; [fn, value] = [divide(fn, g), divide(value, g)]) {
    total = (total + multiplyModulo(fn % g, value % g, g)) % g;
  }
  return total; // as many steps as the function has digits, whatever the value
}

function hashed(spec) {
  const [a, b] = readOdds(spec);
  const g = spec.buckets;
  let functions = g;
  while (functions < spec.values) functions *= g;
  return {
    fields: [functions, g],
    moduli: [functions, a + b * (g - 1)],
    select: (value, [fn, number]) => [fn, keepOrReplace(linearHash(fn, value, g), number, a, b)],
  };
}

function fixedHashed(spec) {
  const [a, b] = readOdds(spec);
  const g = spec.buckets;
  const [all] = hashed(spec).fields;
  const stream = new KeyedDraws(sha256(utf8(`discreet.local functions ${spec.salt}`)), utf8("functions"));
  const table = drawAll(stream, Array(spec.functions).fill(all));
  return {
    fields: [spec.functions, g],
    moduli: [spec.functions, a + b * (g - 1)],
    select: (value, [fn, number]) => [fn, keepOrReplace(linearHash(table[fn], value, g), number, a, b)],
  };
}

function hadamard(spec) {
  const [a, b] = readOdds(spec);
  let rows = 1;
  while (rows <= spec.values) rows *= 2;
  return {
    fields: [rows, 2],
    moduli: [rows, a + b],
    select: (value, [row, coin]) => [row, sharesOddly(row, value + 1) ^ (coin >= a ? 1 : 0)],
  };
}

function projective(spec) {
  const [a, b] = readOdds(spec);
  const { order: q, dimensions } = spec;
  const points = countPoints(q, dimensions);
  const line = countPoints(q, dimensions - 1);
  return {
    fields: [points],
    moduli: [a * line + b * (points - line)],
    select(value, [number]) {
      const vector = pointVector(value, q, dimensions);
      const place = vector.indexOf(1);
      const others = vector.filter((_, i) => i !== place);
      const orthogonal = number < a * line;
      const rest = orthogonal
        ? pointVector(divide(number, a), q, dimensions - 1)
        : writeDigits(divide(number - a * line, b), q, dimensions - 1);
      let missing = orthogonal ? 0 : 1;
      rest.forEach((digit, i) => (missing = (missing + q - multiplyModulo(digit, others[i], q)) % q));
      return [vectorPoint([...rest.slice(0, place), missing, ...rest.slice(place)], q)];
    },
  };
}

// Public hash functions of texts: see the Python module `hashing`. The field has 2**61 − 1 elements, so these are BigInts.

const PRIME = (1n << 61n) - 1n;

function drawElement(stream) {
  for (;;) {
    const number = stream.take(8).reduce((total, byte) => total * 256n + BigInt(byte), 0n) & PRIME;
    if (number < PRIME) return number;
  }
}

/** Return (text, function, buckets) → bucket for a salt. Polynomials are drawn when they are needed, and kept. */
function makeHash(salt) {
  const key = hmacSha256(utf8("discreet.local hashing"), utf8(salt));
  const polynomials = new Map();
  const drawPolynomial = (name) => {
    if (!polynomials.has(name)) {
      const stream = new KeyedDraws(key, utf8(name));
      polynomials.set(name, [drawElement(stream), drawElement(stream), drawElement(stream)]);
    }
    return polynomials.get(name);
  };
  return (text, fn, buckets) => {
    const point = drawElement(new KeyedDraws(key, join(utf8("text "), sha256(text))));
    const limit = PRIME - (PRIME % BigInt(buckets));
    for (let attempt = 0; ; attempt++) {
      const [low, middle, high] = drawPolynomial(`function ${fn} attempt ${attempt}`);
      const value = ((high * point + middle) * point + low) % PRIME;
      if (value < limit) return Number(value % BigInt(buckets));
    }
  };
}

/** The letters of a text, cut or padded to a length, with the alphabet's first letter for those that it lacks. */
function normalise(text, length, alphabet) {
  const letters = Array.from(new TextDecoder("utf-8", { ignoreBOM: true }).decode(text)).slice(0, length);
  const known = Array.from(alphabet);
  return Array.from({ length }, (_, i) => (known.includes(letters[i]) ? letters[i] : known[0]));
}

const unpackBits = (words, count) =>
  Array.from({ length: count }, (_, place) => (words[divide(place, WORD_BITS)] >>> place % WORD_BITS) & 1);

/** Draw d of so many by Floyd's algorithm, ascending; `drawn` has draws below total − d + 1, …, total. */
function chooseSet(drawn, total) {
  const chosen = [];
  drawn.forEach((number, i) => chosen.push(chosen.includes(number) ? total - drawn.length + i : number));
  return chosen.sort((one, two) => one - two);
}

// Means and histograms of numbers: see the Python module `numeric`.

function oneBitMean(spec) {
  const [a, b] = readOdds(spec);
  return {
    values: spec.top + 1,
    fields: [2],
    moduli: [(a + b) * spec.top],
    select: (value, [number]) => [number < b * spec.top + (a - b) * value ? 1 : 0],
  };
}

function roundedBit(spec) {
  const [flip, flips] = readFraction(spec.gamma).map(Number);
  const rounded = oneBitMean({ odds: spec.odds, top: divide(spec.top, spec.step) });
  return {
    values: spec.top + 1,
    fields: [2],
    deviceModuli: [spec.step],
    permanentModuli: rounded.moduli,
    moduli: [flips],
    encode: (value, [shift]) => [divide(value + shift, spec.step)],
    selectPermanent: ([state], drawn) => rounded.select(state, drawn),
    select: ([bit], [number]) => [bit ^ (number < flip ? 1 : 0)],
  };
}

function bucketFlip(spec) {
  const { buckets, observed } = spec;
  const [a, b] = readFraction(spec.root).map(Number);
  const [flip, flips] = readFraction(spec.gamma).map(Number);
  return {
    values: buckets,
    fields: [...Array(observed).fill(buckets), ...wordFields(observed)],
    deviceModuli: Array.from({ length: observed }, (_, i) => buckets - observed + 1 + i),
    permanentModuli: Array(observed).fill(a + b),
    moduli: Array(observed).fill(flips),
    encode(value, device) {
      const chosen = chooseSet(device, buckets);
      return [...chosen, ...chosen.map((bucket) => (bucket === value ? 1 : 0))];
    },
    selectPermanent: (state, drawn) =>
      state.map((part, i) => (i < observed ? part : part ^ (drawn[i - observed] >= a ? 1 : 0))),
    select(state, drawn) {
      const bits = state.slice(observed).map((bit, i) => bit ^ (drawn[i] < flip ? 1 : 0));
      return [...state.slice(0, observed), ...packBits(bits)];
    },
  };
}

// RAPPOR: see the Python module `rappor`.

function rapporWith(spec, values, setBits) {
  const { size, cohorts } = spec;
  let [half, halves] = readFraction(spec.f); // f/2, in lowest terms
  [half, halves] = half % 2n ? [half, 2n * halves] : [half / 2n, halves];
  if (!half) halves = 1n;
  const [p, ps] = readFraction(spec.p);
  const [q, qs] = readFraction(spec.q);
  const modulus = (ps * qs) / greatestDivisor(ps, qs);
  const redraw = (truth, other) => ([cohort, ...words], drawn) => {
    const bits = unpackBits(words, size);
    return [cohort, ...packBits(drawn.map((number, place) => number < Number(bits[place] ? truth : other)))];
  };
  return {
    values,
    fields: [cohorts, ...wordFields(size)],
    deviceModuli: [cohorts],
    permanentModuli: Array(size).fill(Number(halves)),
    moduli: Array(size).fill(Number(modulus)),
    encode(value, [cohort]) {
      const chosen = setBits(value, cohort);
      return [cohort, ...packBits(Array.from({ length: size }, (_, place) => chosen.includes(place)))];
    },
    selectPermanent: redraw(halves - half, half),
    select: redraw((q * modulus) / qs, (p * modulus) / ps),
  };
}

function rappor(spec) {
  const hash = makeHash(spec.salt);
  return rapporWith(spec, null, (text, cohort) =>
    Array.from({ length: spec.hashes }, (_, i) => hash(text, cohort * spec.hashes + i, spec.size)),
  );
}

const basicRappor = (spec) => rapporWith(spec, spec.size, (value) => [value]);

function unknownRappor(spec) {
  const { length, gram } = spec;
  const word = rappor(spec.word);
  const part = basicRappor(spec.part);
  const alphabet = Array.from(spec.alphabet);
  const { size } = spec.part;
  const words = wordFields(size).length;
  const places = length / gram;
  const pairs = [];
  for (let one = 0; one < places; one++) for (let two = one + 1; two < places; two++) pairs.push([one, two]);
  const step = (name) => (state, drawn) => [
    state[0],
    ...part[name]([0, ...state.slice(1, 1 + words)], drawn.slice(0, size)).slice(1),
    ...part[name]([0, ...state.slice(1 + words, 1 + 2 * words)], drawn.slice(size, 2 * size)).slice(1),
    ...word[name](state.slice(1 + 2 * words), drawn.slice(2 * size)),
  ];
  return {
    values: null,
    fields: [pairs.length, ...wordFields(size), ...wordFields(size), ...word.fields],
    deviceModuli: [pairs.length, ...word.deviceModuli],
    permanentModuli: [...part.permanentModuli, ...part.permanentModuli, ...word.permanentModuli],
    moduli: [...part.moduli, ...part.moduli, ...word.moduli],
    encode(value, [pair, ...rest]) {
      const letters = normalise(value, length, spec.alphabet);
      const number = (place) =>
        letters.slice(place * gram, (place + 1) * gram).reduce((n, letter) => n * alphabet.length + alphabet.indexOf(letter), 0);
      const bits = pairs[pair].flatMap((place) => part.encode(number(place), [0]).slice(1));
      return [pair, ...bits, ...word.encode(utf8(letters.join("")), rest)];
    },
    selectPermanent: step("selectPermanent"),
    select: step("select"),
  };
}

// Apple's sketches: see the Python module `apple`.

function squareRoot(number) {
  let root = BigInt(Math.floor(Math.sqrt(Number(number))));
  while (root * root > number) root--;
  while ((root + 1n) * (root + 1n) <= number) root++;
  return Number(root);
}

function countMeanSketch(spec) {
  const [a, b] = readFraction(spec.odds).map(squareRoot);
  const hash = makeHash(spec.salt);
  return {
    values: null,
    fields: [spec.functions, ...wordFields(spec.width)],
    moduli: [spec.functions, ...Array(spec.width).fill(a + b)],
    select(text, [fn, ...coins]) {
      const own = hash(text, fn, spec.width);
      return [fn, ...packBits(coins.map((coin, place) => (place === own) !== (coin >= a)))];
    },
  };
}

function hadamardCountMeanSketch(spec) {
  const [a, b] = readOdds(spec);
  const hash = makeHash(spec.salt);
  return {
    values: null,
    fields: [spec.functions, spec.width, 2],
    moduli: [spec.functions, spec.width, a + b],
    select: (text, [fn, row, coin]) => [fn, row, sharesOddly(row, hash(text, fn, spec.width)) ^ (coin >= a ? 1 : 0)],
  };
}

function sequenceFragmentPuzzle(spec) {
  const [fragment, word] = [countMeanSketch(spec.fragment), countMeanSketch(spec.word)];
  const hash = makeHash(`${spec.word.salt} puzzle`);
  const places = spec.length / spec.letters;
  const split = 1 + fragment.moduli.length;
  return {
    values: null,
    fields: [places, ...fragment.fields, ...word.fields],
    moduli: [places, ...fragment.moduli, ...word.moduli],
    select(text, drawn) {
      const letters = normalise(text, spec.length, spec.alphabet);
      const [place, whole] = [drawn[0], utf8(letters.join(""))];
      const part = letters.slice(place * spec.letters, (place + 1) * spec.letters).join("");
      const name = utf8(`${place} ${hash(whole, 0, spec.pieces)} ${part}`);
      return [place, ...fragment.select(name, drawn.slice(1, split)), ...word.select(whole, drawn.slice(split))];
    },
  };
}

const MECHANISMS = new Map([
  ["direct", direct],
  ["unary", unary],
  ["subset", subset],
  ["hashed", hashed],
  ["fixed hashed", fixedHashed],
  ["hadamard", hadamard],
  ["projective", projective],
  ["one-bit mean", oneBitMean],
  ["duchi mean", oneBitMean],
  ["rounded bit", roundedBit],
  ["bucket flip", bucketFlip],
  ["rappor", rappor],
  ["basic rappor", basicRappor],
  ["unknown rappor", unknownRappor],
  ["count mean sketch", countMeanSketch],
  ["hadamard count mean sketch", hadamardCountMeanSketch],
  ["sequence fragment puzzle", sequenceFragmentPuzzle],
]);

/** Return the mechanism that a collection specifies. */
export function buildMechanism(spec) {
  const build = MECHANISMS.get(spec?.type);
  if (!build) throw new Refused("collection", "this client does not know the mechanism");
  const mechanism = { values: spec.values ?? null, ...build(spec) };
  const bounds = [mechanism.moduli, mechanism.deviceModuli ?? [], mechanism.permanentModuli ?? [], mechanism.fields].flat();
  if (!bounds.every((bound) => Number.isInteger(bound) && bound >= 1 && bound <= MAX_MODULUS)) {
    throw new Refused("collection", "the mechanism needs numbers of 2**53 or more");
  }
  return mechanism;
}

/** Draw the report of one value, all fresh integers first; return the memoised state (empty without memo) with it. */
export function drawReport(mechanism, value, draws, secret, id) {
  const drawn = drawAll(draws, mechanism.moduli);
  if (!mechanism.permanentModuli) return { state: [], report: mechanism.select(value, drawn) };
  const label = `discreet.local memo ${id} device`;
  const device = drawAll(new KeyedDraws(secret, utf8(label)), mechanism.deviceModuli);
  const state = mechanism.encode(value, device);
  const stream = new KeyedDraws(secret, utf8(`${label} ${device.join(",")} state ${state.join(",")}`));
  const permanent = mechanism.selectPermanent(state, drawAll(stream, mechanism.permanentModuli));
  return { state, report: mechanism.select(permanent, drawn) };
}

// ---------------------------------------------------------------------------------------------------------- collections

/** Write canonical JSON: sorted keys, no spaces. */
export function toCanonicalJson(value) {
  if (Array.isArray(value)) return `[${value.map(toCanonicalJson).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    const pairs = Object.keys(value).sort().map((key) => `${JSON.stringify(key)}:${toCanonicalJson(value[key])}`);
    return `{${pairs.join(",")}}`;
  }
  if (typeof value === "number" && !Number.isSafeInteger(value)) throw new Refused("collection", "not an integer");
  return JSON.stringify(value);
}

function domainSize(domain) {
  const named = (name) => (name === null ? 0 : 1);
  if (domain.type === "listed") return domain.values.length + named(domain.other) + named(domain.missing);
  if (domain.type === "integers") return divide(domain.high - domain.low, domain.step) + 1 + named(domain.missing);
  if (domain.type === "texts") return null;
  throw new Refused("collection", "this client does not know the domain");
}

/** The number by which a mechanism knows a value; null is a missing value. */
function findIndex(domain, value) {
  if (domain.type === "listed") {
    const labels = [...domain.values, ...[domain.other, domain.missing].filter((name) => name !== null)];
    const numbers = new Map(labels.map((label, place) => [label, place])); // not a search, which ends at the value
    const place = numbers.get(value === null ? domain.missing : value) ?? numbers.get(domain.other);
    if (place === undefined) throw new Refused("value", "the value is not in the domain, which has no `other`");
    return place;
  }
  if (domain.type === "integers") {
    if (value === null && domain.missing !== null) return divide(domain.high - domain.low, domain.step) + 1;
    if (!Number.isInteger(value)) throw new Refused("value", "the value is no integer");
    return divide(Math.min(Math.max(value, domain.low), domain.high) - domain.low, domain.step);
  }
  if (value === null) return Uint8Array.of(0xff);
  if (typeof value !== "string" || !isWellFormed(value)) throw new Refused("value", "the value is no text");
  return utf8(value);
}

/** A collection, read and checked against the id that this client is pinned to. */
export class Collection {
  constructor(text, pinned) {
    let spec;
    try {
      spec = JSON.parse(text);
    } catch {
      throw new Refused("collection", "the collection is not JSON");
    }
    this.id = toHex(sha256(utf8(toCanonicalJson(spec))));
    if (this.id !== pinned) throw new Refused("collection", "not the collection that this client is pinned to");
    if (spec.format !== FORMAT) throw new Refused("collection", "another format than this client reads");
    this.mechanism = buildMechanism(spec.mechanism);
    this.domain = spec.domain;
    this.lifetime = spec.lifetime;
    if (domainSize(this.domain) !== this.mechanism.values) throw new Refused("collection", "domain and mechanism differ");
    const { limit, cost, per } = this.lifetime;
    if (!(cost > 0 && cost <= limit) || !Object.hasOwn(CONDITIONS, per)) {
      throw new Refused("collection", "not a lifetime");
    }
  }
}

// ----------------------------------------------------------------------------------------------------------------- wire

/** The message as JSON, padded with spaces to the collection's size. */
export function writeJson(collection, nonce, report) {
  const write = (numbers) =>
    `{"v":${WIRE_VERSION},"c":"${collection.id.slice(0, 16)}","n":"${toHex(nonce)}","y":[${numbers.join(",")}]`;
  const size = write(collection.mechanism.fields.map((bound) => bound - 1)).length;
  return write(report).padEnd(size) + "}";
}

/** The message as CBOR, each integer at the width of the largest of its field. */
export function writeCbor(collection, nonce, report) {
  const { fields } = collection.mechanism;
  return join(
    Uint8Array.of(0xa4, 0x00, WIRE_VERSION, 0x01, 0x48),
    fromHex(collection.id.slice(0, 16)),
    Uint8Array.of(0x02, 0x50),
    nonce,
    Uint8Array.of(0x03),
    writeHead(4, fields.length, fields.length + 1),
    ...report.map((number, i) => writeHead(0, number, fields[i])),
  );
}

function writeHead(major, number, bound) {
  if (bound <= 24) return Uint8Array.of(major * 32 + number);
  const width = [1, 2, 4, 8].find((bytes) => bound <= 2 ** (8 * bytes));
  return Uint8Array.of(major * 32 + 24 + Math.log2(width), ...writeDigits(number, 256, width).reverse());
}

// --------------------------------------------------------------------------------------------------------------- client

/**
 * A device's state as one text, in whatever `load` and `save` reach (localStorage, a file). `load` returns null before the
 * first `save`. Both are synchronous, and only one client may run at a time: in a page, take a Web Lock around `report`.
 *
 * `limit` bounds what all collections together may spend, in billionths of ε, for life: a stored state takes a smaller one from
 * then on and refuses a larger one. It holds between any two histories; with `conditional` true it also counts collections
 * whose ε holds only between histories with the same pattern of changes. See the Python module `store`.
 */
export class StringStore {
  constructor(load, save, limit = null, conditional = null) {
    if (limit !== null && !(Number.isSafeInteger(limit) && limit > 0)) throw new Refused("state", "not a limit in billionths of ε");
    Object.assign(this, { load, save, limit, conditional });
  }

  read() {
    const text = this.load();
    const fresh = () => ({ secret: toHex(new SystemDraws().take(32)), limit: null, collections: new Map(), conditional: false });
    const state = text === null ? fresh() : readState(text);
    const [had, counted] = [state.limit, state.conditional];
    if (this.limit !== null && had !== null && this.limit > had) {
      throw new Refused("state", "the limit is above the one that this device has for life: leave it out, or give less");
    }
    if (this.conditional && !state.conditional && had !== null) {
      throw new Refused("state", "this device has a limit that holds between any two histories: leave `conditional` out");
    }
    state.limit = this.limit ?? had;
    state.conditional = this.conditional ?? state.conditional;
    const asked = this.limit !== null || this.conditional !== null;
    if (asked && state.limit !== null && !state.conditional && [...state.collections.values()].some((e) => e.states.length)) {
      throw new Refused("state", "this device has reported what is protected only on a condition: give `conditional`");
    }
    if (text !== null && (state.limit !== had || state.conditional !== counted)) this.write(state);
    return state;
  }

  write({ secret, limit, collections, conditional }) {
    const close = ([id, entry]) => [id, { ...entry, sent: Object.fromEntries(entry.sent) }];
    this.save(JSON.stringify({ secret, limit, collections: Object.fromEntries([...collections].map(close)), conditional }));
  }
}

/** Read a stored state; refuse a text that no client wrote, which must not be taken for a new device. */
function readState(text) {
  const isCount = (number) => Number.isSafeInteger(number) && number >= 0;
  const isTable = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
  let stored;
  try {
    stored = JSON.parse(text);
  } catch {
    stored = null;
  }
  const { secret, limit = null, collections, conditional = false } = isTable(stored) ? stored : {};
  const isEntry = (entry) =>
    isTable(entry) && isCount(entry.reports) && isCount(entry.spent) && Array.isArray(entry.states) && isTable(entry.sent);
  const right =
    typeof secret === "string" && /^(?:[0-9a-f]{2}){32,}$/.test(secret) && (limit === null || isCount(limit)) &&
    typeof conditional === "boolean" && isTable(collections) && Object.values(collections).every(isEntry);
  if (!right) throw new Refused("state", "the store holds no state of a device: restore it, or clear it for a new device");
  const open = ([id, entry]) => [id, { ...entry, sent: new Map(Object.entries(entry.sent)) }];
  return { secret, limit, collections: new Map(Object.entries(collections).map(open)), conditional };
}

/** Refuse an occasion that is no text: 5 and "5" would be two occasions before they are stored, and one after. */
function checkOccasion(occasion) {
  if (typeof occasion !== "string" || !isWellFormed(occasion)) throw new Refused("occasion", "the occasion is no text");
}

/** A state that ends with the page or the process. */
export class MemoryStore extends StringStore {
  constructor(secret = null, limit = null, conditional = false) {
    let text = null;
    super(() => text, (next) => (text = next));
    this.write({ secret: toHex(secret ?? new SystemDraws().take(32)), limit, collections: new Map(), conditional });
  }
}

/** One device's reports for one collection. */
export class Client {
  constructor(text, pinned, store, draws = new SystemDraws()) {
    this.collection = text instanceof Collection ? text : new Collection(text, pinned);
    this.store = store;
    this.draws = draws;
  }

  /**
   * Return the message that reports a value on an occasion: as JSON, or with `form` "cbor" as bytes. The occasion is a name
   * that never leaves the device; the same occasion gives the same bytes again.
   */
  report(value, occasion, form = "json") {
    const { nonce, report } = this.draw(value, occasion);
    return (form === "cbor" ? writeCbor : writeJson)(this.collection, fromHex(nonce), report);
  }

  /** The nonce and the integers of an occasion's report: drawn once, charged and stored before they are returned. */
  draw(value, occasion) {
    checkOccasion(occasion);
    const { collection } = this;
    const state = this.store.read();
    const entry = state.collections.get(collection.id) ?? { reports: 0, spent: 0, states: [], sent: new Map() };
    state.collections.set(collection.id, entry);
    if (!entry.sent.has(occasion)) {
      const nonce = toHex(this.draws.take(NONCE_BYTES));
      const index = findIndex(collection.domain, value);
      const drawn = drawReport(collection.mechanism, index, this.draws, fromHex(state.secret), collection.id);
      this.charge(state, entry, drawn.state);
      entry.sent.set(occasion, { nonce, report: drawn.report });
      this.store.write(state);
    }
    const sent = entry.sent.get(occasion);
    if (sent === null) throw new Refused("occasion", "the report of this occasion was confirmed");
    return sent;
  }

  /** Forget the report of an occasion, which the receiver has; the occasion stays used. */
  confirm(occasion) {
    checkOccasion(occasion);
    const state = this.store.read();
    const entry = state.collections.get(this.collection.id);
    if (!entry?.sent.has(occasion)) throw new Refused("occasion", "this occasion has no report");
    entry.sent.set(occasion, null);
    this.store.write(state);
  }

  /** Billionths of ε that this device has spent on the collection; they hold between what `condition` says. */
  get spent() {
    return this.store.read().collections.get(this.collection.id)?.spent ?? 0;
  }

  /** Between what `spent` and the lifetime's ε hold, in words. */
  get condition() {
    return CONDITIONS[this.collection.lifetime.per];
  }

  charge(state, entry, memo) {
    const { limit, cost: each, per } = this.collection.lifetime;
    if (per === "state" && state.limit !== null && !state.conditional) {
      throw new Refused("collection", "its ε holds only on a condition, and this device's limit without one: see `conditional`");
    }
    const label = utf8(`discreet.local mark ${this.collection.id} state ${memo.join(",")}`);
    const mark = toHex(new KeyedDraws(fromHex(state.secret), label).take(16));
    const isNew = !entry.states.includes(mark);
    const cost = per === "state" && !isNew ? 0 : each;
    let remaining = per === "once" && entry.reports ? 0 : limit - entry.spent;
    const spent = [...state.collections.values()].reduce((total, other) => total + other.spent, 0);
    if (state.limit !== null) remaining = Math.min(remaining, state.limit - spent);
    if (cost > remaining) throw new Refused("budget", "this device has reported for life");
    entry.reports += 1;
    entry.spent += cost;
    if (per === "state" && isNew) entry.states.push(mark);
  }
}

// ---------------------------------------------------------------------------------------------------------------- shell

/**
 * Answer JSON lines. A line has `value`, and may have `tape` (hexadecimal randomness), `secret` (of the device), `device` (a
 * name: lines of one device share its state) and `occasion` (a new one unless given). The answer has `json`, `cbor`, `report`
 * and, with a tape, `consumed`; or `error`, the code of what was refused.
 */
export function* runLines(text, lines) {
  const collection = new Collection(text, toHex(sha256(utf8(toCanonicalJson(JSON.parse(text))))));
  const stores = new Map();
  let count = 0;
  for (const line of lines) {
    const asked = JSON.parse(line);
    const draws = asked.tape === undefined ? new SystemDraws() : new TapeDraws(fromHex(asked.tape));
    let store = stores.get(asked.device);
    if (!store) store = new MemoryStore(asked.secret === undefined ? null : fromHex(asked.secret));
    if (asked.device !== undefined) stores.set(asked.device, store);
    try {
      const client = new Client(collection, null, store, draws);
      const { nonce, report } = client.draw(asked.value, asked.occasion ?? `line ${count++}`);
      const json = writeJson(collection, fromHex(nonce), report);
      yield { json, cbor: toHex(writeCbor(collection, fromHex(nonce), report)), report, consumed: draws.consumed };
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      yield { error: error.code };
    }
  }
}

async function runShell(path) {
  const { readFileSync } = await import("node:fs");
  const { createInterface } = await import("node:readline");
  const text = readFileSync(path, "utf8");
  const queue = [];
  const answers = runLines(text, (function* () { for (;;) yield queue.shift(); })());
  for await (const line of createInterface({ input: process.stdin })) {
    queue.push(line);
    process.stdout.write(JSON.stringify(answers.next().value) + "\n");
  }
}

if (typeof process !== "undefined" && process.argv?.[1] && import.meta.url.startsWith("file:")) {
  const { realpathSync } = await import("node:fs");
  const { pathToFileURL } = await import("node:url");
  if (pathToFileURL(realpathSync(process.argv[1])).href === import.meta.url) {
    if (process.argv.length !== 3) {
      process.stderr.write("usage: node discreet-local.js collection.json < values.jsonl\n");
      process.exit(2);
    }
    await runShell(process.argv[2]);
  }
}
