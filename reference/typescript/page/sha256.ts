/** Computes SHA-256 of data that comes in chunks; a page that was opened as a file may have no `crypto.subtle`. */

const BLOCK_BYTES = 64;
const ROUND_CONSTANTS = roundConstants();

/** A digest that is kept up to date. */
export class Sha256 {
  private readonly state = new Int32Array([0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19]);
  private readonly block = new Uint8Array(BLOCK_BYTES);
  private readonly view = new DataView(this.block.buffer);
  private readonly words = new Int32Array(BLOCK_BYTES);
  private size = 0;

  /** Adds data. */
  update(data: Uint8Array): void {
    const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
    let start = 0;
    while (start < data.length) {
      const filled = this.size % BLOCK_BYTES;
      const count = Math.min(BLOCK_BYTES - filled, data.length - start);
      if (count === BLOCK_BYTES) this.mix(view, start);
      else this.block.set(data.subarray(start, start + count), filled);
      if (count < BLOCK_BYTES && filled + count === BLOCK_BYTES) this.mix(this.view, 0);
      this.size += count;
      start += count;
    }
  }

  /** Returns the digest in lower-case hexadecimal digits; call it once, last. */
  digest(): string {
    const bits = BigInt(this.size) * 8n;
    const padding = new Uint8Array(1 + ((BLOCK_BYTES * 2 - 9 - (this.size % BLOCK_BYTES)) % BLOCK_BYTES) + 8);
    padding[0] = 0x80;
    new DataView(padding.buffer).setBigUint64(padding.length - 8, bits);
    this.update(padding);
    return [...this.state].map((word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
  }

  private mix(view: DataView, at: number): void {
    const { words, state } = this;
    for (let i = 0; i < 16; i++) words[i] = view.getInt32(at + i * 4);
    for (let i = 16; i < 64; i++) {
      const before = words[i - 15]!;
      const two = words[i - 2]!;
      const low = turned(before, 7) ^ turned(before, 18) ^ (before >>> 3);
      const high = turned(two, 17) ^ turned(two, 19) ^ (two >>> 10);
      words[i] = words[i - 16]! + low + words[i - 7]! + high;
    }
    let [a, b, c, d] = [state[0]!, state[1]!, state[2]!, state[3]!];
    let [e, f, g, h] = [state[4]!, state[5]!, state[6]!, state[7]!];
    for (let i = 0; i < 64; i++) {
      const first = (h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) + ROUND_CONSTANTS[i]! + words[i]!) | 0;
      const second = ((turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      // Moved one by one: an array in each round would take twenty times as long.
      h = g;
      g = f;
      f = e;
      e = (d + first) | 0;
      d = c;
      c = b;
      b = a;
      a = (first + second) | 0;
    }
    state[0]! += a;
    state[1]! += b;
    state[2]! += c;
    state[3]! += d;
    state[4]! += e;
    state[5]! += f;
    state[6]! += g;
    state[7]! += h;
  }
}

function turned(word: number, bits: number): number {
  return (word >>> bits) | (word << (32 - bits));
}

/** Returns the first 32 bits of the fractions of the cube roots of the first 64 primes. */
function roundConstants(): Int32Array {
  const primes: bigint[] = [];
  for (let number = 2n; primes.length < 64; number++) {
    if (primes.every((prime) => number % prime !== 0n)) primes.push(number);
  }
  return new Int32Array(primes.map((prime) => Number(cubeRoot(prime << 96n) & 0xffffffffn)));
}

function cubeRoot(number: bigint): bigint {
  let [low, high] = [0n, 1n << 36n];
  while (high - low > 1n) {
    const middle = (low + high) / 2n;
    if (middle ** 3n <= number) low = middle;
    else high = middle;
  }
  return low;
}
