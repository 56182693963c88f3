// Hold client/discreet-local.js to conformance vectors, read as JSON lines: node check_client.mjs path/to/discreet-local.js
// It prints one JSON object: how many vectors of each kind agree, and the first that do not. `law` vectors are checked by
// listing all draws, `below` is also listed for all tapes of one and two bytes, and every report is drawn for other values
// too: the sizes of what is taken must not depend on the value. With --first it lists no tapes and ends at the first vector
// that does not agree.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const js = await import(pathToFileURL(process.argv[2]).href);
const agreed = {};
const wrong = [];
const collections = new Map();

function refusal(run) {
  try {
    return run();
  } catch (error) {
    if (error instanceof js.Refused) return { error: error.code };
    throw error;
  }
}

/** Draws that remember how many bytes were taken at a time. */
class Recorder {
  constructor(tape) {
    this.tape = new js.TapeDraws(tape);
    this.sizes = [];
  }

  take(count) {
    this.sizes.push(count);
    return this.tape.take(count);
  }
}

function* listDraws(moduli) {
  if (!moduli.length) return yield [];
  for (const rest of listDraws(moduli.slice(1))) for (let i = 0; i < moduli[0]; i++) yield [i, ...rest];
}

function checkLaw({ mechanism }, law) {
  const total = mechanism.moduli.reduce((product, modulus) => product * BigInt(modulus), 1n);
  for (let value = 0; value < mechanism.values; value++) {
    const counts = new Map();
    for (const drawn of listDraws(mechanism.moduli)) {
      const report = mechanism.select(value, drawn).join();
      counts.set(report, (counts.get(report) ?? 0n) + 1n);
    }
    const stated = law.filter(([of]) => of === value);
    if (stated.length !== counts.size) return false;
    for (const [, report, probability] of stated) {
      const [top, bottom = "1"] = probability.split("/");
      if ((counts.get(report.join()) ?? 0n) * BigInt(bottom) !== BigInt(top) * total) return false;
    }
  }
  return true;
}

function checkReport(vector) {
  const collection = collections.get(vector.collection);
  const run = (value) => {
    const draws = new Recorder(js.fromHex(vector.tape));
    const client = new js.Client(collection, null, new js.MemoryStore(js.fromHex(vector.secret)), draws);
    const found = refusal(() => client.draw(value, "once"));
    return { found, sizes: draws.sizes.join(), consumed: draws.tape.consumed };
  };
  const { found, sizes, consumed } = run(vector.value);
  if (vector.error !== undefined) return found.error === vector.error;
  const nonce = js.fromHex(found.nonce);
  const { domain } = collection;
  const others = domain.type === "listed" ? [domain.values[0], domain.values.at(-1)] : domain.type === "texts" ? ["other", ""] : [domain.low, domain.high];
  return (
    found.report.join() === vector.report.join() &&
    consumed === vector.consumed &&
    js.writeJson(collection, nonce, found.report) === vector.json &&
    js.toHex(js.writeCbor(collection, nonce, found.report)) === vector.cbor &&
    others.every((value) => run(value).sizes === sizes)
  );
}

function checkHistory(vector) {
  const store = new js.MemoryStore(js.fromHex(vector.secret), vector.limit, vector.conditional ?? false);
  return vector.steps.every((step) => {
    const draws = new js.TapeDraws(js.fromHex(step.tape));
    const client = new js.Client(collections.get(vector.collection), null, store, draws);
    const found = refusal(() => client.report(step.value, step.occasion));
    return (step.error === undefined ? found === step.json : found.error === step.error) && client.spent === step.spent;
  });
}

function checkBelow({ bound, tape, number, consumed, error }) {
  const draws = new js.TapeDraws(js.fromHex(tape));
  const found = refusal(() => js.below(draws, bound));
  return error === undefined ? found === number && draws.consumed === consumed : found.error === error;
}

const checks = {
  hash: ({ key, message, sha256, hmac }) =>
    js.toHex(js.sha256(js.fromHex(message))) === sha256 &&
    js.toHex(js.hmacSha256(js.fromHex(key), js.fromHex(message))) === hmac,
  stream: ({ secret, label, bytes }) =>
    js.toHex(new js.KeyedDraws(js.fromHex(secret), js.fromHex(label)).take(bytes.length / 2)) === bytes,
  below: checkBelow,
  collection({ text, id }) {
    collections.set(id, new js.Collection(text, id));
    return refusal(() => new js.Collection(text, id.replace(/^./, (digit) => (digit === "0" ? "1" : "0")))).error !== undefined;
  },
  law: ({ collection, law }) => checkLaw(collections.get(collection), law),
  report: checkReport,
  history: checkHistory,
};

/** Whether each number below a bound comes from equally many tapes of one or two bytes. */
function isUniform(bound) {
  const size = bound <= 256 ? 1 : 2;
  const counts = Array(bound).fill(0);
  for (let tape = 0; tape < 256 ** size; tape++) {
    const bytes = size === 1 ? Uint8Array.of(tape) : Uint8Array.of(tape >> 8, tape & 255);
    const found = refusal(() => js.below(new js.TapeDraws(bytes), bound));
    if (found.error === undefined) counts[found]++;
  }
  return counts.every((count) => count === counts[0] && count > 0);
}

function count(kind, good, what) {
  agreed[kind] = (agreed[kind] ?? 0) + (good ? 1 : 0);
  if (!good && wrong.length < 5) wrong.push(what);
}

const endsAtFirst = process.argv[3] === "--first";
const bounds = [...Array(257).keys(), 300, 512, 1000, 40000, 65535, 65536].filter((bound) => bound > 1);
for (const bound of endsAtFirst ? [] : bounds) count("uniform", isUniform(bound), { bound });
for await (const line of createInterface({ input: process.stdin })) {
  const vector = JSON.parse(line);
  let good = false;
  try {
    good = checks[vector.kind](vector);
  } catch (error) {
    vector.raised = String(error.stack);
  }
  count(vector.kind, good, vector);
  if (!good && endsAtFirst) break;
}
process.stdout.write(JSON.stringify({ agreed, wrong }) + "\n");
